package prove

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// Bounds of what is generated for a policy.
const (
	mostRequests = 150
	mostFields   = 60
)

// A field is a place in objects that a policy mentions, and values that matter there.
type field struct {
	path   []string
	values []any
}

// item is the name of the elements of a list in a path.
const item = "[]"

// A generator makes objects of what a policy mentions.
type generator struct {
	kinds        *kind.Set
	random       *rand.Rand
	fields       []field
	surroundings surroundings
	// doubles says that lists have several elements, too.
	doubles bool
	// element is the path of the elements of the loop that is looked at.
	element []string
}

// Requests returns requests about objects that are made of what a policy mentions: each has values at or around those
// that the policy compares with, or lacks fields. They are the same for the same policy.
func Requests(policy *syntax.Policy, kinds *kind.Set) []*interpret.Request {
	g := &generator{kinds: kinds, random: rand.New(rand.NewPCG(1, 2))}
	var all []*interpret.Request
	seen := map[string]bool{}
	add := func(r *interpret.Request) {
		if !g.possible(r.Object) || !g.possible(r.OldObject) {
			return
		}
		text, err := json.Marshal(r)
		if err == nil && !seen[string(text)] && len(all) < mostRequests {
			seen[string(text)] = true
			all = append(all, r)
		}
	}
	rules := policy.Spec.Rules
	for i := range rules {
		g.fields, g.doubles = nil, rules[i].Mutate != nil
		g.matched(&rules[i])
		g.rule(&rules[i])
		for _, of := range g.templates(&rules[i]) {
			for _, r := range g.requests(of, mostRequests/len(rules)) {
				add(r)
			}
		}
	}
	return all
}

// templates returns an object without fields for each kind that a rule names.
func (g *generator) templates(r *syntax.Rule) []map[string]any {
	var all []map[string]any
	for _, b := range blocksOf(&r.Match) {
		for _, text := range b.Resources.Kinds {
			parts := strings.Split(text, "/")
			name := parts[len(parts)-1]
			for of := range g.kinds.Resources() {
				if of.Kind != name || interpret.LeftOut(of.Kind) || strings.Contains(of.Name, "/") || len(parts) > 1 && parts[0] != of.Group && parts[0] != of.Version {
					continue
				}
				version := of.Version
				if of.Group != "" {
					version = of.Group + "/" + version
				}
				metadata := map[string]any{"name": "a"}
				if of.Namespaced {
					metadata["namespace"] = "default"
				}
				all = append(all, map[string]any{"apiVersion": version, "kind": of.Kind, "metadata": metadata})
				break
			}
		}
	}
	return all
}

func cloned(of map[string]any) map[string]any {
	object := maps.Clone(of)
	metadata, _ := of["metadata"].(map[string]any)
	object["metadata"] = maps.Clone(metadata)
	return object
}

// absent is the value of a field that an object does not have.
type absent struct{}

// put returns a value with another one at a path. Lists have two elements, of which the first one gets it.
func put(in any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == item {
		items, _ := in.([]any)
		items = slices.Clone(items)
		if len(items) == 0 {
			items = []any{nil}
		}
		items[0] = put(items[0], path[1:], value)
		return items
	}
	fields, _ := in.(map[string]any)
	if fields = maps.Clone(fields); fields == nil {
		fields = map[string]any{}
	}
	fields[path[0]] = put(fields[path[0]], path[1:], value)
	return fields
}

func (g *generator) add(path []string, values ...any) {
	if len(path) == 0 || len(path) == 1 && (path[0] == "kind" || path[0] == "apiVersion") {
		return
	}
	if slices.Equal(path, []string{"metadata", "namespace"}) {
		return
	}
	isText := func(v any) bool { s, ok := v.(string); return ok && s != "" }
	if slices.Equal(path, []string{"metadata", "name"}) || g.doubles && namesElement(path) {
		// An API server refuses an object of which a name is missing, whatever is made of it.
		values = slices.DeleteFunc(values, func(v any) bool { return !isText(v) })
		values = append(values, "a")
	} else {
		values = append(values, absent{})
	}
	for i := range g.fields {
		if slices.Equal(g.fields[i].path, path) {
			for _, v := range values {
				if !slices.ContainsFunc(g.fields[i].values, func(w any) bool { return equal(v, w) }) {
					g.fields[i].values = append(g.fields[i].values, v)
				}
			}
			return
		}
	}
	if len(g.fields) < mostFields {
		g.fields = append(g.fields, field{path: slices.Clone(path), values: values})
	}
}

// namesElement reports whether a field is one by which elements of a list are told apart.
func namesElement(path []string) bool {
	last := len(path) - 1
	return last > 0 && path[last-1] == item && (path[last] == "name" || path[last] == "mountPath")
}

func equal(a, b any) bool {
	x, first := json.Marshal(a)
	y, second := json.Marshal(b)
	_, one := a.(absent)
	_, two := b.(absent)
	return first == nil && second == nil && one == two && string(x) == string(y)
}

// rule collects the fields that a rule mentions.
func (g *generator) rule(r *syntax.Rule) {
	g.conditions(r.Preconditions)
	for _, e := range r.Context {
		if e.Variable != nil {
			g.expression(e.Variable.JMESPath, nil)
		}
	}
	if r.Mutate != nil {
		g.changes(r.Mutate)
	}
	v := r.Validate
	if v == nil {
		return
	}
	if v.PodSecurity != nil {
		g.podSecurity(v.PodSecurity)
	}
	g.pattern(nil, v.Pattern)
	g.several(nil, v.AnyPattern)
	if v.Deny != nil {
		g.conditions(v.Deny.Conditions)
	}
	g.loops(v.Foreach)
}

func (g *generator) several(path []string, p *syntax.Pattern) {
	if p != nil {
		for _, each := range p.Items {
			g.pattern(path, each)
		}
	}
}

func (g *generator) loops(all []syntax.Foreach) {
	for i := range all {
		f := &all[i]
		g.expression(f.List, nil)
		g.conditions(f.Preconditions)
		if f.Deny != nil {
			g.conditions(f.Deny.Conditions)
		}
		if node, err := jmespath.Parse(f.List); err == nil {
			if path := g.pathOf(node); path != nil {
				g.pattern(append(path, item), f.Pattern)
				g.several(append(path, item), f.AnyPattern)
			}
		}
		g.loops(f.Foreach)
	}
}

// pattern collects the fields of a pattern.
func (g *generator) pattern(path []string, p *syntax.Pattern) {
	if p == nil {
		return
	}
	at := func(more string) []string { return append(slices.Clone(path), more) }
	switch p.Sort {
	case syntax.Map:
		for _, key := range p.Keys {
			name := strings.NewReplacer("*", "x", "?", "x").Replace(key.Name)
			if key.Anchor == syntax.Negation {
				g.add(at(name), absent{}, "x", "")
				continue
			}
			g.pattern(at(name), key.Value)
		}
	case syntax.List:
		g.add(path, []any{})
		for _, each := range p.Items {
			g.pattern(at(item), each)
		}
	default:
		g.add(path, around(p.Scalar)...)
	}
}

// around returns values at and around a scalar of a pattern, the good ones first.
func around(scalar any) []any {
	switch v := scalar.(type) {
	case bool:
		return []any{v, !v}
	case int64:
		return []any{v, v + 1, v - 1, int64(0)}
	case string:
		var good, bad []any
		if strings.Contains(v, "{{") {
			// Kyverno replaces variables even in objects.
			return []any{"x", "", "other"}
		}
		for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '|' || r == '&' }) {
			part = strings.TrimSpace(part)
			operand := strings.TrimSpace(strings.TrimLeft(part, "<>=!"))
			example := strings.NewReplacer("*", "x", "?", "x").Replace(operand)
			shorter := strings.NewReplacer("*", "", "?", "x").Replace(operand)
			if n, err := strconv.ParseInt(operand, 10, 64); err == nil {
				good = append(good, n, n+1, n-1)
			}
			if strings.HasPrefix(part, "!") {
				good, bad = append(good, "other"), append(bad, example)
			} else {
				good, bad = append(good, example, shorter), append(bad, "other"+example)
			}
		}
		return append(append(good, bad...), "", "other")
	default:
		return []any{"x", ""}
	}
}

// conditions collects the fields of keys, with the values that they are compared with.
func (g *generator) conditions(c *syntax.Conditions) {
	if c == nil {
		return
	}
	for _, each := range append(slices.Clone(c.Any), c.All...) {
		values := []any{}
		switch v := each.Value.Of.(type) {
		case []any:
			for _, one := range v {
				values = append(values, around(one)...)
			}
		default:
			values = around(v)
		}
		for _, side := range []any{each.Key.Of, each.Value.Of} {
			if text, ok := side.(string); ok {
				parts, _ := syntax.Parts(text)
				for _, p := range parts {
					g.expression(p.Expression, values)
				}
			}
		}
	}
}

// expression collects the paths in an expression that begin at the object.
func (g *generator) expression(text string, values []any) {
	node, err := jmespath.Parse(text)
	if err != nil {
		return
	}
	var paths [][]string
	node.Walk(func(n *jmespath.Node) {
		if path := g.pathOf(n); len(path) > 0 {
			paths = append(paths, path)
		}
	})
	for _, path := range paths {
		longer := func(other []string) bool { return len(other) > len(path) && slices.Equal(other[:len(path)], path) }
		switch {
		case slices.ContainsFunc(paths, longer):
			// What is read of it is read of a map.
		case path[len(path)-1] != item:
			g.add(path, append(slices.Clone(values), "x", "")...)
		case g.doubles:
			g.add(path[:len(path)-1], []any{})
		default:
			g.add(path[:len(path)-1], []any{}, []any{"x"})
		}
	}
}

// pathOf returns the path of an expression below request.object or the element of a loop, nil for others.
func (g *generator) pathOf(n *jmespath.Node) []string {
	path := steps(n)
	if len(path) > 1 && path[0] == "element" && g.element != nil {
		return append(slices.Clone(g.element), path[1:]...)
	}
	if len(path) > 2 && path[0] == "request" && path[1] == "object" {
		return path[2:]
	}
	return nil
}

func steps(n *jmespath.Node) []string {
	switch n.Op {
	case jmespath.Field:
		return []string{n.Text}
	case jmespath.Sub:
		if left := steps(n.Args[0]); left != nil {
			return append(left, steps(n.Args[1])...)
		}
	case jmespath.Flatten:
		if left := steps(n.Args[0]); left != nil {
			return append(left, item)
		}
	case jmespath.Project:
		left := steps(n.Args[0])
		if left == nil {
			return nil
		}
		if n.Args[0].Op != jmespath.Flatten {
			left = append(left, item)
		}
		return append(left, steps(n.Args[1])...)
	case jmespath.Filter:
		if left := steps(n.Args[0]); left != nil {
			return append(append(left, item), steps(n.Args[1])...)
		}
	case jmespath.Or:
		return steps(n.Args[0])
	default:
	}
	return nil
}
