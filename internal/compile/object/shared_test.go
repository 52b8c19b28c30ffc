package object_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/exemption"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
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

// rulesOf compiles a policy, of a namespace if that is named.
func rulesOf(t *testing.T, namespace, name, spec string) []rule.Rule {
	t.Helper()
	var compiled *object.Policy
	var problems []rule.Problem
	if namespace != "" {
		p := &v1alpha1.ObjectPolicy{}
		p.Name, p.Namespace = name, namespace
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems = object.Namespaced(t.Context(), p, object.Options{})
	} else {
		p := &v1alpha1.ClusterObjectPolicy{}
		p.Name = name
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems = object.Cluster(t.Context(), p, object.Options{})
	}
	if len(rule.Errors(problems)) > 0 {
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

// apart are rules that share no values.
func apart(rules []rule.Rule) []rule.Rule {
	all := slices.Clone(rules)
	for i := range all {
		all[i].Steps = slices.Clone(all[i].Steps)
		for j := range all[i].Steps {
			all[i].Steps[j].Program = alone{all[i].Steps[j].Program.(program)}
		}
	}
	return all
}

// together decides a request by rules that share values, and has them decide the same apart.
func together(t *testing.T, rules []rule.Rule, r *usher.Request) usher.Decision {
	t.Helper()
	var decisions []usher.Decision
	for _, all := range [][]rule.Rule{apart(rules), rules} {
		d, err := engine.New(index.New(all), fact.ResolverFunc(shop), engine.Options{}).Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		decisions = append(decisions, d)
	}
	if diff := cmp.Diff(decisions[0], decisions[1], cmpopts.IgnoreFields(usher.Finding{}, "Took", "Err")); diff != "" {
		t.Fatalf("-apart +together:\n%s", diff)
	}
	return decisions[1]
}

// shop resolves namespaces.
func shop(_ context.Context, of fact.Ref) (any, error) {
	return map[string]any{"metadata": map[string]any{"name": of.(*fact.Object).Name, "labels": map[string]any{"team": "shop"}}}, nil
}

// TestSharedValues decides requests by policies that have conditions, variables and selectors in common,
// and by the same policies that share nothing.
func TestSharedValues(t *testing.T) {
	t.Parallel()
	c := choices{rand.New(rand.NewPCG(1, 2))}
	var policies [][]rule.Rule
	for i := range 80 {
		policies = append(policies, rulesOf(t, c.one("", "", "", "shop"), fmt.Sprintf("p%d", i), c.spec()))
	}
	shared, outcomes := 0, map[usher.Outcome]int{}
	for range 400 {
		var rules []rule.Rule
		for _, i := range c.Perm(len(policies))[:8] {
			rules = append(rules, policies[i]...)
		}
		var refs []*rule.Rule
		for i := range rules {
			refs = append(refs, &rules[i])
		}
		shared += len(rule.CommonOf(refs))
		for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
			r := podRequest(c.IntN(4))
			r.Phase, r.User.Name = phase, c.one("jane", "joe")
			if c.IntN(2) == 0 {
				r.Operation, r.OldObject = usher.Update, podRequest(9).Object
			}
			for _, f := range together(t, rules, r).Findings {
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

const podsAlone = `
matchConstraints:
  resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
podTemplates: "Off"
`

// TestQuantitiesAreNotShared has a policy that limits memory, and another one with the same variable:
// calculating with a quantity changes how others read it.
func TestQuantitiesAreNotShared(t *testing.T) {
	t.Parallel()
	variable := "variables: [{name: memory, expression: \"quantity(object.spec.containers[0].resources.limits.memory)\"}]\n"
	limit := podsAlone + variable + "validations: [{expression: \"variables.memory.compareTo(quantity('32Mi')) <= 0\"}]\n"
	integer := podsAlone + variable + "validations: [{expression: \"variables.memory.isInteger() && variables.memory.asInteger() == 67108864\"}]\n"
	sub := podsAlone + variable + "validations: [{expression: \"variables.memory.compareTo(quantity('1000000000000000000000000')) < 0 && variables.memory.sub(quantity('1000000000000000000000')).compareTo(quantity('0')) < 0\"}]\n"
	cmpOnly := podsAlone + variable + "validations: [{expression: \"variables.memory.compareTo(quantity('1000000000000000000000000')) < 0\"}]\n"
	for _, row := range []struct {
		reason, namespace, other, victim string
	}{
		{"cluster policies, denial lost", "", sub, limit},
		{"a namespaced attacker, denial lost", "shop", sub, limit},
		{"cluster policies, false denial", "", cmpOnly, integer},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			for _, names := range [][2]string{{"a", "z"}, {"z", "a"}} {
				rules := append(rulesOf(t, row.namespace, names[0], row.other), rulesOf(t, "", names[1], row.victim)...)
				together(t, rules, podRequest(1))
			}
		})
	}
}

const forNamespaces = `
matchConstraints:
  resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [namespaces]}]
`

// TestSelectorsOfExemptions: the selectors of policies are about the object on which a pass was matched,
// those of exemptions about the object as the rule gets it.
func TestSelectorsOfExemptions(t *testing.T) {
	t.Parallel()
	add := func(key string) string {
		return "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/metadata/labels/" + key + "', value: 'x'}]\"}}]\n"
	}
	selecting := forNamespaces + "  namespaceSelector: {matchLabels: {team: x}}\n"
	rules := slices.Concat(
		rulesOf(t, "", "a", forNamespaces+add("team")),
		rulesOf(t, "", "b", forNamespaces+add("b")),
		rulesOf(t, "", "c", selecting+add("c")),
		rulesOf(t, "", "d", selecting+add("d")),
	)
	x := &v1alpha1.ClusterPolicyExemption{}
	x.Name = "x"
	if err := yaml.UnmarshalStrict([]byte(`
policyRefs: [{kind: ClusterObjectPolicy, name: b}]
matchConstraints:
  resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [namespaces]}]
  namespaceSelector: {matchLabels: {team: x}}
reason: r
owner: o
`), &x.Spec); err != nil {
		t.Fatal(err)
	}
	x.Spec.ExpiresAt = metav1.NewTime(time.Now().Add(time.Hour))
	exemption, problems := exemption.Cluster(t.Context(), x)
	if exemption == nil {
		t.Fatal(problems)
	}
	for i := range rules {
		if rules[i].Policy.Name == "b" {
			rules[i].Exemptions = []rule.Exempting{{Exemption: exemption}}
		}
	}
	r := podRequest(1)
	r.Phase, r.Namespace, r.Name = usher.Mutate, "team", "team"
	r.Kind, r.Resource = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	r.Object = usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "team", "labels": map[string]any{"y": "y"}}})
	together(t, rules, r)
}

// TestValuesStay has a policy compute with a value, and others read it.
func TestValuesStay(t *testing.T) {
	t.Parallel()
	for _, row := range [][3]string{
		{"bytes(object.metadata.name)", "variables.v + b'x' == b''", "string(variables.v + b'y')"},
		{"object.spec.containers.map(c, c.image) + ['a']", "(variables.v + ['b']).size() == 0", "(variables.v + ['c']).join(',')"},
		{"object.spec.containers.map(c, type(c))", "(variables.v + [string]).size() == 0", "string(variables.v.size())"},
		{"object.spec.containers.transformList(i, c, c.image)", "(variables.v + ['b']).size() == 0", "(variables.v + ['c']).join(',')"},
		{"object.metadata.labels.transformMap(k, v, v + 'x')", "variables.v.transformMap(k, v, v + 'y').size() == 0", "variables.v['app'] + string(variables.v.size())"},
		{"[[]].map(x, x)", "variables.v.map(x, x + [1])[0].size() == 0", "string(variables.v[0].size())"},
		{"lists.range(100)", "(variables.v + variables.v).size() == 0 || variables.v.reverse()[0] == 5", "string(variables.v.size()) + string(variables.v[0]) + string(variables.v.sum())"},
		{"[3, 1, 2]", "variables.v.sort() == [1]", "variables.v.map(x, string(x)).join(',')"},
		{"object.spec.containers", "variables.v.sortBy(c, c.name)[0].name == 'q'", "variables.v.map(c, c.name).join(',')"},
		{"object.?missing", "variables.v.hasValue()", "variables.v.orValue('none')"},
		{"url('https://a.example/x?y=z')", "variables.v.getQuery().size() == 5", "variables.v.getHost()"},
		{"ip('10.0.0.1')", "variables.v.family() == 6", "string(variables.v)"},
		{"cidr('10.0.0.0/8')", "variables.v.masked() == cidr('11.0.0.0/8')", "string(variables.v)"},
		{"semver('1.2.3')", "variables.v.isLessThan(semver('0.1.0'))", "string(variables.v.major())"},
		{"timestamp('2020-01-01T00:00:00Z')", "variables.v + duration('1h') == timestamp('2021-01-01T00:00:00Z')", "string(variables.v)"},
		{"{'a': quantity('1')}", "quantity('1000000000000000000000000').isGreaterThan(variables.v['a'].add(quantity('1000000000000000000000000'))) || variables.v['a'].isGreaterThan(quantity('1000000000000000000000000'))", "string(variables.v['a'].isInteger())"},
		{"[1].all(authorizer, authorizer.requestResource.check('get').allowed())", "variables.v", "string(variables.v)"},
	} {
		a := podsAlone + "variables: [{name: v, expression: \"" + row[0] + "\"}]\nvalidations: [{expression: \"" + row[1] + "\"}]\n"
		z := podsAlone + "variables: [{name: v, expression: \"" + row[0] + "\"}]\nvalidations: [{expression: \"false\", messageExpression: \"" + row[2] + "\"}]\n"
		t.Run(row[0], func(t *testing.T) {
			together(t, slices.Concat(rulesOf(t, "", "a", a), rulesOf(t, "", "b", z), rulesOf(t, "", "c", z)), podRequest(1))
		})
	}
}

// TestQuantitiesOfOnePolicy has two variables with one text.
func TestQuantitiesOfOnePolicy(t *testing.T) {
	t.Parallel()
	big := "quantity('1000000000000000000000000')"
	together(t, rulesOf(t, "", "a", podsAlone+`
variables:
- {name: a, expression: "quantity(object.spec.containers[0].resources.limits.memory)"}
- {name: b, expression: "quantity(object.spec.containers[0].resources.limits.memory)"}
validations:
- {expression: "variables.a.compareTo(`+big+`) < 0 && variables.b.isInteger()"}
`), podRequest(1))
}
