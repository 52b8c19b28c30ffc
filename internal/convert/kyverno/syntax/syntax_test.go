package syntax_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

const policy = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  validationFailureAction: Enforce
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    exclude: {resources: {namespaces: [x]}}
    context: [{name: c, configMap: {name: m}}]
    preconditions: {all: [{key: "{{ a }}", operator: Equals, value: 1}], any: []}
    validate:
      pattern: {spec: {"=(hostNetwork)": false, containers: [{"<(image)": "x", name: 1.5}]}}
  - name: s
    match: {resources: {kinds: [Pod]}}
    validate:
      foreach:
      - list: a
        deny: {conditions: [{key: a, operator: NotEquals}]}
`

func decode(t *testing.T, text string) (*syntax.Policy, []syntax.Error) {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return syntax.Decode(object)
}

// TestFields: each part knows its place.
func TestFields(t *testing.T) {
	t.Parallel()
	p, errs := decode(t, policy)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	r, s := &p.Spec.Rules[0], &p.Spec.Rules[1]
	spec := r.Validate.Pattern.Keys[0].Value
	item := spec.Keys[1].Value.Items[0]
	got := []any{
		r.Match.Any[0].Field, r.Exclude.Field, r.Exclude.Block.Field, r.Context[0].Field, r.Preconditions.All[0].Field, r.Preconditions.Any != nil,
		spec.Keys[0].Anchor, spec.Keys[0].Name, spec.Keys[0].Value.Field, item.Keys[0].Anchor, item.Keys[0].Value.Field, item.Keys[1].Value.Scalar,
		s.Validate.Foreach[0].Deny.Conditions.All[0].Field, s.Validate.Foreach[0].Deny.Conditions.Any == nil, s.Raw["name"], r.Preconditions.All[0].Value.Of,
	}
	want := []any{
		"spec.rules[0].match.any[0]", "spec.rules[0].exclude", "spec.rules[0].exclude", "spec.rules[0].context[0]", "spec.rules[0].preconditions.all[0]", true,
		syntax.Equality, "hostNetwork", "spec.rules[0].validate.pattern.spec.=(hostNetwork)", syntax.Global, "spec.rules[0].validate.pattern.spec.containers[0].<(image)", 1.5,
		"spec.rules[1].validate.foreach[0].deny.conditions[0]", true, "s", int64(1),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStrictness: what is not known is an error that names it.
func TestStrictness(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, old, new, want string }{
		{"a field of a rule", "name: s\n", "name: s\n    other: 1\n", "spec.rules[1].other"},
		{"a field of a block", "{kinds: [Pod]}}]", "{kind: [Pod]}}]", "spec.rules[0].match.any[0].resources.kind"},
		{"a field of a condition", "operator: NotEquals", "op: NotEquals", `unknown field "[0].op"`},
		{"a field of the policy", "spec:\n", "other: {}\nspec:\n", "other"},
		{"a type", "kinds: [Pod]}}]", "kinds: Pod}}]", "cannot unmarshal string"},
		{"no spec", "spec:\n", "status:\n", "spec"},
		{"too many levels", "list: a", "list: a\n        pattern: " + strings.Repeat("[", 99) + strings.Repeat("]", 99), "levels"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(policy, row.old) {
				t.Fatal("the row changes nothing")
			}
			_, errs := decode(t, strings.Replace(policy, row.old, row.new, 1))
			if len(errs) == 0 || !strings.Contains(errs[0].Error(), row.want) {
				t.Errorf("%v; want %q", errs, row.want)
			}
		})
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text  string
		parts []syntax.Part
	}{
		{"", nil},
		{"a", []syntax.Part{{Literal: "a"}}},
		{"{{a}}{{ b }}", []syntax.Part{{Expression: "a"}, {Expression: "b"}}},
		{"x {{ {a: b}.a }}y", []syntax.Part{{Literal: "x "}, {Expression: "{a: b}.a"}, {Literal: "y"}}},
		{"{{- a}}", []syntax.Part{{Expression: "a"}}},
		{"{{ f('x', '{{ a || '' }}') }} '{{ b }}'", []syntax.Part{{Expression: "f('x', '\x01a || ''\x02')"}, {Literal: " '"}, {Expression: "b"}, {Literal: "'"}}},
		{`\{{a}}`, []syntax.Part{{Literal: "{{a}}"}}},
		{"{{a", []syntax.Part{{Literal: "{{a"}}},
		{"$(./../a)", []syntax.Part{{Reference: "./../a"}}},
		{"a $(>=/b) c", []syntax.Part{{Literal: "a "}, {Reference: ">=/b"}, {Literal: " c"}}},
	} {
		parts, err := syntax.Parts(row.text)
		if diff := cmp.Diff(row.parts, parts); err != nil || diff != "" {
			t.Error(row.text, err, diff)
		}
	}
	for _, text := range []string{"{{ a.{{b}} }}", "{{ }}"} {
		if parts, err := syntax.Parts(text); err == nil {
			t.Errorf("%s: %v", text, parts)
		}
	}
}
