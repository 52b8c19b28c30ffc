// Package artifacttest has a registry of OCI artifacts for tests.
package artifacttest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Registry keeps what is pushed to it, as the distribution specification of OCI has it.
type Registry struct {
	// Host is its address, without a scheme.
	Host string
	// Before, unless nil, may answer a request in its place, and then returns true.
	Before func(w http.ResponseWriter, r *http.Request) bool

	mu sync.Mutex
	// content is by digest and, for tags, by name.
	content map[string][]byte
	types   map[string]string
}

// Start starts a registry, which runs until the test ends.
func Start(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{content: map[string][]byte{}, types: map[string]string{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Put keeps content with a type under a name, and returns its digest.
func (r *Registry) Put(name, mediaType string, content []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	for _, key := range []string{name, digest} {
		r.content[key], r.types[key] = content, mediaType
	}
	return digest
}

// Replace keeps other content under a digest, as a hostile registry can.
func (r *Registry) Replace(digest string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[digest] = content
}

// ServeHTTP implements [http.Handler].
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.Before != nil && r.Before(w, q) {
		return
	}
	path := strings.Split(q.URL.Path, "/")
	name := path[len(path)-1]
	switch {
	case q.Method == http.MethodPost:
		w.Header().Set("Location", strings.TrimSuffix(q.URL.Path, "/")+"/1")
		w.WriteHeader(http.StatusAccepted)
	case q.Method == http.MethodPut:
		body, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Docker-Content-Digest", r.Put(name, q.Header.Get("Content-Type"), body))
		w.WriteHeader(http.StatusCreated)
	default:
		r.send(w, q, name)
	}
}

func (r *Registry) send(w http.ResponseWriter, q *http.Request, name string) {
	r.mu.Lock()
	content, ok := r.content[name]
	mediaType := r.types[name]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, q)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(content)))
	if q.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}
