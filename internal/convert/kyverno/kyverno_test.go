package kyverno_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

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
		{"an unknown kind", "kinds: [Pod]", "kinds: [Gadget]", "spec.rules[0].match.resources.kinds", "no kind Gadget is known"},
		{"part of a kind", "kinds: [Pod]", `kinds: ["P*"]`, "spec.rules[0].match.resources.kinds", "wildcards"},
		{"roles", "match: {", "match: {clusterRoles: [admin], ", "spec.rules[0].match", "roles"},
		{"namespaces of overrides", "spec: {", "spec: {validationFailureActionOverrides: [{action: Audit, namespaces: [\"a*\"]}], ", "spec.validationFailureActionOverrides[0].namespaces", "wildcards"},
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
