package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox"
)

// TestSimulate sends what is in testdata/simulate.yaml to a real API server, and asks usher
// simulate about it: once on a copy of the cluster in files, once on the cluster itself.
// Outcome, error, warnings, audit annotations and final object must be the same.
func TestSimulate(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	policy := writeFile(t, "audit.yaml", `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Request"}]}`)
	r := newRig(t, sandbox.Options{Exclusive: true, APIServerArgs: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + audit}})
	s := &simulation{rig: r, hooks: newHooks(t), audit: audit}
	situations := s.load(t)
	s.install(t, situations)
	folder := s.dump(t)
	for _, situation := range situations {
		s.prepare(t, situation)
	}
	// The live cluster is looked at first: what the requests store is not in it yet.
	live := s.simulate(t, situations, "--from-cluster", "--kubeconfig="+r.Kubeconfig)
	copied := s.simulate(t, situations, "--cluster-files="+folder)
	t.Run("situations", func(t *testing.T) {
		for _, situation := range situations {
			t.Run(situation.Name, func(t *testing.T) {
				t.Parallel()
				want := s.send(t, situation)
				if want.Code != situation.Code {
					t.Fatalf("the API server answers %d, and the situation is about %d: %s", want.Code, situation.Code, want.Error)
				}
				if diff := cmp.Diff(want, copied[situation.Name], inTime(want)); diff != "" {
					t.Errorf("from files: -API server +simulate:\n%s", diff)
				}
				if diff := cmp.Diff(want, live[situation.Name], inTime(want)); diff != "" {
					t.Errorf("from the cluster: -API server +simulate:\n%s", diff)
				}
			})
		}
	})
}

// TestBuiltInEndpoints compares what usher simulate believes that an API server serves with
// what one serves.
func TestBuiltInEndpoints(t *testing.T) {
	t.Parallel()
	r := &rig{Cluster: sandbox.Start(t)}
	r.connect(t, r.RESTConfig)
	_, lists, err := r.kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, list := range lists {
		for i := range list.APIResources {
			if line := endpointLine(list.GroupVersion, &list.APIResources[i]); line != "" {
				served = append(served, line)
			}
		}
	}
	slices.Sort(served)
	content, err := os.ReadFile(filepath.Join(root, "simulate", "resources.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "#") {
			known = append(known, strings.TrimSpace(line))
		}
	}
	slices.Sort(known)
	if diff := cmp.Diff(served, known); diff != "" {
		t.Errorf("-API server +resources.txt:\n%s", diff)
	}
}

// endpointLine is a line of resources.txt; empty for what somebody has installed.
func endpointLine(gv string, r *metav1.APIResource) string {
	group, _, _ := strings.Cut(gv, "/")
	if strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
		return ""
	}
	kind := gv
	if r.Version != "" {
		kind = schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
	}
	scope := "cluster"
	if r.Namespaced {
		scope = "namespaced"
	}
	verbs := slices.Sorted(slices.Values(r.Verbs))
	return strings.Join([]string{gv, r.Name, kind, r.Kind, scope, strings.Join(verbs, ",")}, " ")
}

// An answered is what came of a request.
type answered struct {
	Code     int
	Error    string
	Warnings []string
	Audit    map[string]string
	Object   map[string]any
}

// inTime leaves out the audit annotations of a request that takes too long: the server writes
// the event when time is up, and what a plugin says at that moment comes too late or not.
func inTime(want answered) cmp.Option {
	if want.Code == http.StatusGatewayTimeout {
		return cmpopts.IgnoreFields(answered{}, "Audit")
	}
	return nil
}

type simulation struct {
	*rig

	hooks *hooks
	audit string
}

// A situation is one document of testdata/simulate.yaml.
type situation struct {
	Name       string           `json:"name"`
	Mutating   []map[string]any `json:"mutating"`
	Validating []map[string]any `json:"validating"`
	Policies   []map[string]any `json:"policies"`
	Mutations  []map[string]any `json:"mutations"`
	Objects    []map[string]any `json:"objects"`
	Request    request          `json:"request"`
	Code       int              `json:"code"`

	namespace string
}

// A request is what a client asks of the API server.
type request struct {
	Operation   string         `json:"operation"`
	Resource    string         `json:"resource"`
	Subresource string         `json:"subresource"`
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Object      map[string]any `json:"object"`
	Old         map[string]any `json:"old"`
	As          string         `json:"as"`
	Groups      []string       `json:"groups"`
	DryRun      bool           `json:"dryRun"`
	Timeout     string         `json:"timeout"`
}

func (s *simulation) load(t *testing.T) []*situation {
	t.Helper()
	content, err := os.ReadFile("testdata/simulate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []*situation
	for i, document := range strings.Split(string(content), "\n---\n") {
		namespace := fmt.Sprintf("simulate-%d", i)
		name := regexp.MustCompile(`(?m)^name: (.*)$`).FindStringSubmatch(document)[1]
		document = strings.NewReplacer("$NS", namespace, "$NAME", name).Replace(document)
		one := &situation{namespace: namespace}
		if err := yaml.UnmarshalStrict([]byte(document), one); err != nil {
			t.Fatalf("situation %s: %v", name, err)
		}
		one.complete()
		all = append(all, one)
	}
	return all
}

// complete fills in what situations do not say: a ConfigMap of their name is created.
func (s *situation) complete() {
	q := &s.Request
	if q.Operation == "" {
		q.Operation = "CREATE"
	}
	if q.Resource == "" {
		q.Resource = "configmaps.v1."
	}
	for _, object := range []*map[string]any{&q.Object, &q.Old} {
		if *object == nil && (object == &q.Old || q.Operation == "DELETE") {
			continue
		}
		base := map[string]any{}
		if (*object)["apiVersion"] == nil {
			base = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": s.Name}}
		}
		*object = merged(base, *object)
		if metadata, ok := (*object)["metadata"].(map[string]any); ok {
			if metadata["name"] == "" {
				delete(metadata, "name")
			}
			if q.namespaced() {
				metadata["namespace"] = s.in()
			}
		}
	}
	if metadata, ok := merged(q.Old, q.Object)["metadata"].(map[string]any); ok && q.Name == "" {
		q.Name, _ = metadata["name"].(string)
	}
}

// in is the namespace of the request.
func (s *situation) in() string {
	if s.Request.Namespace != "" {
		return s.Request.Namespace
	}
	return s.namespace
}

func merged(base, over map[string]any) map[string]any {
	result := maps.Clone(base)
	if result == nil {
		result = map[string]any{}
	}
	for key, value := range over {
		left, leftOK := result[key].(map[string]any)
		right, rightOK := value.(map[string]any)
		if leftOK && rightOK {
			value = merged(left, right)
		}
		result[key] = value
	}
	return result
}

// prepare writes the object that an update or a deletion is about. Nothing is asked then.
func (s *simulation) prepare(t *testing.T, one *situation) {
	t.Helper()
	q := &one.Request
	if q.Old == nil {
		return
	}
	current, err := s.get(t, one)
	if err != nil {
		t.Fatal(err)
	}
	q.Old = current
	if q.Operation == "UPDATE" {
		q.Object = merged(current, q.Object)
	}
}

// send asks the API server.
func (s *simulation) send(t *testing.T, one *situation) answered {
	t.Helper()
	q := &one.Request
	config := rest.CopyConfig(s.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: q.As, Groups: q.Groups}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	method := map[string]string{"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE", "CONNECT": "POST"}[q.Operation]
	body, err := json.Marshal(q.Object)
	if err != nil {
		t.Fatal(err)
	}
	if q.Operation == "DELETE" || q.Operation == "CONNECT" {
		body = nil
	}
	response, id := s.exchange(t, client, one.Name, func() (*http.Request, error) {
		return http.NewRequestWithContext(testContext(t), method, config.Host+q.path(one.in()), bytes.NewReader(body))
	})
	defer response.Body.Close()
	var tree map[string]any
	if err := json.NewDecoder(response.Body).Decode(&tree); err != nil {
		t.Fatal(err)
	}
	got := answered{Code: response.StatusCode, Audit: s.annotations(t, id)}
	warnings, _ := utilnet.ParseWarningHeaders(response.Header["Warning"])
	for _, w := range warnings {
		got.Warnings = append(got.Warnings, w.Text)
	}
	if got.Code >= http.StatusBadRequest {
		got.Error = statusText(t, tree)
	} else if q.Operation != "DELETE" {
		got.Object = comparable(tree)
	}
	return got
}

// exchange sends a request until it is answered, and returns the ID of the answered attempt in
// the audit log. An API server that runs out of time may break off instead of answering 504.
func (s *simulation) exchange(t *testing.T, client *http.Client, name string, next func() (*http.Request, error)) (*http.Response, string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		request, err := next()
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("simulate-%s-%d", name, attempt)
		request.Header.Set("Audit-Id", id)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err == nil {
			return response, id
		}
		if attempt == 5 || !strings.Contains(err.Error(), "stream error") {
			t.Fatal(err)
		}
	}
}

// path is that of the request, with its query.
func (q *request) path(namespace string) string {
	resource, version, group := q.resource()
	path := "/apis/" + group + "/" + version
	if group == "" {
		path = "/api/" + version
	}
	if q.namespaced() {
		path += "/namespaces/" + namespace
	}
	path += "/" + resource
	if q.Operation != "CREATE" {
		path += "/" + q.Name
	}
	if q.Subresource != "" {
		path += "/" + q.Subresource
	}
	query := []string{}
	if q.DryRun {
		query = append(query, "dryRun=All")
	}
	if q.Timeout != "" {
		query = append(query, "timeout="+q.Timeout)
	}
	if q.Operation == "CONNECT" {
		query = append(query, "command=sh&container=main&stdout=true&stderr=true")
	}
	return path + "?" + strings.Join(query, "&")
}

// simulate asks usher about all situations, those with the same flags at once.
func (s *simulation) simulate(t *testing.T, situations []*situation, args ...string) map[string]answered {
	t.Helper()
	alike := map[string][]*situation{}
	for _, one := range situations {
		flags := strings.Join(one.flags(), "\n")
		alike[flags] = append(alike[flags], one)
	}
	answers := map[string]answered{}
	for flags, group := range alike {
		all := append([]string{"simulate", "-o=json"}, args...)
		all = append(all, strings.Split(flags, "\n")...)
		for _, one := range group {
			all = append(all, "-f", writeObject(t, one.subject()))
		}
		traces := runSimulate(t, all)
		if len(traces) != len(group) {
			t.Fatalf("usher %s tells of %d requests", strings.Join(all, " "), len(traces))
		}
		for i, one := range group {
			answers[one.Name] = traces[i].answered(t, one)
		}
	}
	return answers
}

// flags tell usher what kind of request it is.
func (s *situation) flags() []string {
	q := &s.Request
	flags := []string{"--operation=" + q.Operation}
	for _, flag := range []struct{ name, value string }{{"as", q.As}, {"timeout", q.Timeout}, {"subresource", q.Subresource}} {
		if flag.value != "" {
			flags = append(flags, "--"+flag.name+"="+flag.value)
		}
	}
	for _, group := range q.Groups {
		flags = append(flags, "--as-group="+group)
	}
	if q.DryRun {
		flags = append(flags, "--dry-run")
	}
	if q.Operation == "CONNECT" {
		flags = append(flags, "--name="+q.Name, "--namespace="+s.in())
	}
	return flags
}

// subject is the object that usher is given.
func (s *situation) subject() map[string]any {
	if s.Request.Operation == "DELETE" && s.Request.Old != nil {
		return s.Request.Old
	}
	return s.Request.Object
}

// A simulated is a trace of usher simulate, as far as it is compared.
type simulated struct {
	Error    map[string]any    `json:"error"`
	Warnings []string          `json:"warnings"`
	Audit    map[string]string `json:"audit"`
	Result   map[string]any    `json:"result"`
}

func runSimulate(t *testing.T, args []string) []simulated {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(testContext(t), binary, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("usher %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	var report struct {
		Requests []simulated `json:"requests"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("usher %s says %v: %s", strings.Join(args, " "), err, out)
	}
	return report.Requests
}

func (s *simulated) answered(t *testing.T, one *situation) answered {
	t.Helper()
	got := answered{Code: http.StatusOK, Warnings: s.Warnings, Audit: s.Audit}
	if one.Request.Operation == "CREATE" {
		got.Code = http.StatusCreated
	}
	if got.Audit == nil {
		got.Audit = map[string]string{}
	}
	if s.Error != nil {
		code, _ := s.Error["code"].(float64)
		got.Code, got.Error = int(code), statusText(t, s.Error)
	} else if one.Request.Operation != "DELETE" {
		got.Object = comparable(s.Result)
	}
	return got
}

// uid is made up for every request.
var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// statusText is a Status, without what differs by chance.
func statusText(t *testing.T, tree map[string]any) string {
	t.Helper()
	encoded, err := yaml.Marshal(map[string]any{
		"code": tree["code"], "reason": tree["reason"], "message": tree["message"], "details": tree["details"],
	})
	if err != nil {
		t.Fatal(err)
	}
	return uid.ReplaceAllString(string(encoded), "UID")
}

// comparable is an object without what only a server can know.
func comparable(tree map[string]any) map[string]any {
	object := (&unstructured.Unstructured{Object: tree}).DeepCopy()
	for _, field := range []string{"managedFields", "uid", "creationTimestamp", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if prefix := object.GetGenerateName(); prefix != "" && strings.HasPrefix(object.GetName(), prefix) {
		object.SetName(prefix)
	}
	return object.Object
}

// annotations are those of admission in the audit event of a request.
func (s *simulation) annotations(t *testing.T, id string) map[string]string {
	t.Helper()
	found := map[string]string{}
	eventually(t, "audit event "+id, func() error {
		content, err := os.ReadFile(s.audit)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(content)) {
			var event struct {
				AuditID     string            `json:"auditID"`
				Stage       string            `json:"stage"`
				Annotations map[string]string `json:"annotations"`
			}
			if json.Unmarshal([]byte(line), &event) != nil || event.AuditID != id || event.Stage != "ResponseComplete" {
				continue
			}
			for key, value := range event.Annotations {
				if !strings.HasPrefix(key, "authorization.k8s.io/") && !strings.HasPrefix(key, "apiserver.latency.k8s.io/") {
					found[key] = value
				}
			}
			return nil
		}
		return errors.New("it is not in the log yet")
	})
	return found
}

func writeObject(t *testing.T, object map[string]any) string {
	t.Helper()
	encoded, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "object.yaml", string(encoded))
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
