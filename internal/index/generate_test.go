package index_test

import (
	"math/rand/v2"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// A generator makes rules and subjects of few words, so that they often meet, out of
// bytes; when those run out it goes on with zeros.
type generator struct{ bytes []byte }

func (g *generator) below(n int) int {
	if len(g.bytes) == 0 {
		return 0
	}
	b := g.bytes[0]
	g.bytes = g.bytes[1:]
	return int(b) % n
}

func (g *generator) oneIn(n int) bool { return g.below(n) == n-1 }

func pick[T any](g *generator, choices ...T) T { return choices[g.below(len(choices))] }

func several[T any](g *generator, most int, one func() T) []T {
	var items []T
	for range g.below(most + 1) {
		items = append(items, one())
	}
	return items
}

func (g *generator) phase() usher.Phase { return pick(g, usher.Mutate, usher.Mutate, usher.Validate) }
func (g *generator) pass() int          { return pick(g, 1, 1, 0, -3) }
func (g *generator) operation() usher.Operation {
	return pick(g, usher.Create, usher.Create, usher.Update, usher.Delete, "", "*")
}
func (g *generator) apiVersion() string { return pick(g, "v1", "v1", "v1", "apps/v1") }
func (g *generator) kind() string       { return pick(g, "Pod", "Pod", "Pod", "Deployment", "") }
func (g *generator) word() string       { return pick(g, "a", "b", "c", "") }
func (g *generator) key() string        { return pick(g, "app", "tier", "zone") }

func (g *generator) rules() []rule.Rule {
	rules := make([]rule.Rule, 1+g.below(24))
	for i := range rules {
		rules[i] = rule.Rule{Phase: g.phase(), Pass: g.pass(), Match: g.match()}
	}
	return rules
}

func (g *generator) match() rule.Match {
	if g.oneIn(3) {
		return rule.Match{Resources: append(several(g, 1, g.resourceMatch), g.resourceMatch())}
	}
	m := rule.Match{Operations: several(g, 2, g.operation), Selectors: several(g, 3, g.selector)}
	if g.oneIn(4) {
		m.Namespace = g.word()
	}
	return m
}

func (g *generator) resourceMatch() rule.ResourceMatch {
	m := rule.ResourceMatch{Rules: several(g, 2, g.resourceRule), Exact: g.oneIn(6)}
	if g.oneIn(4) {
		m.Excluded = several(g, 1, g.resourceRule)
	}
	return m
}

func (g *generator) resourceRule() rule.ResourceRule {
	r := rule.ResourceRule{
		Operations: several(g, 2, g.operation),
		Groups:     append(several(g, 1, g.group), g.group()),
		Versions:   []string{pick(g, "v1", "v1", "v2", "*")},
		Resources:  append(several(g, 2, g.resources), g.resources()),
		Scope:      pick(g, "", "", rule.Cluster, rule.Namespaced),
	}
	if g.oneIn(4) {
		r.Names = several(g, 2, g.word)
	}
	if g.oneIn(24) {
		// So many that not all of them can be keys of the index.
		for i := range 300 {
			r.Names = append(r.Names, "n"+strconv.Itoa(i))
		}
	}
	if g.oneIn(24) {
		for i := range 300 {
			r.Groups = append(r.Groups, "g"+strconv.Itoa(i))
		}
	}
	return r
}

func (g *generator) group() string { return pick(g, "", "", "apps", "*") }
func (g *generator) resources() string {
	return pick(g, "pods", "pods", "deployments", "pods/exec", "pods/*", "*", "*/*", "*/scale", "deployments/scale", "namespaces")
}

func (g *generator) selector() rule.Selector {
	sel := rule.Selector{APIVersion: g.apiVersion(), Kind: g.kind()}
	if g.oneIn(3) {
		sel.Namespace = g.word()
	}
	if g.oneIn(4) {
		sel.Name = g.word()
	}
	if g.oneIn(2) {
		sel.Labels = g.labels()
	}
	if g.oneIn(3) {
		sel.Fields = several(g, 2, g.field)
	}
	if g.oneIn(16) {
		sel.Never = "not understood"
	}
	return sel
}

func (g *generator) labels() labels.Selector {
	if g.oneIn(12) {
		return pick(g, labels.Nothing(), labels.Everything())
	}
	selector := labels.NewSelector()
	for range 1 + g.below(2) {
		op := pick(g, selection.In, selection.Equals, selection.NotIn, selection.Exists, selection.DoesNotExist, selection.GreaterThan)
		var values []string
		switch op {
		case selection.In, selection.NotIn:
			values = []string{g.word(), g.word()}
		case selection.Equals:
			values = []string{g.word()}
		case selection.GreaterThan:
			values = []string{"3"}
		}
		requirement, err := labels.NewRequirement(g.key(), op, values)
		if err != nil {
			panic(err)
		}
		selector = selector.Add(*requirement)
	}
	return selector
}

func (g *generator) field() rule.Field {
	return rule.Field{
		Path:   pick(g, []string{"metadata", "labels", "app"}, []string{"spec", "a"}, []string{"spec", "b"}, []string{"spec a"}, nil),
		Op:     pick(g, rule.In, rule.In, rule.NotIn, rule.Exists, rule.DoesNotExist, "?"),
		Values: several(g, 2, g.word),
	}
}

func (g *generator) value() any {
	return pick[any](g, "a", "b", "c", "", int64(5), nil, true, map[string]any{"a": "b"})
}

func (g *generator) subject() rule.Target {
	object := map[string]any{"apiVersion": g.apiVersion(), "kind": g.kind()}
	if !g.oneIn(8) {
		metadata := map[string]any{"name": g.word(), "namespace": g.word()}
		if !g.oneIn(4) {
			metadata["labels"] = map[string]any{}
			for range g.below(4) {
				metadata["labels"].(map[string]any)[g.key()] = g.label()
			}
		}
		object["metadata"] = metadata
	}
	if !g.oneIn(4) {
		object["spec"] = pick[any](g, map[string]any{"a": g.value(), "b": g.value()}, map[string]any{"a": g.value()}, nil, "text")
	}
	if g.oneIn(4) {
		object["spec a"] = g.value()
	}
	request := usher.Request{Operation: g.operation(), Name: g.word(), Namespace: g.word()}
	request.Kind = schema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string))
	request.Resource = schema.GroupVersionResource{
		Group: pick(g, "", "", "apps", "example.com"), Version: pick(g, "v1", "v1", "v2"), Resource: pick(g, "pods", "pods", "deployments", "namespaces"),
	}
	request.Subresource = pick(g, "", "", "", "scale", "exec", "status")
	if g.oneIn(6) {
		request.Requested = request.Kind
		request.Requested.Version = g.apiVersion()
	}
	if g.oneIn(8) {
		// What no policy is for, and what looks like it.
		request.Kind.Group, request.Kind.Kind = pick(g, "admissionregistration.k8s.io", "example.com"), "ValidatingAdmissionPolicy"
	}
	return rule.TargetOf(&request, object)
}

func (g *generator) label() any {
	if g.oneIn(8) {
		return g.value()
	}
	return pick(g, g.word(), "4")
}

// noise returns n bytes that depend on nothing but the seed.
func noise(seed uint64, n int) []byte {
	source := rand.New(rand.NewPCG(seed, 1))
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(source.Uint32())
	}
	return bytes
}
