package stream_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/audit/result"
)

var pods = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}

// What requests of a stream look like.
const (
	all       = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
	firstPage = "limit=500"
	whole     = ""
	alive     = "limit=1"
)

func from(version int) string {
	return fmt.Sprintf("allowWatchBookmarks=true&resourceVersion=%d&watch=true", version)
}

// An answer is what an API server sends to one request.
type answer struct {
	// to is the query of the request.
	to string
	// code is 200 if it is 0; -1 is for a server that never answers, and -2 for one that accepts no
	// connections.
	code   int
	header map[string]string
	body   string
	// ending is how the response ends: nil means that it does not end.
	ending error
}

const (
	neverAnswers = -1
	refuses      = -2
)

// Ends of responses.
var (
	closed   = io.EOF
	errReset = errors.New("connection reset by peer")
)

// An apiServer gives prepared answers, and to further requests none. It needs no network, so that
// its time can be that of a test.
type apiServer struct {
	t       *testing.T
	answers []answer

	mu     sync.Mutex
	asked  []string
	accept []string
}

func (s *apiServer) client() rest.Interface {
	s.t.Helper()
	config := &rest.Config{Host: "http://cluster", QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: s})
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	a := s.take(r)
	switch a.code {
	case neverAnswers:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case refuses:
		return nil, errors.New("connection refused")
	case 0:
		a.code = http.StatusOK
	}
	body, to := io.Pipe()
	go func() {
		_, _ = io.WriteString(to, a.body)
		if a.ending != nil {
			_ = to.CloseWithError(a.ending)
			return
		}
		<-r.Context().Done()
		_ = to.CloseWithError(r.Context().Err())
	}()
	response := &http.Response{StatusCode: a.code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}
	for name, value := range a.header {
		response.Header.Set(name, value)
	}
	return response, nil
}

func (s *apiServer) take(r *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.accept = append(s.asked, r.URL.RawQuery), append(s.accept, r.URL.Path+" "+r.Header.Get("Accept"))
	n := len(s.asked)
	if n > len(s.answers) {
		return answer{}
	}
	return s.answers[n-1]
}

func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *apiServer) expected() []string {
	var all []string
	for _, a := range s.answers {
		all = append(all, a.to)
	}
	return all
}

// Events of a watch.

func added(name string, version int) string    { return event("ADDED", name, version) }
func modified(name string, version int) string { return event("MODIFIED", name, version) }
func deleted(name string, version int) string  { return event("DELETED", name, version) }

func event(kind, name string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"%d"}}}`+"\n", kind, name, version)
}

func bookmark(version int) string { return event("BOOKMARK", "", version) }

// ready is the bookmark after all objects.
func ready(version int) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}`+"\n", version)
}

func failed(code int, reason string) string {
	return `{"type":"ERROR","object":` + status(code, reason) + "}\n"
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"because","reason":%q,"code":%d}`, reason, code)
}

// list is a page of a list, as API servers encode it: items have no kind.
func list(version int, more string, names ...string) string {
	var items []string
	for i, name := range names {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d"}}`, name, i+1))
	}
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`+"\n", version, more, strings.Join(items, ","))
}
