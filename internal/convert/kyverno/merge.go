package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// A location is a path of a JSON patch: texts, and expressions of CEL that are texts.
type location []segment

type segment struct{ text, computed string }

// to returns the path of a field.
func (l location) to(name string) location {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return append(slices.Clip(l), segment{text: "/" + escaped})
}

// at returns the path of an element whose index is an expression.
func (l location) at(index string) location {
	return append(slices.Clip(l), segment{text: "/"}, segment{computed: "string(" + index + ")"})
}

func (l location) String() string {
	var parts []string
	text := ""
	for _, s := range l {
		if s.computed == "" {
			text += s.text
			continue
		}
		parts = append(parts, convert.Quote(text), s.computed)
		text = ""
	}
	if text != "" || len(parts) == 0 {
		parts = append(parts, convert.Quote(text))
	}
	return strings.Join(parts, " + ")
}

// operation returns a list with one operation.
func (l location) operation(op, value string) string {
	if value != "" {
		value = ", value: " + value
	}
	return "[JSONPatch{op: '" + op + "', path: " + l.String() + value + "}]"
}

// keys returns the operations that merge a map into one that is there.
func (w *patcher) keys(p *syntax.Pattern, at string, to location, of shape) ([]string, error) {
	var lists []string
	for i := range p.Keys {
		key := &p.Keys[i]
		if strings.Contains(key.Name, "{{") {
			return nil, refuse(key.Value.Field, "a key has a variable", "write it as a JSONPatch")
		}
		list, err := w.key(key, at, to.to(key.Name), of)
		if err != nil {
			return nil, err
		}
		if list != "" {
			lists = append(lists, list)
		}
	}
	return lists, nil
}

func (w *patcher) key(key *syntax.Key, at string, to location, of shape) (string, error) {
	next, required := of.field(key.Name)
	present := has(at, key.Name)
	value := member(at, key.Name)
	if key.Anchor == syntax.AddIfAbsent {
		if w.first != "" && at != w.item {
			return "", refuse(key.Value.Field, key.Text+" is in a map of an element, and in Kyverno the first element decides what is added to all", "write it as a foreach with patchesJson6902 and preconditions")
		}
		if w.first != "" {
			// The first element decides for all.
			present = has(w.first+"[0]", key.Name)
		}
		if v, ok := nullable(w, key.Value); ok && w.first == "" {
			return all(not(present), call(v.NotNull())).text + " ? " + to.operation("add", v.Text) + " : []", nil
		}
		added, err := w.value(key.Value)
		return present.text + " ? [] : " + to.operation("add", added), err
	}
	switch key.Anchor {
	case syntax.Conditional, syntax.Global:
		return "", w.condition(key, at, present, value, next)
	case syntax.NoAnchor:
	default:
		return "", refuse(key.Value.Field, "the anchor "+key.Text+" is not imported in patches", "write it as a JSONPatch")
	}
	switch {
	case key.Value.Sort == syntax.List:
		return w.list(key.Value, value, present, to, next)
	case key.Value.Sort == syntax.Map && len(key.Value.Keys) > 0:
		return w.mapAt(key.Value, value, present, required, to, next)
	case key.Value.Sort == syntax.Scalar && key.Value.Scalar == nil:
		return present.text + " ? " + to.operation("remove", "") + " : []", nil
	}
	if v, ok := nullable(w, key.Value); ok {
		return v.NotNull() + " ? " + to.operation("add", v.Text) + " : " + present.text + " ? " + to.operation("remove", "") + " : []", nil
	}
	if v, ok := variableOf(w, key.Value); ok && mayBeMap(v, next) {
		return mergedLabels(v, value, present, to, key.Value.Field)
	}
	added, err := w.value(key.Value)
	if key.Value.Sort == syntax.Map {
		return present.text + " ? [] : " + to.operation("add", "{}"), err
	}
	return to.operation("add", added), err
}

// condition adds a condition of an anchor, outside of lists.
func (w *patcher) condition(key *syntax.Key, at string, present term, value string, of shape) error {
	if w.first != "" || key.Value.Sort != syntax.Scalar {
		return refuse(key.Value.Field, "the condition "+key.Text+" is not imported here", "write it as a precondition")
	}
	fits, err := leafOf(key.Value.Scalar).fits(value, of.sort())
	if text, ok := key.Value.Scalar.(string); err != nil || ok && strings.Contains(text, "{{") {
		return refuse(key.Value.Field, "the condition "+key.Text+" is not imported", "write it as a precondition")
	}
	w.conditions = append(w.conditions, all(w.way(at), present, fits))
	return nil
}

// mapAt merges a map into the value of a key, or adds it.
func (w *patcher) mapAt(p *syntax.Pattern, at string, present term, required bool, to location, of shape) (string, error) {
	inside, err := w.keys(p, at, to, of)
	if err != nil {
		return "", err
	}
	if required {
		return joinedLists(inside), nil
	}
	added, err := w.value(p)
	if err != nil {
		return "", err
	}
	otherwise := to.operation("add", added)
	if added == "{}" {
		otherwise = "[]"
	}
	if len(inside) == 0 {
		return "", nil
	}
	return present.text + " ? " + parenthesizedChoice(joinedLists(inside)) + " : " + otherwise, nil
}

func parenthesizedChoice(text string) string {
	if strings.Contains(text, " ? ") {
		return "(" + text + ")"
	}
	return text
}

// list merges a list into the value of a key, or replaces it.
func (w *patcher) list(p *syntax.Pattern, at string, present term, to location, of shape) (string, error) {
	if w.replaced(p) {
		added, err := w.value(p)
		return to.operation("add", added), err
	}
	if len(p.Items) == 1 && onlyGlobal(p.Items[0]) {
		return "", w.globalList(p.Items[0], at, of)
	}
	by := mergedLists[lastField(p.Field)]
	if by == "" || w.first != "" && lastField(p.Field) == "containers" {
		return "", refuse(p.Field, "how its elements are merged is not known", "write it as a JSONPatch")
	}
	merges := make([]*merge, len(p.Items))
	for i, item := range p.Items {
		if item.Sort != syntax.Map {
			return "", refuse(p.Field, "its elements are no maps", "write it as a JSONPatch")
		}
		m, err := w.element(item, by, at, to, of)
		if err != nil {
			return "", err
		}
		merges[i] = m
	}
	if len(merges) == 1 && merges[0].conditional {
		return present.text + " ? " + merges[0].merged + " : []", nil
	}
	return added(merges, present, to, p.Field)
}

// A merge is what an element of a patch does to a list.
type merge struct {
	// merged are operations on the elements that are there, and value is the element that is added if none exists.
	merged, value, exists string
	conditional           bool
}

// added merges elements into a list, and adds those that are not there at its beginning.
func added(merges []*merge, present term, to location, field string) (string, error) {
	var values, merged, adds []string
	for _, m := range merges {
		if m.conditional {
			return "", refuse(field, "it has several elements, of which some are conditional", "write a rule for each")
		}
		values = append(values, m.value)
		merged = append(merged, m.merged)
		adds = append([]string{"(" + m.exists + " ? [] : " + to.to("0").operation("add", m.value) + ")"}, adds...)
	}
	otherwise := fmt.Sprintf("%s ? %s : %s", merges[0].exists, merged[0], to.to("0").operation("add", values[0]))
	if len(merges) > 1 {
		otherwise = strings.Join(append(merged, adds...), " + ")
	}
	return fmt.Sprintf("!%s ? %s : %s", present.text, to.operation("add", "["+strings.Join(values, ", ")+"]"), otherwise), nil
}

// onlyGlobal reports whether an element of a patch has nothing but global anchors.
func onlyGlobal(p *syntax.Pattern) bool {
	return p.Sort == syntax.Map && len(p.Keys) == 1 && (p.Keys[0].Anchor == syntax.Global || p.Keys[0].Anchor == syntax.NoAnchor && onlyGlobal(p.Keys[0].Value))
}

// globalList adds the condition that an element of a list fits, if there are elements.
func (w *patcher) globalList(p *syntax.Pattern, at string, of shape) error {
	fits, here, shape, key := yes, "holder", of.element(), &p.Keys[0]
	for ; ; key = &key.Value.Keys[0] {
		fits = all(fits, has(here, key.Name))
		here = member(here, key.Name)
		shape, _ = shape.field(key.Name)
		if key.Anchor == syntax.Global {
			break
		}
	}
	switch {
	case w.first != "":
		return refuse(p.Field, "a global anchor in a list of elements is not imported", "write it as a precondition")
	case key.Value.Sort == syntax.Scalar && literal(key.Value) == nil:
		leaf, err := leafOf(key.Value.Scalar).fits(here, shape.sort())
		if err != nil {
			return refuse(key.Value.Field, err.Error(), "write it as a precondition")
		}
		fits = all(fits, leaf)
	case key.Value.Sort != syntax.Map || len(key.Value.Keys) > 0:
		return refuse(key.Value.Field, "the condition "+key.Text+" is not imported here", "write it as a precondition")
	}
	w.conditions = append(w.conditions, all(w.way(at), some(compare("size("+at+")", "==", "0"), call(at+".exists(holder, "+fits.text+")"))))
	return nil
}

// way returns a term that holds if all fields on the way to a value are there.
func (w *patcher) way(at string) term {
	chain := yes
	names := strings.Split(at, ".")
	for i := 1; i < len(names); i++ {
		if names[i] != "metadata" || i > 1 {
			chain = all(chain, has(strings.Join(names[:i], "."), names[i]))
		}
	}
	return chain
}

// element merges an element of a list: into each one if it is selected by a condition, else into the one with its
// name, or adds it at the beginning.
func (w *patcher) element(p *syntax.Pattern, by, at string, to location, of shape) (*merge, error) {
	var selects *syntax.Key
	rest := *p
	rest.Keys = nil
	for i := range p.Keys {
		switch key := &p.Keys[i]; {
		case key.Anchor == syntax.Conditional && key.Name == by, key.Anchor == syntax.NoAnchor && key.Name == by:
			selects = key
		default:
			rest.Keys = append(rest.Keys, *key)
		}
	}
	if selects == nil || selects.Value.Sort != syntax.Scalar {
		return nil, refuse(p.Field, "it does not select elements by "+by+" alone", "write it as a JSONPatch")
	}
	index := "i"
	if strings.Contains(to.String(), "string(i)") {
		// It is a list in an element of another one.
		index = "n"
	}
	name := w.scope.Taking(index).ElementName(lastField(to.last()))
	outer, first, item := w.scope, w.first, w.item
	defer func() { w.scope, w.first, w.item = outer, first, item }()
	w.scope = outer.Taking(name).Taking(index)
	w.first, w.item = at, name
	inside, err := w.keys(&rest, name, to.at(index), of.element())
	if err != nil {
		return nil, err
	}
	m := &merge{conditional: selects.Anchor == syntax.Conditional}
	ops := parenthesizedChoice(joinedLists(inside))
	each := func(ops string) string {
		return at + ".transformList(" + index + ", " + name + ", " + ops + ").flatten()"
	}
	raw, _ := selects.Value.Scalar.(string)
	if m.conditional && raw == "*" {
		m.merged = each(ops)
		return m, nil
	}
	same, err := w.selected(selects, member(name, by))
	if err != nil {
		return nil, err
	}
	m.merged = each(same.within(either) + " ? " + ops + " : []")
	if m.conditional {
		return m, nil
	}
	w.note(p.Field, "elements that are changed stay where they are: Kyverno moves them to the beginning of the list", "")
	w.first = ""
	m.value, err = w.value(p)
	m.exists = at + ".exists(" + name + ", " + same.text + ")"
	return m, err
}

// selected returns a term that holds for elements that are changed.
func (w *patcher) selected(key *syntax.Key, at string) (term, error) {
	raw, _ := key.Value.Scalar.(string)
	if key.Anchor == syntax.Conditional && strings.ContainsAny(raw, "*?|!<>&") {
		if literal(key.Value) != nil {
			return no, refuse(key.Value.Field, "it selects some elements by a pattern with variables", "write it as a JSONPatch")
		}
		fits, err := leafOf(raw).fits(at, kind.Text)
		if err != nil {
			return no, refuse(key.Value.Field, err.Error(), "write it as a JSONPatch")
		}
		return fits, nil
	}
	text, err := w.value(key.Value)
	return compare(at, "==", text), err
}

// last is the last name of a path.
func (l location) last() string {
	if len(l) == 0 {
		return ""
	}
	return strings.TrimPrefix(l[len(l)-1].text, "/")
}
