package transport_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/transport"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestDoor(t *testing.T) {
	t.Parallel()
	doortest.Run(t, func(_ *testing.T, d usher.Decider) doortest.Door { return door{d} })
}

// A door is a client, and a server that has the old object of each request.
type door struct{ decider usher.Decider }

func (d door) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	server := newRecorder(t, r)
	config, err := transport.Wrap(&rest.Config{Host: server.URL}, d.decider, transport.Options{
		Covers: func(q *usher.Request) bool { return q.Phase == r.Phase },
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(httpRequest(t, server.URL, r))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: warnings(t, response)}
	sent := server.sent(r)
	if response.StatusCode >= http.StatusBadRequest {
		var status metav1.Status
		if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		if len(sent) > 0 {
			t.Errorf("what was denied was sent: %s", sent)
		}
		answer.Verdict, answer.Code, answer.Reason, answer.Message = usher.Deny, status.Code, string(status.Reason), status.Message
		if answer.Code != int32(response.StatusCode) {
			t.Errorf("status code %d of a response with %d", answer.Code, response.StatusCode)
		}
		if sent, err = r.Object.Raw(); err != nil {
			t.Fatal(err)
		}
	}
	if r.Operation == usher.Delete {
		return answer
	}
	if answer.Object, err = usher.RawObject(sent).Tree(); err != nil {
		t.Fatal(err)
	}
	return answer
}

var warning = regexp.MustCompile(`^299 - "(.*)"$`)

func warnings(t *testing.T, response *http.Response) []string {
	t.Helper()
	var texts []string
	for _, header := range response.Header["Warning"] {
		match := warning.FindStringSubmatch(header)
		if match == nil {
			t.Fatalf("Warning: %s", header)
		}
		texts = append(texts, match[1])
	}
	return texts
}

// httpRequest is what a client sends for r.
func httpRequest(t *testing.T, server string, r *usher.Request) *http.Request {
	t.Helper()
	method := map[usher.Operation]string{
		usher.Create: http.MethodPost, usher.Update: http.MethodPut, usher.Delete: http.MethodDelete, usher.Connect: http.MethodGet,
	}[r.Operation]
	path := fmt.Sprintf("%s/api/v1/namespaces/%s/%s", server, r.Namespace, r.Resource.Resource)
	if r.Operation != usher.Create {
		path += "/" + r.Name
	}
	if r.Subresource != "" {
		path += "/" + r.Subresource
	}
	query := url.Values{}
	if r.DryRun {
		query.Set("dryRun", "All")
	}
	var body io.Reader
	raw, err := r.Object.Raw()
	if err != nil {
		t.Fatal(err)
	}
	switch r.Operation {
	case usher.Connect:
		query.Set("container", "main")
		query.Set("command", "sh")
	case usher.Create, usher.Update:
		body = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, path+"?"+query.Encode(), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return request
}

// A recorder is a server that knows a user and an object, and keeps what is written.
type recorder struct {
	*httptest.Server

	mu      sync.Mutex
	written []*http.Request
	bodies  [][]byte
}

func newRecorder(t *testing.T, r *usher.Request) *recorder {
	t.Helper()
	old, err := r.OldObject.Raw()
	if err != nil {
		t.Fatal(err)
	}
	server := &recorder{}
	server.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(request.URL.Path, "/selfsubjectreviews"):
			_ = json.NewEncoder(w).Encode(reviewOf(r.User))
		case request.Method == http.MethodGet && r.Operation != usher.Connect:
			_, _ = w.Write(old)
		default:
			body, _ := io.ReadAll(request.Body)
			server.mu.Lock()
			defer server.mu.Unlock()
			server.written, server.bodies = append(server.written, request), append(server.bodies, body)
			_, _ = w.Write([]byte("{}"))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// sent is the object that came, nil if none did.
func (s *recorder) sent(r *usher.Request) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) == 0 {
		return nil
	}
	if r.Operation != usher.Connect {
		return s.bodies[0]
	}
	query := s.written[0].URL.Query()
	object, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "PodExecOptions", "container": query.Get("container"), "command": query["command"],
	})
	return object
}

func reviewOf(user usher.User) *authenticationv1.SelfSubjectReview {
	review := &authenticationv1.SelfSubjectReview{}
	review.Status.UserInfo = authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if review.Status.UserInfo.Extra == nil {
			review.Status.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
		}
		review.Status.UserInfo.Extra[key] = values
	}
	return review
}
