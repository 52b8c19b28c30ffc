package convert_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
)

// policy returns a ClusterObjectPolicy for ConfigMaps with more fields of the spec.
func policy(t *testing.T, spec string) *v1alpha1.ClusterObjectPolicy {
	t.Helper()
	p := &v1alpha1.ClusterObjectPolicy{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterObjectPolicy"}}
	p.Name = "p"
	base := `{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]}}`
	for _, text := range []string{base, spec} {
		if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return p
}

func TestWhatIsLost(t *testing.T) {
	t.Parallel()
	const (
		falseOne = `{expression: "false"}`
		onlyPods = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
		patch    = `{patchType: JSONPatch, jsonPatch: {expression: "[]"}}`
	)
	both := []convert.Target{convert.Validating, convert.Mutating}
	for _, row := range []struct {
		reason, spec string
		targets      []convert.Target
		lost         []string
	}{
		{"what upstream has is not lost", `validations: [` + falseOne + `], auditAnnotations: [{key: a, valueExpression: "'x'"}], mutations: [` + patch + `]`, both, nil},
		{"texts for readers are annotations", `description: d, category: c, severity: high, validations: [` + falseOne + `]`, both, nil},
		{"subjects are conditions", `subjects: [{users: [jane]}], excludeSubjects: [{groups: [admins]}], validations: [` + falseOne + `]`, both, nil},
		{"links", `links: ["https://x.example"], validations: [` + falseOne + `]`, both, []string{"spec.links"}},
		{"data", `data: [{name: d, object: {apiVersion: v1, kind: ConfigMap, name: x}}], validations: [` + falseOne + `]`, both, []string{"spec.data"}},
		{"severity and field, but not the name, which decides nothing", `validations: [{name: one, severity: low, fieldPath: spec.x, expression: "false"}]`, both, []string{"spec.validations[0].severity", "spec.validations[0].fieldPath"}},
		{"CUE", `validations: [{cue: "validate: valid: true"}, ` + falseOne + `]`, both, []string{"spec.validations[0].cue"}},
		{"other patches", `mutations: [{patchType: MergePatch, mergePatch: {data: {a: b}}}, ` + patch + `]`, both, []string{"spec.mutations[0].patchType"}},
		{"a mutation with a name", `mutations: [{name: one, patchType: JSONPatch, jsonPatch: {expression: "[]"}}]`, both, []string{"spec.mutations[0].name"}},
		{"workloads, which the default warns of", onlyPods + `, validations: [` + falseOne + `]`, both, []string{"spec.podTemplates"}},
		{"workloads", `podTemplates: Deny, validations: [` + falseOne + `]`, both, []string{"spec.podTemplates"}},
		{"no workloads", onlyPods + `, podTemplates: "Off", validations: [` + falseOne + `]`, both, nil},
		{"exemptions of namespaces", `namespaceExemptions: Allow, validations: [` + falseOne + `]`, both, []string{"spec.namespaceExemptions"}},
		{"validations that are not exported", `validations: [` + falseOne + `], mutations: [` + patch + `]`, both[1:], []string{"spec.validations"}},
		{"mutations that are not exported", `validations: [` + falseOne + `], mutations: [` + patch + `]`, both[:1], []string{"spec.mutations"}},
		{"params that are no object", `validations: [` + falseOne + `], bindings: [{name: b, params: {most: 3}}]`, both, []string{"spec.bindings[0].params"}},
		{"params that are an object", `validations: [` + falseOne + `], bindings: [{name: b, params: {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: y}}}]`, both, nil},
		{"params of several kinds", `validations: [` + falseOne + `], bindings: [{name: b, params: {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: y}}}, {name: c, params: {apiVersion: v1, kind: Secret, metadata: {name: x, namespace: y}}}]`, both, []string{"spec.bindings[1].params"}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			c, err := convert.To(&api.Policy{Object: policy(t, "{"+row.spec+"}")}, row.targets, nil)
			if err != nil {
				t.Fatal(err)
			}
			var lost []string
			for _, p := range c.Lost {
				lost = append(lost, p.Field)
			}
			if diff := cmp.Diff(row.lost, lost); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestExemptionsAreLost: those that name the policy, and no others.
func TestExemptionsAreLost(t *testing.T) {
	t.Parallel()
	exemption := func(kind, name string) api.Policy {
		e := &v1alpha1.ClusterPolicyExemption{}
		e.Name = "e"
		e.Spec.PolicyRefs = []v1alpha1.PolicyRef{{Kind: "ClusterValidatePolicy", Name: "*"}, {Kind: kind, Name: name}}
		return api.Policy{Object: e}
	}
	for name, want := range map[string]int{"p": 1, "*": 1, "q": 0, "p*p": 0, "*-p": 0} {
		c, err := convert.To(&api.Policy{Object: policy(t, `{validations: [{expression: "false"}]}`)}, []convert.Target{convert.Validating},
			[]api.Policy{exemption("ClusterObjectPolicy", name), exemption("ObjectPolicy", name)})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Lost) != want || want > 0 && !strings.Contains(c.Lost[0].What, "ClusterPolicyExemption e") {
			t.Errorf("exemption of %s: lost %v, want %d", name, c.Lost, want)
		}
	}
}

// TestDeletionsChangeNothing: a MutatingAdmissionPolicy may not name DELETE, and a binding that is for
// deletions alone must not become one for everything.
func TestDeletionsChangeNothing(t *testing.T) {
	t.Parallel()
	rules := func(operations string) string {
		return `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ` + operations + `, resources: [configmaps]}]}`
	}
	c, err := convert.To(&api.Policy{Object: policy(t, `{matchConstraints: `+rules("[CREATE, DELETE]")+`, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[]"}}],
		bindings: [{name: a, matchResources: `+rules("[DELETE]")+`}, {name: b, matchResources: `+rules("[UPDATE, DELETE]")+`}]}`)}, []convert.Target{convert.Mutating}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(c.To)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range c.To {
		names = append(names, o.GetName())
	}
	if !slices.Equal(names, []string{"p", "p-b"}) || strings.Contains(string(raw), "DELETE") {
		t.Errorf("exported %v:\n%s", names, raw)
	}
}
