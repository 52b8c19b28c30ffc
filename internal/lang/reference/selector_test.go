package reference_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

const cart = `
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: shop
  annotations:
    corp.example/team.name: blue
  labels:
    app: cart
    tier: gold
    corp.example/team: blue
spec:
  restartPolicy: Never
  replicas: 2
`

func TestCompileSelector(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason   string
		selector string
		matches  bool
		line     string
		problems []string
	}{
		{"kind", `{apiVersion: v1, kind: Pod}`, true, "v1 Pod", nil},
		{"kinds are told apart letter by letter", `{apiVersion: v1, kind: pod}`, false, "v1 pod", nil},
		{"there are no wildcards", `{apiVersion: "*", kind: "*"}`, false, "* *", nil},
		{"another group", `{apiVersion: apps/v1, kind: Pod}`, false, "apps/v1 Pod", nil},
		{"namespace and name", `{apiVersion: v1, kind: Pod, namespace: shop, name: cart}`, true, "v1 Pod shop/cart", nil},
		{"another namespace", `{apiVersion: v1, kind: Pod, namespace: office, name: cart}`, false, "v1 Pod office/cart", nil},
		{
			"a name wins over selectors", `{apiVersion: v1, kind: Pod, name: cart, labelSelector: {matchLabels: {app: other}}, fieldSelector: {matchFields: {spec.nodeName: x}}}`,
			true, "v1 Pod cart", []string{
				"labelSelector: it does not count, as the selector has a name; leave out one of the two",
				"fieldSelector: it does not count, as the selector has a name; leave out one of the two",
			},
		},
		{
			"even over one that is not understood", `{apiVersion: v1, kind: Pod, name: cart, labelSelector: {matchExpressions: [{key: app, operator: Like}]}}`,
			true, "v1 Pod cart", []string{"labelSelector: it does not count, as the selector has a name; leave out one of the two"},
		},
		{"empty selectors match everything", `{apiVersion: v1, kind: Pod, labelSelector: {}, fieldSelector: {}}`, true, "v1 Pod", nil},
		{"all labels are needed", `{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {app: cart, tier: lead}}}`, false, "v1 Pod labelled app=cart,tier=lead", nil},
		{
			"labels and expressions", `{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {app: cart}, matchExpressions: [{key: tier, operator: In, values: [gold, silver]}, {key: zone, operator: NotIn, values: [eu]}, {key: rack, operator: DoesNotExist}]}}`,
			true, "v1 Pod labelled app=cart,!rack,tier in (gold,silver),zone notin (eu)", nil,
		},
		{
			"an unknown label operator", `{apiVersion: v1, kind: Pod, labelSelector: {matchExpressions: [{key: app, operator: Like, values: [cart]}]}}`,
			false, `v1 Pod never ("Like" is not a valid label selector operator)`, []string{
				`labelSelector: "Like" is not a valid label selector operator: the selector selects nothing; use the operators In, NotIn, Exists and DoesNotExist, with values for the first two only`,
			},
		},
		{"a field", `{apiVersion: v1, kind: Pod, fieldSelector: {matchFields: {spec.restartPolicy: Never}}}`, true, "v1 Pod where spec.restartPolicy in (Never)", nil},
		{"all fields are needed", `{apiVersion: v1, kind: Pod, fieldSelector: {matchFields: {spec.schedulerName: x, spec.restartPolicy: Never}}}`, false, "v1 Pod where spec.restartPolicy in (Never), spec.schedulerName in (x)", nil},
		{"an annotation key has dots", `{apiVersion: v1, kind: Pod, fieldSelector: {matchFields: {metadata.annotations.corp.example/team.name: blue}}}`, true, "v1 Pod where metadata.annotations.corp.example/team.name in (blue)", nil},
		{"a label key in a field path must not", `{apiVersion: v1, kind: Pod, fieldSelector: {matchFields: {metadata.labels.corp.example/team: blue}}}`, false, "v1 Pod where metadata.labels.corp.example/team in (blue)", nil},
		{
			"field expressions", `{apiVersion: v1, kind: Pod, fieldSelector: {matchExpressions: [{field: metadata.name, operator: In, value: [a, cart]}, {field: metadata.name, operator: NotIn, value: [b]}, {field: spec.restartPolicy, operator: Exists}, {field: spec.none, operator: DoesNotExist}, {field: spec.none, operator: NotIn, value: [x]}]}}`,
			true, "v1 Pod where metadata.name in (a, cart), metadata.name notin (b), spec.restartPolicy, !spec.none, spec.none notin (x)", nil,
		},
		{"fields and expressions", `{apiVersion: v1, kind: Pod, fieldSelector: {matchFields: {metadata.name: cart}, matchExpressions: [{field: metadata.labels.tier, operator: In, value: [bronze]}]}}`, false, "v1 Pod where metadata.name in (cart), metadata.labels.tier in (bronze)", nil},
		{"a number exists", `{apiVersion: v1, kind: Pod, fieldSelector: {matchExpressions: [{field: spec.replicas, operator: Exists}]}}`, true, "v1 Pod where spec.replicas", nil},
		{"it is other than other numbers", `{apiVersion: v1, kind: Pod, fieldSelector: {matchExpressions: [{field: spec.replicas, operator: NotIn, value: ["5"]}]}}`, true, "v1 Pod where spec.replicas notin (5)", nil},
		{"it is not missing", `{apiVersion: v1, kind: Pod, fieldSelector: {matchExpressions: [{field: spec.replicas, operator: DoesNotExist}]}}`, false, "v1 Pod where !spec.replicas", nil},
		{
			"an unknown field operator", `{apiVersion: v1, kind: Pod, fieldSelector: {matchExpressions: [{field: metadata.name, operator: Exists}, {field: metadata.name, operator: exists}]}}`,
			false, `v1 Pod never (unknown operator "exists") where metadata.name, metadata.name exists`, []string{
				`fieldSelector.matchExpressions[1].operator: unknown operator "exists": the selector selects nothing; use In, NotIn, Exists or DoesNotExist`,
			},
		},
		{
			"all that is wrong is told", `{apiVersion: v1, kind: Pod, labelSelector: {matchExpressions: [{key: app, operator: Like}]}, fieldSelector: {matchExpressions: [{field: a, operator: x}, {field: a, operator: z}]}}`,
			false, `v1 Pod never ("Like" is not a valid label selector operator) where a x, a z`, []string{
				`labelSelector: "Like" is not a valid label selector operator: the selector selects nothing; use the operators In, NotIn, Exists and DoesNotExist, with values for the first two only`,
				`fieldSelector.matchExpressions[0].operator: unknown operator "x": the selector selects nothing; use In, NotIn, Exists or DoesNotExist`,
				`fieldSelector.matchExpressions[1].operator: unknown operator "z": the selector selects nothing; use In, NotIn, Exists or DoesNotExist`,
			},
		},
		{"labels fit, fields do not", `{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {app: cart}}, fieldSelector: {matchFields: {metadata.name: nope}}}`, false, "v1 Pod where metadata.name in (nope) labelled app=cart", nil},
		{"fields fit, labels do not", `{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {app: nope}}, fieldSelector: {matchFields: {metadata.name: cart}}}`, false, "v1 Pod where metadata.name in (cart) labelled app=nope", nil},
		{"both fit", `{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {app: cart}}, fieldSelector: {matchFields: {metadata.name: cart}}}`, true, "v1 Pod where metadata.name in (cart) labelled app=cart", nil},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			compiled, problems := reference.CompileSelector(decode[v1alpha1.ResourceSelector](t, tt.selector))
			s := subject(t)
			if got := compiled.Matches(&s); got != tt.matches {
				t.Errorf("%s: Matches is %t", &compiled, got)
			}
			if diff := cmp.Diff(tt.line, compiled.String()); diff != "" {
				t.Errorf("String: -want +got:\n%s", diff)
			}
			var got []string
			for _, p := range problems {
				got = append(got, p.Field+": "+p.What+"; "+p.Do)
				if p.Severity != rule.Warning {
					t.Errorf("%s is no warning", p)
				}
			}
			if diff := cmp.Diff(tt.problems, got); diff != "" {
				t.Errorf("problems: -want +got:\n%s", diff)
			}
		})
	}
}

func BenchmarkCompileSelector(b *testing.B) {
	s := v1alpha1.ResourceSelector{
		APIVersion:    "v1",
		Kind:          "Pod",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart", "tier": "gold"}},
		FieldSelector: &v1alpha1.FieldSelector{MatchFields: map[string]string{"metadata.name": "cart"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, problems := reference.CompileSelector(s); problems != nil {
			b.Fatal(problems)
		}
	}
}

func subject(t *testing.T) rule.Target {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(cart))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := usher.RawObject(raw).Tree()
	if err != nil {
		t.Fatal(err)
	}
	return rule.TargetOf(&usher.Request{Operation: usher.Create}, tree)
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
