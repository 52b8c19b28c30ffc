package kyverno

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// An operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

var unquoted = regexp.MustCompile(`:[ \t]*(\{\{.*\}\})[ \t]*(\n|$)`)

// operationsOf parses the operations of a patch.
func operationsOf(text, field string) ([]operation, error) {
	if unquoted.MatchString(text) {
		return nil, refuse(field, "a value is a variable without quotes, whose type follows from its text", "write it as a JSONPatch")
	}
	var all []operation
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		return nil, refuse(field, "it is no JSON patch: "+strings.SplitN(err.Error(), "\n", 2)[0], "correct it")
	}
	return all, nil
}

// patch makes a mutation of each operation of a JSON patch, since each sees what those before have changed.
func (w *patcher) patch(text, field string, add func(...string)) error {
	all, err := operationsOf(text, field)
	if err != nil {
		return err
	}
	for i := range all {
		list, err := w.operation(&all[i], field)
		if err != nil {
			return err
		}
		add(list)
	}
	return nil
}

// operation writes an operation. Maps on the way are made, and what is removed may be absent.
func (w *patcher) operation(o *operation, field string) (string, error) {
	names := strings.Split(o.Path, "/")
	if names[0] != "" || len(names) < 2 {
		return "", refuse(field, "the path "+o.Path+" is none", "correct it")
	}
	value := ""
	switch o.Op {
	case "add", "replace":
		var err error
		w.texts = true
		defer func() { w.texts = false }()
		if value, err = w.value(syntax.PatternOf(normalized(o.Value), field)); err != nil {
			return "", err
		}
	case "remove":
	default:
		return "", refuse(field, "the operation "+o.Op+" is not imported", "write it as a JSONPatch")
	}
	of := w.p.selection.shape
	of.root = true
	return w.step(o, names[1:], value, "object", nil, of, field)
}

// normalized has whole numbers as int64.
func normalized(of any) any {
	switch v := of.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = normalized(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = normalized(v[key])
		}
	}
	return of
}

var elementIndex = regexp.MustCompile(`^\{\{\s*(elementIndex\d*)\s*\}\}$`)

// step writes an operation from a value on that is there.
func (w *patcher) step(o *operation, names []string, value, at string, to location, of shape, field string) (string, error) {
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(names[0])
	last := len(names) == 1
	if found := elementIndex.FindStringSubmatch(name); found != nil {
		index, err := w.scope.Expression(found[1])
		if err != nil {
			return "", placed(field, err)
		}
		next := to.at(index.Text)
		if last {
			return next.operation(o.Op, value), nil
		}
		return w.step(o, names[1:], value, at+"["+index.Text+"]", next, of.element(), field)
	}
	_, err := strconv.Atoi(name)
	switch {
	case strings.Contains(name, "{{"):
		return "", refuse(field, "the path "+o.Path+" has a variable", "write it as a JSONPatch")
	case name == "-" || err == nil && of.sort() == kind.List:
		if !last {
			return w.step(o, names[1:], value, at+"["+name+"]", to.to(name), of.element(), field)
		}
		return to.to(name).operation(o.Op, value), nil
	case err == nil && of.sort() != kind.Map && of.sort() != kind.Object:
		return "", refuse(field, "the path "+o.Path+" is in a list, or in a map", "write it as a JSONPatch")
	}
	return w.field(o, names, name, value, at, to, of, field)
}

// field writes an operation from a field of a map on.
func (w *patcher) field(o *operation, names []string, name, value, at string, to location, of shape, field string) (string, error) {
	next, required := of.field(name)
	here := to.to(name)
	present := has(at, name).text
	switch {
	case len(names) == 1 && o.Op == "remove":
		return present + " ? " + here.operation("remove", "") + " : []", nil
	case len(names) == 1:
		if o.Op == "replace" && !required {
			w.note(field, "a field to replace that is not there is added, where Kyverno fails", "")
		}
		return here.operation(o.Op, value), nil
	}
	inside, err := w.step(o, names[1:], value, member(at, name), here, next, field)
	if err != nil || required || o.Op == "replace" || slices.ContainsFunc(names[1:], elementIndex.MatchString) {
		return inside, err
	}
	otherwise := "[]"
	if o.Op == "add" {
		made, err := nested(names[1:], value)
		if err != nil {
			return "", refuse(field, "the path "+o.Path+" is of an element of a list that may not be there", "write it as a JSONPatch")
		}
		otherwise = here.operation("add", made)
	}
	return present + " ? " + parenthesizedChoice(inside) + " : " + otherwise, nil
}

// nested returns the value that has another one at the end of a path.
func nested(names []string, value string) (string, error) {
	for _, name := range slices.Backward(names) {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		_, err := strconv.Atoi(name)
		switch {
		case name == "-" || name == "0":
			value = "[" + value + "]"
		case err == nil || strings.Contains(name, "{{"):
			return "", strconv.ErrSyntax
		default:
			value = "{" + convert.Quote(name) + ": " + value + "}"
		}
	}
	return value, nil
}

// each makes mutations for the elements of a list.
func (w *patcher) each(f *syntax.ForeachMutate) error {
	if len(f.Foreach) > 0 {
		return refuse(f.Field+".foreach", "it is a loop in a loop", "write it as a JSONPatch")
	}
	if strings.ContainsAny(f.List, ",?|") {
		return refuse(f.Field+".list", "its elements are not those of one list, and have other places there", "write a rule for each list")
	}
	list, err := w.scope.Elements(f.List)
	if err != nil {
		return placed(f.Field+".list", err)
	}
	outer := w.scope
	defer func() { w.scope = outer }()
	name := w.scope.Taking("i").ElementName(lastName(f.List))
	element, index := expression.Named(name, list.Type.Item()), expression.Named("i", expression.Type{Kind: expression.Integer})
	w.scope = outer.Taking(name).Taking("i").With("element", element).With("elementIndex", index).With("element0", element).With("elementIndex0", index)
	if err := w.elementContext(f.Context); err != nil {
		return err
	}
	applies := yes
	if f.Preconditions != nil {
		v, err := w.scope.Conditions(f.Preconditions)
		if err != nil {
			return placed(f.Preconditions.Field, err)
		}
		applies = termOf(v)
	}
	add := func(lists ...string) {
		text := parenthesizedChoice(joinedLists(lists))
		if applies != yes {
			text = applies.within(either) + " ? " + text + " : []"
		}
		reversed := ""
		if strings.EqualFold(f.Order, "Descending") {
			reversed = ".reverse()"
		}
		w.add(fmt.Sprintf("%s.transformList(i, %s, %s)%s.flatten()", list.Postfix(), name, text, reversed))
	}
	if f.PatchesJSON6902 != "" {
		return w.patch(f.PatchesJSON6902, f.Field+".patchesJson6902", add)
	}
	return w.mergeEach(f, name, list.Type.Item(), add)
}

// mergeEach merges into each element of the list, which the patch names by its own name.
func (w *patcher) mergeEach(f *syntax.ForeachMutate, name string, of expression.Type, add func(...string)) error {
	p := f.PatchStrategicMerge
	path := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(f.List), "request.object."), "[]")
	to := location{}
	for p != nil && p.Sort == syntax.Map && len(p.Keys) == 1 && p.Keys[0].Anchor == syntax.NoAnchor {
		to = to.to(p.Keys[0].Name)
		p = p.Keys[0].Value
	}
	if p == nil || p.Sort != syntax.List || len(p.Items) != 1 || p.Items[0].Sort != syntax.Map || strings.ReplaceAll(path, ".", "/") != strings.TrimPrefix(strings.Trim(to.String(), "'"), "/") {
		return refuse(f.Field+".patchStrategicMerge", "it changes something else than the element", "write it as a JSONPatch")
	}
	item := *p.Items[0]
	by := mergedLists[to.last()]
	var rest []syntax.Key
	named := false
	for _, key := range item.Keys {
		text, _ := key.Value.Scalar.(string)
		if key.Name == by && (key.Anchor == syntax.NoAnchor || key.Anchor == syntax.Conditional) && strings.ReplaceAll(text, " ", "") == "{{element."+by+"}}" {
			named = true
			continue
		}
		rest = append(rest, key)
	}
	if !named || by == "" {
		return refuse(f.Field+".patchStrategicMerge", "it does not name the element", "write it as a JSONPatch")
	}
	item.Keys = rest
	shapes := shape{kinds: w.Kinds, of: of.Schemas()}
	w.note(f.Field, "elements stay where they are: Kyverno moves those that it changes to the beginning of the list", "")
	lists, err := w.keys(&item, name, to.at("i"), shapes)
	if err != nil {
		return err
	}
	add(lists...)
	return nil
}
