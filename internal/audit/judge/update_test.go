package judge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	const never = "  validations: [{expression: 'false', message: never}]\n"
	a := compiled(t, objectPolicy("a", "CREATE", "pods", never))
	b := compiled(t, objectPolicy("b", "CREATE", "pods", "  podTemplates: Deny\n"+never))
	v := compiled(t, admissionPolicy("v", "CREATE", "pods", "false"))
	all := slices.Concat(a, b, v)
	with := func(manifests string) []compile.Compiled { return slices.Concat(all, compiled(t, manifests)) }
	j := judge.New(compile.Order(all), judge.Options{})
	for _, test := range []struct {
		reason string
		after  []compile.Compiled
		want   []string
	}{
		{"the same", all, nil},
		{"another order", slices.Concat(v, b, a), nil},
		{"a policy is compiled again", slices.Concat(compiled(t, objectPolicy("a", "CREATE", "pods", never)), b, v), []string{"a"}},
		{"an exemption", with(exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: a}", "")), []string{"a"}},
		{"a policy less", slices.Concat(b, v), []string{"a"}},
		{"a policy more, which changes the pods of workloads that b judges", with(mutation("m")), []string{"b", "m"}},
		{"a binding more", slices.Concat(all, v[1:]), []string{"v"}},
		{"no binding", slices.Concat(a, b, v[:1]), []string{"v"}},
		{"no policy", nil, []string{"a", "b", "v"}},
	} {
		next, changed := j.Update(compile.Order(test.after))
		var names []string
		for _, ref := range changed {
			names = append(names, ref.Name)
		}
		if diff := cmp.Diff(test.want, names, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
		if next.Plan(pods) != nil != (len(test.after) > 0) {
			t.Errorf("%s: pods are selected: %v", test.reason, next.Plan(pods) != nil)
		}
	}
}

func TestExpiring(t *testing.T) {
	t.Parallel()
	j := judge.New(rules(t, usualPolicies(3)+
		exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: usual-001}", "")+
		exemption("w", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: usual-000}", "")+
		exemption("z", "2026-07-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: usual-002}", "")), judge.Options{})
	june, july := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		after, want time.Time
		names       []string
	}{{now(), june, []string{"usual-000", "usual-001"}}, {june, july, []string{"usual-002"}}, {july, time.Time{}, nil}} {
		at, policies := j.Expiring(test.after)
		var names []string
		for _, ref := range policies {
			names = append(names, ref.Name)
		}
		if diff := cmp.Diff(test.names, names, cmpopts.EquateEmpty()); diff != "" || !at.Equal(test.want) {
			t.Errorf("after %v: at %v; -want +got:\n%s", test.after, at, diff)
		}
	}
}

// TestResultsAreBounded has many params and long messages.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	var params []map[string]any
	for i := range 150 {
		params = append(params, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("p", i), "namespace": "shop"}, "data": map[string]any{"text": strings.Repeat("€", 1000)},
		})
	}
	plan := judge.New(rules(t, objectPolicy("p", "CREATE", "pods", `
  paramKind: {apiVersion: v1, kind: ConfigMap}
  bindings: [{paramRef: {selector: {}, parameterNotFoundAction: Deny}}]
  validations: [{expression: 'false', messageExpression: 'string(params.metadata.name) + string(params.data.text)'}]`)), judge.Options{Facts: object.FromTrees(params)}).Plan(pods)
	said := say(t, plan, tree(t, onHost), nil)
	if len(said) != 1 || len(said[0].Results) != 100 {
		t.Fatalf("%d policies: %v", len(said), lines(said))
	}
	for i := range said[0].Results {
		if m := said[0].Results[i].Message; len(m) > 1100 || !utf8.ValidString(m) {
			t.Errorf("message %d: %s", i, m)
		}
	}
	if last := said[0].Results[99]; !strings.Contains(last.Message, "more than 100 results") || last.Status != result.Fail {
		t.Errorf("the last result is %+v", last)
	}
}

// TestSendsNothing has policies that ask a service and authorizers, some in ways that programs find
// out late: an audit of all objects must not flood them.
func TestSendsNothing(t *testing.T) {
	t.Parallel()
	facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		t.Errorf("the audit asks %s", ref)
		return map[string]any{"decision": "allow"}, nil
	})
	policies := objectPolicy("data", "CREATE", "pods", `
  data: [{name: teams, http: {url: "https://cmdb.example/teams", method: GET}}]
  validations: [{expression: 'data.teams.open == true'}]`) +
		admissionPolicy("access", "CREATE", "pods", `authorizer.group("").resource("pods").check("get").allowed()`) +
		objectPolicy("exempt", "CREATE", "pods", "  validations: [{expression: 'false', message: never}]") +
		exemption("x", "2026-06-01T00:00:00Z", "{kind: ClusterObjectPolicy, name: exempt}", "  matchConditions: [{name: may, expression: 'authorizer.group(\"\").resource(\"pods\").check(\"get\").allowed()'}]") + `---
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: cue}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  validateRules:
  - targetOperations: [CREATE]
    cue: |
      object: _ @tag(object)
      processing: {http: {method: "GET", url: "https://cmdb.example/"}, output: {open: bool}}
      validate: {valid: processing.output.open}
  - targetOperations: [CREATE]
    template: {type: condition, condition: {cond: Equal, dataRef: {from: http, path: /body/open, http: {method: GET, url: "https://cmdb.example/"}}, value: {boolean: true}, message: not so}}
`
	plan := judge.New(rules(t, policies), judge.Options{Facts: facts}).Plan(pods)
	want := `access: 0 pass, 1 skip
cue: 0 pass, 2 skip
data: 0 pass, 1 skip
exempt: 0 pass, 0 skip
  fail spec.validations[0] [Deny] (/medium): never
`
	said := say(t, plan, tree(t, onHost), nil)
	if diff := cmp.Diff(want, lines(said)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(plan.Policies()) != 4 || !slices.Contains(plan.Policies(), usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "exempt"}) {
		t.Errorf("policies: %v", plan.Policies())
	}
}
