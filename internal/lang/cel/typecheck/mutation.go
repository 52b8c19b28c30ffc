package typecheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// isMutation reports whether a type is that of a part of an apply configuration.
func isMutation(name string) bool {
	return name == mutation.ObjectTypeName || strings.HasPrefix(name, mutation.ObjectTypeName+".")
}

// mutated returns the schema of a part of an apply configuration, nil if it is not known. The type
// of a list has the name of its elements.
func (p *provider) mutated(name string) *kind.Schema {
	of := p.set.Resolve(p.object)
	for _, step := range strings.Split(name, ".")[1:] {
		if of = elementOf(p.set, of); of == nil {
			return nil
		}
		of = p.set.Resolve(of.Properties[step])
	}
	return elementOf(p.set, of)
}

// elementOf returns the schema of the elements of a list, and other schemas as they are.
func elementOf(set *kind.Set, of *kind.Schema) *kind.Schema {
	for of != nil && of.Kind() == kind.List {
		of = set.Resolve(of.Items)
	}
	return of
}

// mutatedField returns the type of a field of an apply configuration: that of a scalar, and no other,
// since values can come from objects, too.
func (p *provider) mutatedField(name, field string) (*types.FieldType, bool) {
	of := p.mutated(name)
	if of == nil || isOpen(of) {
		return &types.FieldType{Type: types.DynType}, true
	}
	next, ok := of.Properties[field]
	if !ok {
		return nil, false
	}
	switch t := p.typeOf(name+"."+field, next); t.Kind() {
	case types.StringKind, types.BoolKind, types.IntKind:
		return &types.FieldType{Type: t}, true
	default:
		return &types.FieldType{Type: types.DynType}, true
	}
}

// A written is a field of an apply configuration that is set.
type written struct {
	of    string
	field ast.StructField
}

// writtenIn returns the fields that an expression sets, by their numbers.
func writtenIn(nodes map[int64]ast.Expr) map[int64]written {
	all := map[int64]written{}
	for _, e := range nodes {
		if e.Kind() != ast.StructKind || !isMutation(e.AsStruct().TypeName()) {
			continue
		}
		for _, entry := range e.AsStruct().Fields() {
			all[entry.ID()] = written{e.AsStruct().TypeName(), entry.AsStructField()}
		}
	}
	return all
}

// setting says what is wrong with a field that an apply configuration sets.
func (c *classifier) setting(w written, undefined bool) (mistake, bool) {
	at := path{holder: objectName, steps: strings.Split(w.of, ".")[1:]}
	if undefined {
		m := mistake{at: at, operand: w.of, field: w.field.Name(), sets: true}
		if of := c.mutated(w.of); of != nil {
			m.fields = slices.Sorted(maps.Keys(of.Properties))
		}
		return m, true
	}
	value := c.typed.GetType(w.field.Value().ID())
	wanted, ok := c.mutatedField(w.of, w.field.Name())
	if !ok || isUnknown(wanted.Type) || c.comparable(wanted.Type, value) || isOptional(value) {
		return mistake{}, false
	}
	return mistake{
		at: at, sets: true,
		what: at.then(w.field.Name()).String() + " is " + describe(wanted.Type) + ", and " + c.text(w.field.Value()) + " is " + describe(value) + ": the API server refuses it",
		do:   c.adviseComparison([]ast.Expr{w.field.Value()}, []*types.Type{value, wanted.Type}),
	}, true
}

// changes says which types of apply configurations and which paths of JSON patches lead nowhere.
func (c *classifier) changes() []mistake {
	var all []mistake
	for id, e := range c.nodes {
		if e.Kind() == ast.StructKind && isMutation(e.AsStruct().TypeName()) {
			if m, wrong := c.misnamed(e.AsStruct().TypeName()); wrong {
				m.node = id
				all = append(all, m)
			} else {
				all = append(all, replacing(c, e)...)
			}
		}
		if e.Kind() != ast.StructKind || e.AsStruct().TypeName() != mutation.JSONPatchTypeName {
			continue
		}
		for _, entry := range e.AsStruct().Fields() {
			f := entry.AsStructField()
			if f.Name() != "path" && f.Name() != "from" {
				continue
			}
			if m, wrong := c.pointer(f.Value()); wrong {
				m.node = id
				all = append(all, m)
			}
		}
	}
	return all
}

// replacing says which fields of a part of an apply configuration are lists and maps that can only be replaced as a
// whole, which no apply configuration can do. Values that may be null or no value are left out.
func replacing(c *classifier, e ast.Expr) []mistake {
	structure, err := c.structures.Schema(c.kind)
	if structure == nil || err != nil {
		return nil
	}
	var all []mistake
	above := strings.Split(e.AsStruct().TypeName(), ".")[1:]
	for _, entry := range e.AsStruct().Fields() {
		f := entry.AsStructField()
		value := c.typed.GetType(f.Value().ID())
		isWhole := value.Kind() == types.ListKind || value.Kind() == types.MapKind || isMutation(value.TypeName())
		at := path{holder: objectName, steps: append(slices.Clip(above), f.Name())}
		if f.IsOptional() || !isWhole || !structure.Atomic(at.steps) {
			continue
		}
		all = append(all, mistake{
			node: entry.ID(), at: at, sets: true,
			what: "no ApplyConfiguration can set " + at.String() + ", which can only be replaced as a whole: the mutation fails",
			do:   patchFor(c, e, above, f),
		})
	}
	return all
}

// longestPatch is how long the value of a patch in a message may be.
const longestPatch = 200

// patchFor is the JSON patch for a field of a part of an apply configuration: of the element of a list as a whole.
func patchFor(c *classifier, of ast.Expr, above []string, f ast.StructField) string {
	target, value, end := append(slices.Clip(above), f.Name()), f.Value(), ""
	for i := 1; i <= len(above); i++ {
		if at := c.set.Follow(c.object, above[:i]).At; at != nil && at.Kind() == kind.List {
			target, value, end = above[:i], of, "/-"
			break
		}
	}
	text := "…"
	if end == "" || len(target) == len(above) {
		if whole, err := parser.Unparse(value, c.info); err == nil && len(whole) <= longestPatch {
			text = printable.Words(whole)
		}
	}
	return "write it as jsonPatch: [JSONPatch{op: \"add\", path: \"/" + strings.Join(target, "/") + end + "\", value: " + text + "}]"
}

// misnamed says which step of the name of a type leads nowhere.
func (c *classifier) misnamed(name string) (mistake, bool) {
	steps := strings.Split(name, ".")
	for i := 1; i < len(steps); i++ {
		of := c.mutated(strings.Join(steps[:i], "."))
		if of == nil || isOpen(of) {
			return mistake{}, false
		}
		if _, ok := of.Properties[steps[i]]; !ok {
			m := mistake{at: path{holder: objectName, steps: steps[1:i]}, operand: name, field: steps[i], fields: slices.Sorted(maps.Keys(of.Properties)), sets: true}
			if c.listed(steps[:i]) && rule.Nearest(steps[i], m.fields) == "" {
				m.do = "elements have the type that is named after their list: write " + strings.Join(slices.Concat(steps[:i], steps[i+1:]), ".") + "{…}"
			}
			return m, true
		}
	}
	return mistake{}, false
}

// listed reports whether the name of a type is that of the elements of a list.
func (p *provider) listed(steps []string) bool {
	last := len(steps) - 1
	above := p.mutated(strings.Join(steps[:last], "."))
	if above == nil {
		return false
	}
	of := p.set.Resolve(above.Properties[steps[last]])
	return of != nil && of.Kind() == kind.List
}

// pointer follows a JSON pointer, as far as it is known.
func (c *classifier) pointer(e ast.Expr) (mistake, bool) {
	text, whole := prefixOf(e)
	if !strings.HasPrefix(text, "/") || c.object == nil {
		return mistake{}, false
	}
	if whole && text == "/" {
		// It is written for patches that are not meant to be applied, and taken out of the list.
		return mistake{}, false
	}
	steps := strings.Split(text[1:], "/")
	if !whole {
		steps = steps[:len(steps)-1]
	}
	for i := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i])
		above := c.set.Follow(c.object, steps[:i]).At
		if above != nil && above.Kind() == kind.List && (steps[i] == "-" || strings.Trim(steps[i], "0123456789") == "") {
			steps[i] = rule.Element
		}
	}
	step := c.set.Follow(c.object, steps)
	if step.Wrong == 0 {
		return mistake{}, false
	}
	m := mistake{at: path{holder: objectName, steps: steps[:step.Wrong-1]}, operand: c.text(e), field: steps[step.Wrong-1], fields: step.Fields(), sets: true}
	if step.Parent != kind.Object {
		m.what = m.at.String() + " is " + kind.Describe(step.Parent) + ", which has no " + m.field
		m.field, m.do = "", c.escaped(steps, step.Wrong-2)
	}
	return m, true
}

// escaped is advice to write the steps behind a map as one of its keys; empty if the steps before the key lead to no map.
func (p *provider) escaped(steps []string, key int) string {
	if key < 0 {
		return ""
	}
	above := p.set.Follow(p.object, steps[:key]).At
	if above == nil || above.Kind() != kind.Map {
		return ""
	}
	return "a slash in a key is written ~1: /" + strings.Join(steps[:key], "/") + "/" + strings.Join(steps[key:], "~1") + ", as jsonpatch.escapeKey does"
}

// prefixOf returns the constant text with which a value begins, and whether that is the whole value.
func prefixOf(e ast.Expr) (text string, whole bool) {
	if value, ok := e.AsLiteral().(types.String); ok {
		return string(value), true
	}
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Add {
		return "", false
	}
	text, whole = prefixOf(e.AsCall().Args()[0])
	if whole {
		more, all := prefixOf(e.AsCall().Args()[1])
		return text + more, all
	}
	return text, false
}
