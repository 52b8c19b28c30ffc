package usher_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/compile/kcloudlabs"
	compileusher "github.com/usher-dev/usher/compile/usher"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/index"
	"github.com/usher-dev/usher/rule"
)

// choices are parts of policies, of which each takes some. Parts of one name, or with one text, mean
// different things in different policies.
type choices struct{ *rand.Rand }

func (c *choices) one(all ...string) string { return all[c.IntN(len(all))] }

// spec writes the spec of a policy.
func (c *choices) spec() string {
	containers := c.one("object.spec.containers", "object.spec.?initContainers.orValue([]) + object.spec.containers", "object.spec.containers.filter(c, c.image.endsWith('2'))")
	limit := c.one("params.limit", "params.?more.orValue(2)", "2", "object.spec.containers.size()")
	s := `
matchConstraints:
  resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  ` + c.one("", "", "namespaceSelector: {matchLabels: {team: shop}}", "namespaceSelector: {matchLabels: {team: other}}",
		"namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}") + `
failurePolicy: ` + c.one("Fail", "Fail", "Ignore") + `
matchConditions:
- {name: a, expression: "` + c.one("has(object.metadata.labels.app)", "oldObject == null || oldObject.metadata.name == object.metadata.name", "params.?enabled.orValue(true) == true", "request.userInfo.username != 'joe'") + `"}
- {name: b, expression: "` + c.one("true", "object.spec.containers.size() > params.limit - 3", "object.metadata.labels['missing'] == ''", "dyn(variables.known) != 5", "object.metadata.name != 'db'") + `"}
variables:
- {name: containers, expression: "` + containers + `"}
- {name: limit, expression: "` + limit + `"}
- {name: images, expression: "variables.containers.map(c, c.image)"}
- {name: known, expression: "` + c.one("dyn(variables.limit) > 1", "variables.?limit.orValue(0)", "has(object.metadata.labels.changed)", "namespaceObject.metadata.labels.team == 'shop'", "object.nothing") + `"}
- {name: user, expression: "request.userInfo.username"}
bindings:
- {name: x, params: {limit: ` + c.one("1", "2", "3") + c.one("", "", ", enabled: false", ", more: 5") + `}}
- {name: z, validationActions: [Warn], params: {limit: ` + c.one("1", "2") + `}}
`
	if c.IntN(3) == 0 {
		return s + `mutations:
- {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/` + c.one("changed", "app", "other") + `', value: string(variables.images.size()) + string(variables.limit) + string(variables.known)}]"}}
`
	}
	told := "string(variables.containers.size()) + variables.images.join(',') + string(variables.limit) + string(variables.known)"
	return s + `validations:
- {expression: "` + c.one("variables.images.size() > dyn(variables.limit)", "dyn(variables.known) == true", "false") + `", messageExpression: "` + told + ` + variables.user"}
`
}

// policy compiles a policy.
func (c *choices) policy(t *testing.T, i int) []rule.Rule {
	t.Helper()
	name, spec := fmt.Sprintf("p%d", i), c.spec()
	var compiled *compileusher.Object
	var problems []rule.Problem
	if c.IntN(4) == 0 {
		p := &v1alpha1.ObjectPolicy{}
		p.Name, p.Namespace = name, "shop"
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems = compileusher.ObjectPolicy(t.Context(), p, kcloudlabs.Compiler{})
	} else {
		p := &v1alpha1.ClusterObjectPolicy{}
		p.Name = name
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems = compileusher.ClusterObjectPolicy(t.Context(), p, kcloudlabs.Compiler{})
	}
	if len(problems) > 0 {
		t.Fatalf("%v in %s", problems, spec)
	}
	return compiled.Rules()
}

// program is what the engine asks of the programs of policies.
type program interface {
	rule.Selective
	rule.Dependent
}

// alone is a program that shares no values with others.
type alone struct{ program }

// TestSharedValues decides requests by policies that have conditions, variables and selectors in common,
// and by the same policies that share nothing.
func TestSharedValues(t *testing.T) {
	t.Parallel()
	c := choices{rand.New(rand.NewPCG(1, 2))}
	var policies [][]rule.Rule
	for i := range 80 {
		policies = append(policies, c.policy(t, i))
	}
	namespaces := fact.ResolverFunc(func(_ context.Context, of fact.Ref) (any, error) {
		return map[string]any{"metadata": map[string]any{"name": of.Object.Name, "labels": map[string]any{"team": "shop"}}}, nil
	})
	shared, outcomes := 0, map[usher.Outcome]int{}
	for n := range 400 {
		var rules, lonely []rule.Rule
		var refs []*rule.Rule
		for _, i := range c.Perm(len(policies))[:8] {
			rules = append(rules, policies[i]...)
		}
		for i := range rules {
			r := rules[i]
			r.Steps = slices.Clone(r.Steps)
			for j := range r.Steps {
				r.Steps[j].Program = alone{r.Steps[j].Program.(program)}
			}
			lonely, refs = append(lonely, r), append(refs, &rules[i])
		}
		shared += len(rule.CommonOf(refs))
		together, apart := engine.New(index.New(rules), namespaces, engine.Options{}), engine.New(index.New(lonely), namespaces, engine.Options{})
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			r := podRequest(c.IntN(4))
			r.Phase, r.User.Name = phase, c.one("jane", "joe")
			if c.IntN(2) == 0 {
				r.Operation, r.OldObject = usher.Update, podRequest(9).Object
			}
			want, err := apart.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := together.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(usher.Finding{}, "Took", "Err")); diff != "" {
				t.Fatalf("%d, %s: -apart +together:\n%s", n, phase, diff)
			}
			for _, f := range got.Findings {
				outcomes[f.Outcome]++
			}
		}
	}
	for _, outcome := range []usher.Outcome{usher.Passed, usher.Rejected, usher.Changed, usher.Failed, usher.Skipped} {
		if outcomes[outcome] < 30 {
			t.Errorf("%d findings are %s, too few for a comparison: %v", outcomes[outcome], outcome, outcomes)
		}
	}
	if shared < 1000 {
		t.Errorf("%d values are shared, too few for a comparison", shared)
	}
}
