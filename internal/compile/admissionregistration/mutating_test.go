package admissionregistration_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/simulate"
)

// A change is what can be seen of a request that policies may mutate.
type change struct {
	Admitted bool
	Code     int32
	Reason   metav1.StatusReason
	Message  string
	Warnings []string
	Object   map[string]any
}

// compareChange asks both about a request, and returns what upstream answers.
func (w *twin) compareChange(t *testing.T, request simulate.Request) change {
	t.Helper()
	bare, trace := w.run(t, request)
	want := change{Admitted: trace.Admitted, Warnings: trace.Warnings}
	if trace.Error != nil {
		want.Code, want.Reason, want.Message = trace.Error.Code, trace.Error.Reason, trace.Error.Message
	} else if request.Operation != usher.Delete {
		want.Object = canonical(t, trace.Result)
	}
	// An API server refuses what its own types do not have. It ignores that in the patch of a webhook.
	if strings.Contains(want.Message, "strict decoding error") {
		return want
	}
	want.Message = sortedPaths(want.Message)
	if diff := cmp.Diff(want, w.usherChange(t, &request, bare)); diff != "" {
		t.Errorf("%s of %v: -upstream +usher:\n%s", request.Operation, bare.Resource, diff)
	}
	return want
}

// sortedPaths sorts the paths in a message: upstream has them in no particular order.
func sortedPaths(message string) string {
	for start, separator := range map[string]string{"arrays, maps or structs: ": ", ", "errors:\n": "\n"} {
		before, list, found := strings.Cut(message, start)
		if found {
			paths := strings.Split(list, separator)
			slices.Sort(paths)
			return before + start + strings.Join(paths, separator)
		}
	}
	return message
}

// usherChange decides a request whose object is that of bare.
func (w *twin) usherChange(t *testing.T, request *simulate.Request, bare *simulate.Trace) change {
	t.Helper()
	q := policytest.Request{
		Operation: request.Operation, Namespace: bare.Namespace, Name: bare.Name, Subresource: request.Subresource,
		Object: bare.Result, OldObject: request.OldObject, DryRun: request.DryRun, User: userOf(request.User),
	}
	if request.Operation == usher.Delete {
		q.Object, q.OldObject = nil, bare.Result
	}
	r, err := q.For(usher.Mutate)
	if err != nil {
		t.Fatal(err)
	}
	r.Resource.Resource, _, _ = strings.Cut(strings.Split(bare.Resource, ".")[0], "/")
	r.Options = optionsOf(request)
	d, err := w.decider.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a := change{Admitted: d.Verdict != usher.Deny, Warnings: d.Warnings}
	if !a.Admitted {
		a.Code, a.Reason, a.Message = d.Code, metav1.StatusReason(d.Reason), d.Message
		return a
	}
	if request.Operation == usher.Delete {
		if len(d.Patch) > 0 {
			t.Errorf("a deletion has the patch %v", d.Patch)
		}
		return a
	}
	object, _, err := jsonpatch.Apply(bare.Result, d.Patch)
	if err != nil {
		t.Fatal(err)
	}
	a.Object = canonical(t, object)
	return a
}

// canonical is an object as a server encodes its own type, without the time when it was made.
func canonical(t *testing.T, tree map[string]any) map[string]any {
	t.Helper()
	tree = runtime.DeepCopyJSON(tree)
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return decode(t, string(raw))[0]
	}
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	return decode(t, string(raw))[0]
}

func mutatingPolicy(name string) *admissionv1.MutatingAdmissionPolicy {
	return &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				}}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		},
	}
}

func mutatingBinding(policy string) *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: policy + "-b"},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy},
	}
}

// mutatingPolicies are those of a situation, with their bindings.
func (s *situation) mutatingPolicies(t *testing.T) []api.Object {
	t.Helper()
	p, b := mutatingPolicy("p"), mutatingBinding("p")
	merge(t, s.policy, &p.Spec)
	merge(t, s.binding, &b.Spec)
	return append([]api.Object{p, b}, s.others(t)...)
}

func TestMutatingSituations(t *testing.T) {
	t.Parallel()
	for _, s := range mutatingSituations() {
		t.Run(s.reason, func(t *testing.T) {
			t.Parallel()
			w := newTwin(t, append(decode(t, s.objects), tree(t, shop)), s.mutatingPolicies(t)...)
			tryAll(t, &s, w.compareChange, tree(t, deployment), tree(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: shop, labels: {app: web}}, data: {a: "1"}}`))
		})
	}
}

const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {replicas: 2,
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {
    containers: [{name: c, image: "registry.example/app:1.2.3", args: [-v]}], tolerations: [{key: a, operator: Exists}]}}}}`

// TestReinvocation: servers that ask once more, after others have changed the object, leave out
// policies that are evaluated once, and evaluate the others once.
func TestReinvocation(t *testing.T) {
	t.Parallel()
	once, again := mutatingPolicy("once"), mutatingPolicy("again")
	merge(t, patching(label("once", "'x'")), &once.Spec)
	merge(t, "reinvocationPolicy: IfNeeded, "+patching(label("again", `object.metadata.?labels.?again.orValue("") + "x"`)), &again.Spec)
	w := newTwin(t, []map[string]any{tree(t, shop)}, once, mutatingBinding("once"), again, mutatingBinding("again"))
	for _, test := range []struct {
		reinvocation bool
		want         map[string]any
	}{
		{false, map[string]any{"app": "web", "tier": "2", "once": "x", "again": "xx"}},
		{true, map[string]any{"app": "web", "tier": "2", "again": "x"}},
	} {
		q := policytest.Request{Operation: usher.Create, Object: tree(t, pod)}
		r, err := q.For(usher.Mutate)
		if err != nil {
			t.Fatal(err)
		}
		r.Reinvocation = test.reinvocation
		d, err := w.decider.Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := jsonpatch.Apply(tree(t, pod), d.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, object["metadata"].(map[string]any)["labels"]); diff != "" {
			t.Errorf("reinvocation %t: -want +got:\n%s", test.reinvocation, diff)
		}
	}
}
