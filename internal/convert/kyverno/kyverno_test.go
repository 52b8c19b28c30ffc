package kyverno_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno"
	"github.com/usher-dev/usher/internal/kind"
)

// converted imports one policy.
func converted(t *testing.T, text string) convert.Import {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return kyverno.Policies(t.Context(), []convert.Foreign{{Object: object}}, kyverno.Options{Kinds: kind.Recorded()})[0]
}

// withPattern is a policy for pods with a pattern.
const withPattern = `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {resources: {kinds: [Pod]}}, validate: {message: m, pattern: %s}}]}}`

// TestHostilePatterns: what would be too large is left out, and says so.
func TestHostilePatterns(t *testing.T) {
	t.Parallel()
	nested := func(n int) string {
		return strings.Repeat(`{"=(a)": {x: [{"(b)": 1}], c: `, n) + "1" + strings.Repeat("}}", n)
	}
	for _, row := range []struct{ reason, pattern, want string }{
		{"ranges that are outside", `{spec: {hostname: "` + strings.Repeat("1!-2&", 40) + `1"}}`, "too long"},
		{"a long text", `{spec: {hostname: "` + strings.Repeat("*a", 9000) + `"}}`, "too long"},
		{"anchors in one another", nested(20), "too long"},
		{"too many levels", nested(60), "levels"},
		{"a list in a list", `{spec: {containers: [[{name: x}]]}}`, "list in a list"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			i := converted(t, fmt.Sprintf(withPattern, row.pattern))
			if len(i.To) > 0 || len(i.Left) == 0 || !strings.Contains(i.Left[0].What, row.want) {
				t.Errorf("%v; want %q", i.Left, row.want)
			}
		})
	}
}

// TestHostileExpressions: what would take long is left out, and says so.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	const policy = `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {resources: {kinds: [Gadget]}}, %s}]}}`
	calls := strings.Repeat("a.replace_all(", 16) + "a" + strings.Repeat(", 'x', 'y')", 16)
	for _, row := range []struct{ reason, rule, want string }{
		{"calls in one another, of what may be missing", `validate: {deny: {conditions: {any: [{key: "{{ request.object.spec.` + calls + ` }}", operator: Equals, value: x}]}}}`, "too many calls"},
		{"many operations", `mutate: {patchesJson6902: "` + strings.Repeat(`- {op: add, path: /metadata/labels/a, value: x}\n`, 1000) + `"}`, "more than 100 operations"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			i := converted(t, fmt.Sprintf(policy, row.rule))
			if len(i.To) > 0 || len(i.Left) == 0 || !strings.Contains(i.Left[0].What, row.want) {
				t.Errorf("%v; want %q", i.Left, row.want)
			}
		})
	}
}

// TestLeftOut: what is not converted is named, with its place.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	const plain = `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {resources: {kinds: [Pod]}}, validate: {message: m, pattern: {spec: {hostname: x}}}}]}}`
	if i := converted(t, plain); len(i.To) != 1 {
		t.Fatal(i.Left)
	}
	for _, row := range []struct{ reason, old, new, field, what string }{
		{"no rules", "rules: [", "rules: [], x: [", "spec.x", "no such field"},
		{"not at admission", "spec: {", "spec: {admission: false, ", "spec.admission", "does not decide"},
		{"generating", "validate:", "generate: {}, validate:", "spec.rules[0]", "generates"},
		{"images", "validate:", "verifyImages: [{}], validate:", "spec.rules[0]", "verifies images"},
		{"a subresource of an unknown kind", "kinds: [Pod]", "kinds: [Gadget/scale]", "spec.rules[0].match.resources.kinds", "no kind Gadget/scale is known"},
		{"part of a kind", "kinds: [Pod]", `kinds: ["P*"]`, "spec.rules[0].match.resources.kinds", "wildcards"},
		{"namespaces of overrides", "spec: {", "spec: {validationFailureActionOverrides: [{action: Audit, namespaces: [\"a*\"]}], ", "spec.validationFailureActionOverrides[0].namespaces", "wildcards"},
		{
			"a default below an element", "validate: {message: m, pattern: {spec: {hostname: x}}}",
			`mutate: {patchStrategicMerge: {spec: {containers: [{"(name)": "*", resources: {requests: {"+(memory)": 1Gi}}}]}}}`,
			"spec.rules[0].mutate.patchStrategicMerge.spec.containers[0].resources.requests.+(memory)", "the first element decides",
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			i := converted(t, strings.Replace(plain, row.old, row.new, 1))
			if len(i.To) > 0 || len(i.Left) == 0 || i.Left[0].Field != row.field || !strings.Contains(i.Left[0].What, row.what) {
				t.Errorf("%v; want %s: %s", i.Left, row.field, row.what)
			}
		})
	}
}

// TestMessages: variables in the message of a pattern have their values.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"pattern: {data: {a: b}}", "anyPattern: [{data: {a: b}}]"} {
		i := converted(t, "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {resources: {kinds: [ConfigMap]}}, "+
			"validate: {message: \"{{request.object.metadata.name}} needs a\", "+pattern+"}}]}}")
		if len(i.To) != 1 {
			t.Fatalf("%s: %v", pattern, i.Left)
		}
		v := i.To[0].(*v1alpha1.ClusterObjectPolicy).Spec.Validations[0]
		if v.MessageExpression != "object.metadata.?name.orValue('') + ' needs a'" || v.Message != "" || v.Expression != "object.?data.?a.orValue('') == 'b'" {
			t.Errorf("%s: %+v", pattern, v)
		}
	}
}

// TestUnknownKinds: a kind without a schema is found by its name, and it is said that nothing is known of it.
func TestUnknownKinds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ kinds, rule, condition string }{
		{"[Gadget]", "*", "request.kind.kind == 'Gadget'"},
		{"[v1/Gadget]", "*", "request.kind.kind == 'Gadget' && request.kind.version == 'v1'"},
		{"[example.org/v1/Gadget, Widget]", "example.org", "request.kind.kind == 'Widget' || request.kind.kind == 'Gadget' && request.kind.group == 'example.org' && request.kind.version == 'v1'"},
	} {
		t.Run(row.kinds, func(t *testing.T) {
			t.Parallel()
			i := converted(t, strings.Replace(fmt.Sprintf(withPattern, "{spec: {a: x}}"), "[Pod]", row.kinds, 1))
			if len(i.To) != 1 || len(i.Notes) == 0 || !strings.Contains(i.Notes[0].What, "is known: the policy finds it by its name") {
				t.Fatal(i.Left, i.Notes)
			}
			spec := i.To[0].(*v1alpha1.ClusterObjectPolicy).Spec
			if got := spec.MatchConditions[0].Expression; got != row.condition {
				t.Errorf("%s; want %s", got, row.condition)
			}
			if got := spec.MatchConstraints.ResourceRules[0]; got.APIGroups[0] != row.rule || got.Resources[0] != "*" {
				t.Errorf("%v; want %s", got, row.rule)
			}
		})
	}
}

// A policy of a namespace does not read the bindings of the cluster.
func TestRolesOfNamespaces(t *testing.T) {
	t.Parallel()
	i := converted(t, strings.NewReplacer("kind: ClusterPolicy", "kind: Policy", "match: {", "match: {clusterRoles: [admin], ").Replace(fmt.Sprintf(withPattern, "{a: b}")))
	if len(i.To) > 0 || len(i.Left) == 0 || !strings.Contains(i.Left[0].What, "roles") {
		t.Errorf("%v; want roles", i.Left)
	}
}

// What match conditions do not see is a part of what each kind of rule says.
func TestLabelsOfNamespaces(t *testing.T) {
	t.Parallel()
	for _, does := range []string{"validate: {pattern: {data: {a: b}}}", "validate: {deny: {}}", "mutate: {patchStrategicMerge: {data: {a: b}}}", "mutate: {patchesJson6902: '[{\"op\": \"add\", \"path\": \"/data/a\", \"value\": \"b\"}]'}"} {
		i := converted(t, "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {resources: {kinds: [ConfigMap]}}, "+
			"exclude: {resources: {namespaceSelector: {matchLabels: {env: prod}}}}, "+does+"}]}}")
		text, err := convert.Documents(i.To)
		if err != nil || len(i.Left) > 0 || !strings.Contains(fmt.Sprint(text), "namespaceObject") {
			t.Errorf("%s: %v %v %v", does, text, i.Left, err)
		}
	}
}
