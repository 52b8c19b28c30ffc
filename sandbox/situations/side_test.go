package situations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/sandbox"
)

// A side is an API server and what decides for it.
type side struct {
	*sandbox.Cluster

	name   string
	client *http.Client
	audit  *auditLog
	// kinds has the kinds that the API server serves, by resource or resource/subresource with
	// group, and with version and group.
	kinds map[string]kind
}

type kind struct {
	apiVersion, kind string
	// served is the API version of the path.
	served     string
	namespaced bool
}

// newSide starts an API server without policies, in which only namespaces have a controller. With a
// configuration of admission plugins, Usher is one.
func newSide(t *testing.T, name, admissionConfig string) *side {
	t.Helper()
	folder := t.TempDir()
	s := &side{name: name, audit: &auditLog{path: filepath.Join(folder, "audit.log")}}
	policy := filepath.Join(folder, "audit.yaml")
	writeFile(t, policy, auditPolicy)
	options := sandbox.Options{
		Exclusive: true, Controllers: "namespace-controller", AdmissionConfig: admissionConfig,
		APIServerArgs: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + s.audit.path, "--disable-admission-plugins=ServiceAccount"},
	}
	if admissionConfig != "" {
		options.APIServerArgs = append(options.APIServerArgs, "--enable-admission-plugins=Usher")
	}
	s.Cluster = sandbox.Start(t, options)
	var err error
	if s.client, err = rest.HTTPClientFor(s.RESTConfig); err != nil {
		t.Fatal(err)
	}
	return s
}

// discover reads which kinds the API server serves.
func (s *side) discover(ctx context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.RESTConfig)
	if err != nil {
		return fmt.Errorf("discover kinds: %w", err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return fmt.Errorf("discover kinds: %w", err)
	}
	slices.SortFunc(lists, func(a, b *metav1.APIResourceList) int {
		return version.CompareKubeAwareVersionStrings(b.GroupVersion[strings.Index(b.GroupVersion, "/")+1:], a.GroupVersion[strings.Index(a.GroupVersion, "/")+1:])
	})
	kinds := map[string]kind{}
	for _, list := range lists {
		group, v, ok := strings.Cut(list.GroupVersion, "/")
		if !ok {
			group, v = "", list.GroupVersion
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			k := kind{served: list.GroupVersion, apiVersion: list.GroupVersion, kind: r.Kind, namespaced: r.Namespaced}
			if r.Version != "" {
				k.apiVersion = strings.TrimPrefix(r.Group+"/"+r.Version, "/")
			}
			name, sub, _ := strings.Cut(r.Name, "/")
			for _, full := range []string{strings.Trim(name+"."+group, "."), strings.Trim(name+"."+v+"."+group, ".")} {
				full = strings.Trim(full+"/"+sub, "/")
				// The newest version comes first.
				if _, ok := kinds[full]; !ok {
					kinds[full] = k
				}
			}
		}
	}
	s.kinds = kinds
	return nil
}

// An answer is what a client and the audit log see of a request.
type answer struct {
	Code     int
	Body     any
	Warnings []string
	Audit    map[string]string
}

func (a answer) String() string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(a)
	return text.String()
}

// verbs are the methods and media types of verbs.
var verbs = map[string]struct{ method, media string }{
	"create":           {http.MethodPost, "application/json"},
	"update":           {http.MethodPut, "application/json"},
	"patch":            {http.MethodPatch, string(types.MergePatchType)},
	"strategic":        {http.MethodPatch, string(types.StrategicMergePatchType)},
	"json":             {http.MethodPatch, string(types.JSONPatchType)},
	"apply":            {http.MethodPatch, string(types.ApplyPatchType)},
	"delete":           {http.MethodDelete, "application/json"},
	"deletecollection": {http.MethodDelete, "application/json"},
	"get":              {http.MethodGet, "application/json"},
}

// do makes a request in a namespace, and again until the answer shows what it is to.
func (s *side) do(ctx context.Context, namespace string, r *request) (answer, error) {
	var last answer
	for {
		a, err := s.once(ctx, namespace, r)
		if err == nil && (r.Until == "" || strings.Contains(a.String(), r.Until)) {
			return a, nil
		}
		if ctx.Err() != nil || r.Until == "" {
			return a, fmt.Errorf("%s: wait for %q: %w: %s", r.Do, r.Until, err, last)
		}
		if err == nil {
			last = a
		}
		_ = pause(ctx)
	}
}

func (s *side) once(ctx context.Context, namespace string, r *request) (answer, error) {
	sent, id, err := s.encode(ctx, namespace, r)
	if err != nil {
		return answer{}, err
	}
	response, err := s.client.Do(sent)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", r.Do, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", r.Do, err)
	}
	a := answer{Code: response.StatusCode}
	if a.Body, err = decode(body); err != nil {
		return answer{}, fmt.Errorf("%s: %w: %s", r.Do, err, body)
	}
	for _, header := range response.Header["Warning"] {
		a.Warnings = append(a.Warnings, strings.TrimSuffix(strings.TrimPrefix(header, `299 - "`), `"`))
	}
	if sent.Method == http.MethodGet {
		return a, nil
	}
	a.Audit, err = s.audit.annotations(ctx, id)
	return a, err
}

// encode returns the HTTP request, and the ID of its audit event.
func (s *side) encode(ctx context.Context, namespace string, r *request) (*http.Request, string, error) {
	verb, target, _ := strings.Cut(r.Do, " ")
	method, ok := verbs[verb]
	if !ok {
		return nil, "", fmt.Errorf("%s: unknown verb", r.Do)
	}
	resource, name, _ := strings.Cut(target, "/")
	name, sub, _ := strings.Cut(name, "/")
	proxied, _, _ := strings.Cut(sub, "/")
	k, ok := s.kinds[strings.Trim(resource+"/"+proxied, "/")]
	if !ok {
		return nil, "", fmt.Errorf("%s: unknown resource", r.Do)
	}
	if r.In != "" {
		namespace = r.In
	}
	body, err := json.Marshal(r.body(verb, k, name))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", r.Do, err)
	}
	plural, _, _ := strings.Cut(resource, ".")
	in := name
	if verb == "create" && sub == "" {
		in = ""
	}
	sent, err := http.NewRequestWithContext(ctx, method.method, s.RESTConfig.Host+k.path(namespace, plural, in, sub)+"?"+r.query(verb), bytes.NewReader(body))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", r.Do, err)
	}
	id := string(uuid.NewUUID())
	sent.Header.Set("Content-Type", method.media)
	sent.Header.Set("Audit-Id", id)
	// It is the manager of fields.
	sent.Header.Set("User-Agent", "situations")
	r.As.impersonate(sent.Header)
	return sent, id, nil
}

func (k kind) path(namespace, plural, name, sub string) string {
	path := "/apis/" + k.served
	if !strings.Contains(k.served, "/") {
		path = "/api/" + k.served
	}
	if k.namespaced {
		path += "/namespaces/" + namespace
	}
	for _, part := range []string{plural, name, sub} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

func (r *request) query(verb string) string {
	if verb == "apply" {
		return "fieldManager=situations&force=true&" + r.Query
	}
	return r.Query
}

// body returns the body with what is missing of the object's type and name.
func (r *request) body(verb string, k kind, name string) any {
	object, ok := r.With.(map[string]any)
	if !ok && (r.With != nil || verb != "create" && verb != "update") {
		return r.With
	}
	whole := with(map[string]any{}, object)
	switch verb {
	case "create", "update", "apply":
		metadata, _ := whole["metadata"].(map[string]any)
		if name == "" {
			name = "web"
		}
		if metadata["generateName"] == nil {
			whole["metadata"] = with(map[string]any{"name": name}, metadata)
		}
		return with(map[string]any{"apiVersion": k.apiVersion, "kind": k.kind}, whole)
	case "delete", "deletecollection":
		return with(map[string]any{"apiVersion": "v1", "kind": "DeleteOptions"}, whole)
	}
	return whole
}

func (u *user) impersonate(header http.Header) {
	if u.Name == "" {
		return
	}
	header.Set("Impersonate-User", u.Name)
	if u.UID != "" {
		header.Set("Impersonate-Uid", u.UID)
	}
	for _, group := range u.Groups {
		header.Add("Impersonate-Group", group)
	}
	for key, values := range u.Extra {
		for _, value := range values {
			header.Add("Impersonate-Extra-"+key, value)
		}
	}
}

// random is what differs between API servers by chance, or with the time.
var random = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`(resourceVersion\\*":\\*")\d+`), "${1}VERSION"},
	{regexp.MustCompile(`\bgenerated-[a-z0-9]{5}\b`), "generated-NAME"},
}

// decode decodes the body of an answer. Text that is no JSON stays text.
func decode(body []byte) (any, error) {
	text := string(body)
	for _, r := range random {
		text = r.what.ReplaceAllString(text, r.name)
	}
	if !strings.HasPrefix(text, "{") {
		return text, nil
	}
	var tree any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&tree)
	return tree, err
}
