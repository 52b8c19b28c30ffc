package object_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

// TestActionsOfSeveralParams: bindings with different params say the same about a request, and each
// has its own actions. None may be lost, whatever their order.
func TestActionsOfSeveralParams(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason   string
		actions  []string
		verdict  usher.Verdict
		check    []usher.Action
		warnings int
	}{
		{"Audit before Deny", []string{"Audit", "Deny"}, usher.Deny, []usher.Action{usher.ActDeny, usher.ActAudit}, 0},
		{"Deny before Audit", []string{"Deny", "Audit"}, usher.Deny, []usher.Action{usher.ActDeny, usher.ActAudit}, 0},
		{"a user who is denied is not warned, too", []string{"Deny", "Warn"}, usher.Deny, []usher.Action{usher.ActDeny}, 0},
		{"a warning before a denial", []string{"Warn", "Deny"}, usher.Deny, []usher.Action{usher.ActDeny}, 1},
		{"the same twice", []string{"Warn", "Warn"}, usher.Allow, []usher.Action{usher.ActWarn}, 1},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			rules := stored(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
				matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]},
				validations: [{expression: "params.most > 9", message: too many}],
				bindings: [{name: a, validationActions: [`+row.actions[0]+`], params: {most: 1}}, {name: b, validationActions: [`+row.actions[1]+`], params: {most: 2}}]}}`)
			q := policytest.Request{Operation: usher.Create, Namespace: "x", Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "x"}}}
			r, err := q.For(usher.Validate)
			if err != nil {
				t.Fatal(err)
			}
			d, err := engine.New(index.New(rules), nil, engine.Options{}).Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(d.Findings, func(f usher.Finding) bool { return len(f.Checks) > 0 })
			if at < 0 || len(d.Findings[at].Checks) != 1 {
				t.Fatalf("findings: %+v", d.Findings)
			}
			if diff := cmp.Diff(row.check, d.Findings[at].Checks[0].Actions); diff != "" || d.Verdict != row.verdict || len(d.Warnings) != row.warnings {
				t.Errorf("%s with %d warnings, want %s with %d: -want +got:\n%s", d.Verdict, len(d.Warnings), row.verdict, row.warnings, diff)
			}
			if denied := d.Verdict == usher.Deny; denied != (d.Message == "too many") {
				t.Errorf("message %q", d.Message)
			}
		})
	}
}

// TestActionsOfAFailure: a policy that takes too long does what its bindings for the request say, as one whose expression
// has an error.
func TestActionsOfAFailure(t *testing.T) {
	t.Parallel()
	const loops = "[1, 2, 3, 4, 5, 6, 7, 8].all(a, object.data.all(b, object.data.all(c, object.data.all(d, object.data.all(e, a > 0)))))"
	for _, row := range []struct {
		reason, bindings string
		verdict          usher.Verdict
		warnings         int
	}{
		{"without bindings", "", usher.Deny, 0},
		{"Deny", "bindings: [{validationActions: [Deny]}]", usher.Deny, 0},
		{"Warn", "bindings: [{validationActions: [Warn]}]", usher.Allow, 1},
		{"Audit", "bindings: [{validationActions: [Audit]}]", usher.Allow, 0},
		{"Warn and Deny", "bindings: [{validationActions: [Warn]}, {validationActions: [Deny]}]", usher.Deny, 0},
		{"Warn, and Deny for others", "bindings: [{validationActions: [Warn]}, {validationActions: [Deny], matchResources: {objectSelector: {matchLabels: {a: b}}}}]", usher.Allow, 1},
		{"Warn, and the policy ignores failures", "failurePolicy: Ignore, bindings: [{validationActions: [Warn]}]", usher.Allow, 0},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			rules := stored(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
				matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]},
				validations: [{expression: "`+loops+`"}], `+row.bindings+`}}`)
			data := map[string]any{}
			for i := range 200 {
				data[fmt.Sprint(i)] = "x"
			}
			q := policytest.Request{Operation: usher.Create, Namespace: "x", Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "x"}, "data": data}}
			r, err := q.For(usher.Validate)
			if err != nil {
				t.Fatal(err)
			}
			d, err := engine.New(index.New(rules), nil, engine.Options{RuleTimeout: time.Nanosecond}).Decide(t.Context(), r)
			if err != nil || len(d.Findings) != 1 || d.Findings[0].Outcome != usher.Failed {
				t.Fatalf("%+v, %v", d.Findings, err)
			}
			if d.Verdict != row.verdict || len(d.Warnings) != row.warnings || d.Findings[0].Ignored != (row.verdict == usher.Allow) {
				t.Errorf("%s with the warnings %q", d.Verdict, d.Warnings)
			}
		})
	}
}

// stored returns the rules of a policy in YAML as the API server stores it, which has no problems.
func stored(t *testing.T, text string) []rule.Rule {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	rules, problems := compile.Policies([]api.Policy{p})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return rules
}
