package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/simulate/authz"
)

// A memory answers the reads of clients from objects in memory: it is the transport of a client, in
// place of an API server.
type memory struct {
	endpoints endpoints
	objects   map[schema.GroupResource][]map[string]any
}

func newMemory(all endpoints) *memory {
	return &memory{endpoints: all, objects: map[schema.GroupResource][]map[string]any{}}
}

// add stores an object. Of two with the same name the last one wins. Kinds unknown to the API
// server are omitted.
func (m *memory) add(tree map[string]any) error {
	e, err := m.endpoints.find(kindOfTree(tree), "", "")
	if err != nil {
		return nil //nolint:nilerr // as the comment says
	}
	name := authz.NameOf(tree)
	if name == "" {
		return fmt.Errorf("metadata.name is missing")
	}
	if e.namespaced && !strings.Contains(name, "/") {
		tree = runtime.DeepCopyJSON(tree)
		tree["metadata"].(map[string]any)["namespace"] = metav1.NamespaceDefault
		name = metav1.NamespaceDefault + "/" + name
	}
	resource := e.resource.GroupResource()
	for i, other := range m.objects[resource] {
		if authz.NameOf(other) == name {
			m.objects[resource][i] = tree
			return nil
		}
	}
	m.objects[resource] = append(m.objects[resource], tree)
	return nil
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// addNamespaces adds those that every cluster has, and the label that every one has.
func (m *memory) addNamespaces() {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		if m.object(namespaces, name) == nil {
			tree := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
			m.objects[namespaces] = append(m.objects[namespaces], tree)
		}
	}
	for i, tree := range m.objects[namespaces] {
		m.objects[namespaces][i] = withNameLabel(tree)
	}
}

func withNameLabel(tree map[string]any) map[string]any {
	tree = runtime.DeepCopyJSON(tree)
	metadata := tree["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
		metadata["labels"] = labels
	}
	labels["kubernetes.io/metadata.name"] = metadata["name"]
	return tree
}

// object is the one with a name, with the namespace before a slash; nil if there is none.
func (m *memory) object(resource schema.GroupResource, name string) map[string]any {
	for _, tree := range m.objects[resource] {
		if authz.NameOf(tree) == name {
			return tree
		}
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (m *memory) RoundTrip(request *http.Request) (*http.Response, error) {
	gv, rest, ok := splitPath(request.URL.Path)
	if request.Method != http.MethodGet || !ok {
		return answer(request, http.StatusNotFound, notFound(request.URL.Path)), nil
	}
	namespace := ""
	if len(rest) > 2 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	resource := gv.WithResource(rest[0])
	e := m.endpoint(resource)
	switch {
	case e == nil || len(rest) > 2:
		return answer(request, http.StatusNotFound, notFound(request.URL.Path)), nil
	case len(rest) == 2:
		name := rest[1]
		if namespace != "" {
			name = namespace + "/" + name
		}
		tree := m.object(resource.GroupResource(), name)
		if tree == nil {
			status := apierrors.NewNotFound(resource.GroupResource(), rest[1]).Status()
			status.APIVersion, status.Kind = "v1", "Status"
			return answer(request, http.StatusNotFound, status), nil
		}
		return answer(request, http.StatusOK, e.served(tree)), nil
	}
	selector, err := labels.Parse(request.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	items := m.list(e, namespace, selector)
	if request.URL.Query().Get("watch") != "" {
		return watch(request, e, items), nil
	}
	apiVersion, kind := e.kind.ToAPIVersionAndKind()
	return answer(request, http.StatusOK, map[string]any{
		"apiVersion": apiVersion, "kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items,
	}), nil
}

// splitPath splits the path of an API request: group and version, and the rest.
func splitPath(path string) (schema.GroupVersion, []string, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, parts[2:], true
	case len(parts) > 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], true
	}
	return schema.GroupVersion{}, nil, false
}

func (m *memory) endpoint(resource schema.GroupVersionResource) *endpoint {
	for i := range m.endpoints {
		if e := &m.endpoints[i]; e.resource == resource && e.subresource == "" {
			return e
		}
	}
	return nil
}

func (m *memory) list(e *endpoint, namespace string, selector labels.Selector) []any {
	items := []any{}
	for _, tree := range m.objects[e.resource.GroupResource()] {
		owner, _, ok := strings.Cut(authz.NameOf(tree), "/")
		if (namespace == "" || ok && owner == namespace) && selector.Matches(labelsOfTree(tree)) {
			items = append(items, e.served(tree))
		}
	}
	return items
}

func labelsOfTree(tree map[string]any) labels.Set {
	object := unstructured.Unstructured{Object: tree}
	return object.GetLabels()
}

// served is an object in the version of e.
func (e *endpoint) served(tree map[string]any) map[string]any {
	tree = runtime.DeepCopyJSON(tree)
	tree["apiVersion"], tree["kind"] = e.kind.ToAPIVersionAndKind()
	metadata := tree["metadata"].(map[string]any)
	if metadata["resourceVersion"] == nil {
		metadata["resourceVersion"] = "1"
	}
	return tree
}

// watch streams the existing objects, if the client requested that, and then nothing: nothing
// changes.
func watch(request *http.Request, e *endpoint, items []any) *http.Response {
	var events bytes.Buffer
	encoder := json.NewEncoder(&events)
	if request.URL.Query().Get("sendInitialEvents") == "true" {
		for _, item := range items {
			_ = encoder.Encode(map[string]any{"type": "ADDED", "object": item})
		}
		apiVersion, kind := e.kind.ToAPIVersionAndKind()
		_ = encoder.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
				"resourceVersion": "1",
				"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
			},
		}})
	}
	response := answer(request, http.StatusOK, nil)
	response.Body = &stream{events: &events, done: request.Context().Done(), closed: make(chan struct{})}
	return response
}

// A stream has its events at once, and then nothing until somebody ends it.
type stream struct {
	events *bytes.Buffer
	done   <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (s *stream) Read(into []byte) (int, error) {
	if s.events.Len() > 0 {
		return s.events.Read(into)
	}
	select {
	case <-s.done:
	case <-s.closed:
	}
	return 0, io.EOF
}

func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func answer(request *http.Request, code int, body any) *http.Response {
	encoded, _ := json.Marshal(body)
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(encoded)), Request: request,
	}
}

func notFound(what string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: what,
	}
}
