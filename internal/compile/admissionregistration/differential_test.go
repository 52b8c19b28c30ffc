package admissionregistration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/simulate/authz"
	"github.com/usher-dev/usher/simulate"
)

// answer is what can be seen of a request.
type answer struct {
	Admitted bool
	Code     int32
	Reason   metav1.StatusReason
	Message  string
	Warnings []string
	Audit    map[string]string
	// Said are the validations that deny, with their messages or errors, by policy and binding.
	Said map[string][]string
}

// A twin decides by upstream's plugin, and by Usher.
type twin struct {
	sim *simulate.Simulator
	// bare is without policies: it tells what the object is that policies see.
	bare    *simulate.Simulator
	decider usher.Decider
	// ignores says which policies ignore errors. The simulator tells these nevertheless.
	ignores map[string]bool
}

func newTwin(t *testing.T, objects []map[string]any, policies ...api.Object) *twin {
	t.Helper()
	all := slices.Clone(objects)
	ignores := map[string]bool{}
	var read []api.Policy
	for _, p := range policies {
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(raw, &tree); err != nil {
			t.Fatal(err)
		}
		all = append(all, tree)
		read = append(read, api.Policy{Object: p})
		if vap, ok := p.(*admissionv1.ValidatingAdmissionPolicy); ok && vap.Spec.FailurePolicy != nil {
			ignores[vap.Name] = *vap.Spec.FailurePolicy == admissionv1.Ignore
		}
	}
	access, err := authz.Server(objects)
	if err != nil {
		t.Fatal(err)
	}
	rules, problems := compile.Policies(read)
	for _, p := range problems {
		t.Log(p)
	}
	return &twin{
		ignores: ignores,
		sim:     simulator(t, all), bare: simulator(t, objects),
		decider: engine.New(index.New(rules), fact.Resolvers{fact.Objects: object.FromTrees(withNamespaces(objects)), fact.Questions: fact.Access(access)}, engine.Options{
			// Upstream stops nothing before the budget is spent.
			RuleTimeout: time.Minute,
		}),
	}
}

func simulator(t *testing.T, objects []map[string]any) *simulate.Simulator {
	t.Helper()
	// The cluster changes what it is made of.
	cluster, err := simulate.FromObjects(decode(t, encode(t, objects)))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := simulate.New(t.Context(), cluster, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim
}

func encode(t *testing.T, objects []map[string]any) string {
	t.Helper()
	var texts []string
	for _, tree := range objects {
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "\n---\n")
}

func decode(t testing.TB, text string) []map[string]any {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	trees, err := object.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return trees
}

// compare asks both about a request, and returns what upstream answers.
func (w *twin) compare(t *testing.T, request simulate.Request) answer {
	t.Helper()
	bare, trace := w.run(t, request)
	want, got := w.upstream(trace), w.usher(t, &request, bare)
	// The simulator tells nothing of policies with errors before their first validation, or with
	// parameters that are several.
	maps.DeleteFunc(got.Said, func(name string, _ []string) bool { return len(want.Said[name]) == 0 })
	for _, a := range []answer{want, got} {
		// Upstream takes objects of params in any order.
		slices.Sort(a.Warnings)
		for _, said := range a.Said {
			slices.Sort(said)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s of %v: -upstream +usher:\n%s", request.Operation, bare.Resource, diff)
	}
	return want
}

// run asks upstream about a request, without policies and with them.
func (w *twin) run(t *testing.T, request simulate.Request) (bare, trace *simulate.Trace) {
	t.Helper()
	bare, err := w.bare.Run(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if !bare.Admitted {
		t.Fatalf("the request is refused without policies: %s", bare.Error.Message)
	}
	trace, err = w.sim.Run(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return bare, trace
}

func (w *twin) upstream(trace *simulate.Trace) answer {
	a := answer{Admitted: trace.Admitted, Warnings: trace.Warnings, Audit: trace.Audit, Said: map[string][]string{}}
	if trace.Error != nil {
		a.Code, a.Reason = trace.Error.Code, trace.Error.Reason
		_, a.Message, _ = strings.Cut(trace.Error.Message, "is forbidden: ")
	}
	for i := range trace.Steps {
		step := &trace.Steps[i]
		if step.Plugin != "ValidatingAdmissionPolicy" || !strings.Contains(step.Name, "/") {
			continue
		}
		policy, _, _ := strings.Cut(step.Name, "/")
		for _, c := range step.Checks {
			if c.Value == "error" && w.ignores[policy] {
				continue
			}
			if strings.HasPrefix(c.Name, "validations") && c.Value != "true" && c.Message != "" {
				a.Said[step.Name] = append(a.Said[step.Name], "spec."+c.Name+": "+c.Message)
			}
		}
	}
	if len(a.Audit) == 0 {
		a.Audit = nil
	}
	return a
}

func (w *twin) usher(t *testing.T, request *simulate.Request, bare *simulate.Trace) answer {
	t.Helper()
	q := policytest.Request{
		Operation: request.Operation, Namespace: bare.Namespace, Name: bare.Name, Subresource: request.Subresource,
		OldObject: request.OldObject, DryRun: request.DryRun,
		User: userOf(request.User),
	}
	if request.Operation == usher.Delete {
		q.OldObject = bare.Result
	} else {
		q.Object = bare.Result
	}
	if q.OldObject != nil {
		q.OldObject = w.asServed(t, request, q.OldObject)
	}
	if request.Options != nil {
		q.Options = request.Options
	}
	r, err := q.For(usher.Validate)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, _, _ := strings.Cut(bare.Resource, "/")
	r.Resource.Resource, r.Resource.Group, _ = strings.Cut(endpoint, ".")
	if request.Options == nil {
		r.Options = optionsOf(request)
	}
	d, err := w.decider.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{Admitted: d.Verdict != usher.Deny, Warnings: d.Warnings, Said: map[string][]string{}}
	if !a.Admitted {
		a.Code, a.Reason, a.Message = d.Code, metav1.StatusReason(d.Reason), d.Message
	}
	for key, value := range d.Audit {
		if key == "denied-by" || key == "failed-by" {
			continue
		}
		if a.Audit == nil {
			a.Audit = map[string]string{}
		}
		a.Audit[key] = value
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		name := f.Policy.Name + "/" + strings.TrimPrefix(f.Rule, "binding ")
		for _, c := range f.Checks {
			// API servers say nothing of failures that they ignore.
			if strings.HasPrefix(c.Name, "spec.validations") && len(c.Actions) > 0 {
				a.Said[name] = append(a.Said[name], c.Name+": "+c.Message)
			}
		}
	}
	return a
}

// userOf is the user that the simulator makes of one.
func userOf(u usher.User) policytest.User {
	if u.Name == "" {
		return policytest.User{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
	}
	return policytest.User{Name: u.Name, UID: u.UID, Groups: append(slices.Clone(u.Groups), "system:authenticated"), Extra: u.Extra}
}

// optionsOf are those that the simulator gives.
func optionsOf(r *simulate.Request) *usher.Object {
	kind := map[usher.Operation]string{usher.Create: "CreateOptions", usher.Update: "UpdateOptions", usher.Delete: "DeleteOptions"}[r.Operation]
	if kind == "" {
		return nil
	}
	tree := map[string]any{"kind": kind, "apiVersion": "meta.k8s.io/v1"}
	if r.DryRun {
		tree["dryRun"] = []any{"All"}
	}
	return usher.TreeObject(tree)
}

// asServed returns an object as a server encodes its own type, with defaults.
func (w *twin) asServed(t *testing.T, request *simulate.Request, tree map[string]any) map[string]any {
	t.Helper()
	trace, err := w.bare.Run(t.Context(), simulate.Request{
		Operation: usher.Create, Object: runtime.DeepCopyJSON(tree), Resource: request.Resource, Subresource: request.Subresource, Name: request.Name,
	})
	if err != nil || !trace.Admitted {
		t.Fatalf("%v %+v", err, trace)
	}
	metadata := trace.Result["metadata"].(map[string]any)
	given, _ := tree["metadata"].(map[string]any)
	for _, key := range []string{"uid", "creationTimestamp"} {
		if _, ok := given[key]; !ok {
			delete(metadata, key)
		}
	}
	return trace.Result
}

func withNamespaces(objects []map[string]any) []map[string]any {
	all := slices.Clone(objects)
	for _, name := range []string{"default", "kube-system"} {
		all = append(all, map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
		})
	}
	return all
}

// policy is one for everything, with a binding that only audits.
func policyOf(name string, change func(*admissionv1.ValidatingAdmissionPolicySpec)) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
			}}},
		}},
	}
	change(&p.Spec)
	return p
}

func bindingOf(policy string, change func(*admissionv1.ValidatingAdmissionPolicyBindingSpec), actions ...admissionv1.ValidationAction) *admissionv1.ValidatingAdmissionPolicyBinding {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: policy + "-b"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy, ValidationActions: actions},
	}
	if change != nil {
		change(&b.Spec)
	}
	return b
}

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(raw))[0]
}

const shop = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {env: test, kubernetes.io/metadata.name: shop}, annotations: {owner: ann}}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}`

const pod = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web, tier: "2"}, annotations: {note: "a\"b"}}, spec: {
  terminationGracePeriodSeconds: 45, nodeSelector: {disk: ssd},
  containers: [{name: c, image: "registry.example/app:1.2.3", ports: [{containerPort: 80}, {containerPort: 443, name: https}],
    env: [{name: A, value: x}, {name: B}], resources: {limits: {memory: 4Gi, cpu: 500m}}}, {name: d, image: busybox}],
  volumes: [{name: v, emptyDir: {}}]}}`

func TestExpressions(t *testing.T) {
	t.Parallel()
	policies := expressionPolicies()
	w := newTwin(t, []map[string]any{tree(t, shop)}, policies...)
	old := tree(t, strings.Replace(pod, "app: web, ", "app: old, ", 1))
	for _, request := range []simulate.Request{
		{Operation: usher.Create, Object: tree(t, pod)},
		{Operation: usher.Create, Object: tree(t, pod), User: usher.User{Name: "jane", UID: "u1", Groups: []string{"devs", "ops"}, Extra: map[string][]string{"amr": {"pwd", "mfa"}}}, DryRun: true},
		{Operation: usher.Update, Object: tree(t, pod), OldObject: old},
		{Operation: usher.Delete, OldObject: tree(t, pod)},
		{Operation: usher.Create, Object: tree(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: shop}, data: {a: "1"}}`)},
		{Operation: usher.Create, Object: tree(t, `{apiVersion: v1, kind: Namespace, metadata: {name: new, labels: {env: prod}}}`)},
		{Operation: usher.Create, Object: tree(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cr}, rules: []}`)},
	} {
		want := w.compare(t, request)
		var said int
		for _, checks := range want.Said {
			said += len(checks)
		}
		if said < len(expressions)/4 {
			t.Errorf("%s: only %d of %d expressions have something to say", request.Operation, said, len(expressions))
		}
	}
}

// expressionPolicies have the expressions in validations, and their values as audit annotations.
func expressionPolicies() []api.Object {
	const together = 10
	var all []api.Object
	for n := 0; n*together < len(expressions); n++ {
		name := fmt.Sprintf("p%02d", n)
		part := expressions[n*together : min((n+1)*together, len(expressions))]
		all = append(all, policyOf(name, func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for _, e := range part {
				s.Validations = append(s.Validations, admissionv1.Validation{Expression: e})
			}
		}), bindingOf(name, nil, "Audit"))
	}
	return all
}
