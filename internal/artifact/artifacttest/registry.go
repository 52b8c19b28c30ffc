// Package artifacttest has a registry of OCI artifacts for tests.
package artifacttest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
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
	case len(path) > 1 && path[len(path)-2] == "referrers":
		r.refer(w, name)
	default:
		r.send(w, q, name)
	}
}

// refer sends an index of the manifests whose subject has a digest.
func (r *Registry) refer(w http.ResponseWriter, of string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	index.SchemaVersion = 2
	for _, name := range slices.Sorted(maps.Keys(r.content)) {
		var manifest ocispec.Manifest
		if r.types[name] != ocispec.MediaTypeImageManifest || !strings.HasPrefix(name, "sha256:") || json.Unmarshal(r.content[name], &manifest) != nil {
			continue
		}
		if manifest.Subject != nil && manifest.Subject.Digest.String() == of {
			described := describe(manifest.MediaType, r.content[name])
			described.ArtifactType = manifest.ArtifactType
			index.Manifests = append(index.Manifests, described)
		}
	}
	w.Header().Set("Content-Type", index.MediaType)
	_ = json.NewEncoder(w).Encode(index)
}

func describe(mediaType string, content []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
}

// Sign keeps a bundle that refers to what has a digest, as cosign does.
func (r *Registry) Sign(t testing.TB, of string, bundle []byte) {
	t.Helper()
	const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	layer := describe(bundleType, bundle)
	r.Put(layer.Digest.String(), "", bundle)
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundleType, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{layer}, Subject: &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(of)},
	}
	manifest.SchemaVersion = 2
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	r.Put(describe("", text).Digest.String(), manifest.MediaType, text)
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
