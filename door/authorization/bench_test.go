package authorization_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
)

// null is the cheapest webhook there can be: it decodes nothing and always says the same.
func null(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`+"\n")
}

// BenchmarkHTTP asks over HTTPS and HTTP/2, as API servers do, a webhook that costs nothing,
// and the door with a decider that costs nothing. Both have the client's work in it.
func BenchmarkHTTP(b *testing.B) {
	body := review("v1")
	for _, row := range []struct {
		name    string
		handler http.Handler
	}{
		{"null", http.HandlerFunc(null)},
		{"door", authorization.Authorize(always(usher.Decision{}), quiet())},
	} {
		b.Run(row.name, func(b *testing.B) {
			server := httptest.NewUnstartedServer(row.handler)
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					response, err := client.Post(server.URL+"/authorize?timeout=3s", "application/json", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
						b.Errorf("%d, %v", response.StatusCode, err)
					}
					_ = response.Body.Close()
				}
			})
		})
	}
}

// BenchmarkHandler is what the door adds to net/http.
func BenchmarkHandler(b *testing.B) {
	h := authorization.Authorize(always(usher.Decision{}), quiet())
	body := strings.NewReader(review("v1"))
	r := httptest.NewRequest(http.MethodPost, "/authorize?timeout=3s", nil)
	r.Header.Set("Content-Type", "application/json")
	w := &nothing{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = body.Seek(0, io.SeekStart)
		r.Body = io.NopCloser(body)
		h.ServeHTTP(w, r)
	}
}

// nothing is a response writer that costs nothing.
type nothing struct{ header http.Header }

func (n *nothing) Header() http.Header         { return n.header }
func (n *nothing) Write(p []byte) (int, error) { return len(p), nil }
func (n *nothing) WriteHeader(int)             {}

// BenchmarkDecode reads a review of about a kilobyte.
func BenchmarkDecode(b *testing.B) {
	body := []byte(review("v1"))
	body = bytes.Replace(body, []byte(`"uid":"u-1"`), []byte(`"uid":"`+strings.Repeat("u", 1024-len(body)+3)+`"`), 1)
	b.Run("door", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		decode := authorization.Decoder()
		for b.Loop() {
			if _, err := decode(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var r authorizationv1.SubjectAccessReview
			if err := json.Unmarshal(body, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
