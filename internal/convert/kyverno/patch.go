package kyverno

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// An operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

var unquoted = regexp.MustCompile(`(:[ \t]*)(\{\{.*\}\})([ \t]*(?:\n|$))`)

// mostChanges is how many operations a JSON patch may have.
const mostChanges = 100

// bare is before a value that is a variable without quotes.
const bare = "\x03"

// operationsOf parses the operations of a patch.
func operationsOf(text, field string) ([]operation, error) {
	text = unquoted.ReplaceAllStringFunc(text, func(found string) string {
		parts := unquoted.FindStringSubmatch(found)
		return parts[1] + strconv.Quote(bare+parts[2]) + parts[3]
	})
	var all []operation
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		return nil, refuse(field, "it is no JSON patch: "+strings.SplitN(err.Error(), "\n", 2)[0], "correct it")
	}
	return all, nil
}

// patch makes a change of each operation of a JSON patch.
func (w *patcher) patch(text, field string, within func(string) string) error {
	all, err := operationsOf(text, field)
	if err != nil {
		return err
	}
	if len(all) > mostChanges {
		return refuse(field, "it has more than 100 operations", "write several rules")
	}
	for i := range all {
		list, err := w.operation(&all[i], field)
		if err != nil {
			return err
		}
		w.changes = append(w.changes, changeOf(&all[i], within(list), field))
	}
	return nil
}

// patchEach makes changes of each element of a list, or of several ones.
func patchEach(w *patcher, f *syntax.ForeachMutate, within func(string) string) error {
	w.several = strings.Contains(f.List, ",")
	defer func() { w.several = false }()
	return w.patch(f.PatchesJSON6902, f.Field+".patchesJson6902", within)
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
		if w.several {
			return beyondEnd(w, o, names, value, at, index.Text, to, of, field)
		}
		return w.step(o, names[1:], value, at+"["+index.Text+"]", next, of.element(), field)
	}
	_, err := strconv.Atoi(name)
	switch {
	case name == "-1" && of.sort() == kind.List:
		return lastElement(w, o, names, value, at, to, of, field)
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

// beyondEnd writes an operation from an element on that may be beyond the end of its list, since the loop is over the elements
// of other lists, too: what is added there is a new element.
func beyondEnd(w *patcher, o *operation, names []string, value, at, index string, to location, of shape, field string) (string, error) {
	made, err := nested(names[1:], value)
	if err != nil || o.Op != "add" {
		return "", refuse(field, "the path "+o.Path+" is of elements of another list than the one of the loop", "write a rule for each list")
	}
	w.note(field, "the places of elements of several lists are those of one list: for elements beyond its end it gets new ones, as in Kyverno", "write a rule for each list")
	inside, err := w.step(o, names[1:], value, at+"["+index+"]", to.at(index), of.element(), field)
	return index + " < size(" + at + ") ? " + parenthesizedChoice(inside) + " : " + to.at(index).operation("add", made), err
}

// lastElement writes an operation on the last element of a list, or from it on. What is added there comes after it, and a
// list without elements gets one.
func lastElement(w *patcher, o *operation, names []string, value, at string, to location, of shape, field string) (string, error) {
	end := to.to("-")
	switch {
	case o.Op != "add":
		return "", refuse(field, "the path "+o.Path+" is of an element of a list that may not be there", "write it as a JSONPatch")
	case len(names) == 1:
		return end.operation("add", value), nil
	}
	made, err := nested(names[1:], value)
	if err != nil {
		return "", refuse(field, "the path "+o.Path+" is of an element of a list that may not be there", "write it as a JSONPatch")
	}
	last := "size(" + at + ") - 1"
	inside, err := w.step(o, names[1:], value, at+"["+last+"]", to.at(last), of.element(), field)
	return "size(" + at + ") == 0 ? " + end.operation("add", made) + " : " + parenthesizedChoice(inside), err
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
		case name == "-" || name == "0" || name == "-1":
			value = "[" + value + "]"
		case err == nil || strings.Contains(name, "{{"):
			return "", strconv.ErrSyntax
		default:
			value = "{" + convert.Quote(name) + ": " + value + "}"
		}
	}
	return value, nil
}
