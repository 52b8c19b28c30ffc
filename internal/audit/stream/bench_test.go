package stream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/audit/stream"
)

// BenchmarkStream reads 20,000 pods of 4.3 KB over HTTP/2, with TLS. The figure has the side of the
// server, too.
func BenchmarkStream(b *testing.B) {
	const pods20k = 20_000
	managed := strings.Repeat(`{"manager":"kubelet","operation":"Update","fieldsV1":{"f:status":{"f:conditions":{}}}},`, 20)
	pod := func(to io.Writer, i int) {
		_, _ = fmt.Fprintf(to, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"shop","resourceVersion":"%d","managedFields":[%s{}]},"spec":{"containers":[{"name":"app","image":"registry.example.com/web:%d","env":[%s{}]}]}}}`+"\n",
			i, i+1, managed, i, strings.Repeat(`{"name":"SOME_SETTING","value":"some value of it"},`, 50))
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := range pods20k {
			pod(w, i)
		}
		_, _ = io.WriteString(w, ready(pods20k))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, server.Client())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		s := &counter{end: cancel}
		stream.New(client, pods, s, stream.Options{}).Run(ctx)
		if s.set != pods20k {
			b.Fatalf("%d objects", s.set)
		}
		b.SetBytes(s.bytes)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/pods20k, "µs/object")
}

// A counter counts what is set.
type counter struct {
	set   int
	bytes int64
	end   func()
}

func (c *counter) Begin()   { c.set, c.bytes = 0, 0 }
func (c *counter) End()     { c.end() }
func (*counter) Heard()     {}
func (*counter) Fail(error) {}
func (c *counter) Set(object []byte) error {
	c.set++
	c.bytes += int64(len(object))
	return nil
}
func (*counter) Delete([]byte) error { return nil }
