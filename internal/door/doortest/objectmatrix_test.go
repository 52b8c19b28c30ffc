package doortest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
)

// The features of an object policy, as indexes of a [combination].
const (
	action = iota
	exemption
	podTemplates
	params
	failure
	subjects
)

// A combination is an object policy with a value of each feature.
type combination [6]string

// features returns the names of the features and their values; the first value is to be without it.
func features() [6][]string {
	return [6][]string{
		action:       {"Deny", "Warn", "Audit", "Deny+Audit", "Warn everywhere, Deny in production"},
		exemption:    {"no exemption", "from the policy", "from a validation", "for images", "expired", "for ann", "with Warn"},
		podTemplates: {"Pod", "Deployment: Deny", "Deployment: Warn", "Deployment: Off"},
		params:       {"no params", "in place", "found", "missing: Deny", "missing: Allow"},
		failure:      {"no error", "error: Fail", "error: Ignore"},
		subjects:     {"all", "jane", "zoe", "not jane"},
	}
}

func (c combination) String() string { return strings.Join(c[:], ", ") }

// without returns the combination without a feature.
func (c combination) without(feature int) combination {
	c[feature] = features()[feature][0]
	return c
}

// A writer is who sends a request, and whether the object is labelled for production.
type writer struct {
	user       string
	production bool
}

func writers() []writer { return []writer{{"jane", false}, {"ann", true}} }

const (
	// rowsThatCount is how many combinations have a pair of features that change the answer both,
	// and pairsThatCount how many of them have no other features.
	rowsThatCount  = 300
	pairsThatCount = 116
	// mixtures is how many combinations have features at random.
	mixtures = 30
)

// combinations returns all combinations of at most two features, combinations of three of which at
// least two change the answer, and some at random.
func combinations() []combination {
	all := features()
	var none combination
	for i := range all {
		none[i] = all[i][0]
	}
	seen := map[combination]bool{}
	var list []combination
	counting := 0
	add := func(c combination) {
		if seen[c] {
			return
		}
		seen[c] = true
		list = append(list, c)
		if c.counts() {
			counting++
		}
	}
	for i := range all {
		for j := range i {
			for _, a := range all[i] {
				for _, b := range all[j] {
					c := none
					c[i], c[j] = a, b
					add(c)
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for counting < rowsThatCount {
		c := none
		for _, i := range random.Perm(len(all))[:3] {
			c[i] = all[i][1+random.IntN(len(all[i])-1)]
		}
		if c.counts() {
			add(c)
		}
	}
	for range mixtures {
		var c combination
		for i := range all {
			c[i] = all[i][random.IntN(len(all[i]))]
		}
		add(c)
	}
	return list
}

// matrix returns the cases of all combinations, with the answers of the model.
func matrix() []*policytest.Case {
	var cases []*policytest.Case
	for _, c := range combinations() {
		for _, w := range writers() {
			cases = append(cases, c.by(w))
		}
	}
	return cases
}

// matrixOfDoors returns one case of each combination: the doors do not look at policies.
func matrixOfDoors() []*policytest.Case {
	all := combinations()
	cases := make([]*policytest.Case, len(all))
	for i, c := range all {
		cases[i] = c.by(writers()[i%len(writers())])
	}
	return cases
}

// by returns the case of a combination and a writer.
func (c combination) by(w writer) *policytest.Case {
	asWritten, now, want := false, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), model(c, w)
	return &policytest.Case{
		Name: fmt.Sprintf("%s by %s", c, w.user), Phase: usher.Validate, RenderPolicies: &asWritten,
		Policies: c.policies(), World: policytest.World{Objects: c.objects(), Now: &now}, Request: c.request(w),
		Answers: policytest.Answers[policytest.Expect]{Expect: &want},
	}
}

// TestObjectPolicyMatrix compares the decisions about all combinations with the model; the tests of
// the corpus compare what users of the doors get with the decisions.
func TestObjectPolicyMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range matrix() {
		if result := c.Run(t.Context()); result.Status != policytest.Passed {
			t.Errorf("%s: %s: %s", c.Name, result.Status, result.Message)
		}
	}
	rows, pairs := 0, 0
	met := map[[2]int]bool{}
	for _, c := range combinations() {
		if !c.counts() {
			continue
		}
		rows++
		if set := c.set(); len(set) == 2 {
			pairs++
			met[[2]int(set)] = true
		}
	}
	if rows < rowsThatCount || pairs < pairsThatCount {
		t.Errorf("%d combinations and %d pairs count, want %d and %d", rows, pairs, rowsThatCount, pairsThatCount)
	}
	if all := len(features()); len(met) != all*(all-1)/2 {
		t.Errorf("some features never meet; these do: %v", met)
	}
}

// counts reports whether the combination has two features without either of which the answer is
// another one. The answers are those of the model, with which the decisions are compared.
func (c combination) counts() bool {
	changing := 0
	for _, feature := range c.set() {
		if slices.ContainsFunc(writers(), func(w writer) bool { return !cmp.Equal(model(c, w), model(c.without(feature), w)) }) {
			changing++
		}
	}
	return changing >= 2
}

// set returns the features that the combination has.
func (c combination) set() []int {
	var set []int
	for i, values := range features() {
		if c[i] != values[0] {
			set = append(set, i)
		}
	}
	return set
}

// request creates a pod on the node's network with images of three registries, or a workload with
// such pods.
func (c combination) request(w writer) policytest.Request {
	labels := map[string]any{"app": "web"}
	if w.production {
		labels["env"] = "production"
	}
	var containers []any
	for _, image := range []string{"bad/a", "worse/b", "other/c"} {
		containers = append(containers, map[string]any{"name": image[len(image)-1:], "image": image})
	}
	spec := map[string]any{"hostNetwork": true, "containers": containers}
	metadata := map[string]any{"name": "web", "namespace": "shop", "labels": labels}
	object := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
	if c[podTemplates] != "Pod" {
		object = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec},
		}}
	}
	return policytest.Request{Operation: usher.Create, Namespace: "shop", Object: object, User: policytest.User{Name: w.user}}
}

// objects are the params that exist.
func (c combination) objects() []map[string]any {
	if c[params] != "found" {
		return nil
	}
	return []map[string]any{{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "registry", "namespace": "shop"},
		"data": map[string]any{"prefix": "other/"},
	}}
}

// policies are the object policy and its exemption.
func (c combination) policies() []map[string]any {
	image := map[string]any{"name": "image", "fieldPath": "spec.containers"}
	prefix := map[string]string{"no params": "'bad/'", "in place": "params.prefix"}[c[params]]
	if prefix == "" {
		prefix = "params.data.prefix"
	}
	image["expression"] = "object.spec.containers.all(c, !c.image.startsWith(" + prefix + "))"
	image["messageExpression"] = "'images of ' + " + prefix
	host := map[string]any{"name": "host", "fieldPath": "spec.hostNetwork", "expression": "!object.spec.hostNetwork", "message": "no host network"}
	if c[failure] != "no error" {
		host["expression"] = erroneous
	}
	spec := map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"pods"},
		}}},
		"validations": []any{image, host},
		"bindings":    c.bindings(),
	}
	if prefix == "params.data.prefix" {
		spec["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	}
	if _, policy, ok := strings.Cut(c[failure], ": "); ok {
		spec["failurePolicy"] = policy
	}
	if _, value, ok := strings.Cut(c[podTemplates], ": "); ok {
		spec["podTemplates"] = value
	}
	switch c[subjects] {
	case "jane", "zoe":
		spec["subjects"] = users(c[subjects])
	case "not jane":
		spec["excludeSubjects"] = users("jane")
	}
	all := []map[string]any{{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": map[string]any{"name": "p"}, "spec": spec}}
	if c[exemption] == "no exemption" {
		return all
	}
	return append(all, c.exemption())
}

func users(name string) []any { return []any{map[string]any{"users": []any{name}}} }

func (c combination) bindings() []map[string]any {
	everywhere := map[string]any{"name": "everywhere"}
	all := []map[string]any{everywhere}
	production := map[string]any{"name": "production", "matchResources": map[string]any{
		"objectSelector": map[string]any{"matchLabels": map[string]any{"env": "production"}},
	}}
	switch c[action] {
	case "Deny+Audit":
		everywhere["validationActions"] = []any{"Deny", "Audit"}
	case "Warn everywhere, Deny in production":
		everywhere["validationActions"] = []any{"Warn"}
		all = append(all, production)
	default:
		everywhere["validationActions"] = []any{c[action]}
	}
	for _, binding := range all {
		switch _, missing, ok := strings.Cut(c[params], ": "); {
		case c[params] == "in place":
			binding["params"] = map[string]any{"prefix": "worse/"}
		case ok:
			binding["paramRef"] = map[string]any{"name": "registry", "parameterNotFoundAction": missing}
		case c[params] == "found":
			binding["paramRef"] = map[string]any{"name": "registry", "parameterNotFoundAction": "Deny"}
		}
	}
	return all
}

func (c combination) exemption() map[string]any {
	ref := map[string]any{"kind": "ClusterObjectPolicy", "name": "p"}
	spec := map[string]any{"policyRefs": []any{ref}, "reason": "a migration", "owner": "team-a", "expiresAt": "2026-06-02T00:00:00Z"}
	switch c[exemption] {
	case "from a validation":
		ref["validations"] = []any{"image"}
	case "for images":
		spec["images"] = []any{"bad/*"}
	case "expired":
		spec["expiresAt"] = "2026-06-01T11:00:00Z"
	case "for ann":
		spec["subjects"] = users("ann")
	case "with Warn":
		spec["action"] = "Warn"
	}
	return map[string]any{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": map[string]any{"name": "x"}, "spec": spec}
}
