package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

// change compares what is made of the object of a request.
func (c *comparer) change(ctx context.Context, r *interpret.Request) (bool, proof.Row, error) {
	wanted, answers, err := c.twin.Changed(r)
	if err != nil {
		return false, proof.Row{}, err
	}
	for name, status := range answers {
		if c.missing(name) {
			return false, proof.Row{}, fmt.Errorf("what the rule %s makes of an object is missing", name)
		}
		if status == interpret.Error && (ignores(c.policy) || c.says("where Kyverno fails")) {
			return false, proof.Row{}, fmt.Errorf("the rule %s fails in Kyverno", name)
		}
	}
	of, decision, err := c.decide(ctx, r, usher.Mutate)
	if err != nil {
		return false, unjudged("%v", err), nil
	}
	is, allowed := decision.Verdict != usher.Deny, wanted != nil
	of.Expect = &policytest.Expect{Allowed: &allowed, PatchedObject: wanted}
	if is != allowed || !is {
		return false, proof.Of(of, is == allowed, fmt.Sprintf("allowed is %t: %s; Kyverno answers %v of %s", is, decision.Message, answers, jsonOf(r.Object))), nil
	}
	made, _, err := jsonpatch.Apply(r.Object, decision.Patch)
	if err != nil {
		return false, proof.Of(of, false, err.Error()), nil
	}
	a, b := sorted(made), sorted(wanted)
	if c.says("a variable without quotes") && strings.Contains(jsonOf(b), "null") {
		return false, proof.Row{}, errors.New("a variable without quotes is nothing")
	}
	return !reflect.DeepEqual(sorted(r.Object), b), proof.Of(of, reflect.DeepEqual(a, b), "it makes "+jsonOf(a)+"; Kyverno makes "+jsonOf(b)), nil
}

// says reports whether a note of the import is about a difference.
func (c *comparer) says(what string) bool {
	return slices.ContainsFunc(c.of.Notes, func(n rule.Problem) bool { return strings.Contains(n.What, what) })
}

func jsonOf(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// sorted returns a value as JSON reads it, whose lists of named elements are in the order of their names: Kyverno moves the
// elements that it changes, of which the documentation says that they stay where they are.
func sorted(of any) any {
	switch v := of.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, each := range v {
			all[key] = sorted(each)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = sorted(v[i])
		}
		slices.SortStableFunc(all, func(a, b any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
		return all
	case int64:
		return float64(v)
	}
	return of
}

// nameOf returns what elements of lists are told apart by.
func nameOf(of any) string {
	fields, _ := of.(map[string]any)
	for _, key := range []string{"mountPath", "name"} {
		if text, ok := fields[key].(string); ok {
			return text
		}
	}
	return ""
}

// changes collects the fields that a rule changes, and those that it asks for.
func (g *generator) changes(m *syntax.Mutate) {
	g.pattern(nil, m.PatchStrategicMerge)
	g.operations(m.PatchesJSON6902)
	g.changeLoops(m.Foreach)
}

func (g *generator) changeLoops(all []syntax.ForeachMutate) {
	outer := g.element
	for i := range all {
		f := &all[i]
		if node, err := jmespath.Parse(f.List); err == nil {
			path := g.pathOf(node)
			if path == nil {
				g.expression(f.List, nil)
			} else {
				path = strings.Split(strings.TrimSuffix(strings.Join(path, "\n"), "\n"+item), "\n")
				g.add(path, []any{})
				g.element = append(path, item)
			}
		}
		for _, e := range f.Context {
			if e.Variable != nil {
				g.expression(e.Variable.JMESPath, nil)
			}
		}
		g.conditions(f.Preconditions)
		g.pattern(nil, f.PatchStrategicMerge)
		g.operations(f.PatchesJSON6902)
		g.changeLoops(f.Foreach)
		g.element = outer
	}
}

// texts collects the fields that the variables of a text read.
func (g *generator) texts(text string) {
	parts, _ := syntax.Parts(text)
	for _, p := range parts {
		g.expression(p.Expression, nil)
	}
}

var inBraces = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// operations collects the fields of a JSON patch. Variables in it are places, or any text.
func (g *generator) operations(text string) {
	g.texts(text)
	var all []struct {
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if yaml.Unmarshal([]byte(inBraces.ReplaceAllString(text, "0")), &all) != nil {
		return
	}
	for _, o := range all {
		var path []string
		for _, name := range strings.Split(o.Path, "/")[1:] {
			name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
			if _, err := strconv.Atoi(name); err == nil || name == "-" {
				name = item
			}
			path = append(path, name)
		}
		values := []any{o.Value}
		switch value := o.Value.(type) {
		case nil:
			values = nil
		case string:
			if values = append(values, "x"); strings.Contains(value, "{{") {
				values = values[1:]
			}
		}
		if len(path) > 0 && path[len(path)-1] == item {
			for i := range values {
				values[i] = []any{values[i]}
			}
			path, values = path[:len(path)-1], append(values, []any{})
		}
		g.add(path, values...)
	}
}

// doubled returns a value in which lists of one named element have two of them.
func doubled(of any) any {
	switch v := of.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, each := range v {
			all[key] = doubled(each)
		}
		return all
	case []any:
		var all []any
		for _, each := range v {
			all = append(all, doubled(each))
		}
		if len(all) == 1 && nameOf(all[0]) != "" {
			fields, _ := doubled(v[0]).(map[string]any)
			for _, key := range []string{"mountPath", "name"} {
				if text, ok := fields[key].(string); ok {
					fields[key] = text + "2"
				}
			}
			all = append(all, fields)
		}
		if all == nil {
			return v
		}
		return all
	}
	return of
}
