package kyverno

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// An answer is what a pattern says about a value: it fails unless ok holds. If skips holds, which implies ok, the
// pattern is not for the value, and so are those that contain it.
type answer struct{ ok, skips term }

// passes returns a term that holds if the value is one that the pattern is for, and fits.
func (a answer) passes() term { return all(a.ok, not(a.skips)) }

// A refusal is why a pattern cannot be converted.
type refusal struct{ field, what, do string }

func (r *refusal) Error() string { return r.field + ": " + r.what }

func refuse(field, what, do string) error { return &refusal{field, what, do} }

// longest is how long an expression may get. An anchor that may skip doubles what contains it.
const longest = 20_000

// patterns writes patterns as expressions.
type patterns struct {
	// taken are names of variables that macros around the expression have.
	taken []string
	// leaf replaces variables in a pattern; nil if there are none.
	leaf func(p *syntax.Pattern, at string, of shape) (term, bool, error)
	// notes are fields that users should know more of.
	note func(field, what string)
}

// root returns what a pattern says about an object, whose metadata has the same shape in all kinds.
func (w *patterns) root(p *syntax.Pattern, at string, of shape) (answer, error) {
	of.root = true
	a, err := w.answer(p, at, of)
	return a, err
}

// answer returns what a pattern says about a value that is there.
func (w *patterns) answer(p *syntax.Pattern, at string, of shape) (answer, error) {
	switch p.Sort {
	case syntax.Map:
		return w.ofMap(p, at, of)
	case syntax.List:
		return w.ofList(p, at, of)
	default:
		ok, err := w.ofScalar(p, at, of)
		return answer{ok, no}, err
	}
}

// ofScalar returns what a scalar says about a value. It is about all elements of a list.
func (w *patterns) ofScalar(p *syntax.Pattern, at string, of shape) (term, error) {
	if w.leaf != nil {
		if t, ok, err := w.leaf(p, at, of); ok || err != nil {
			return t, err
		}
	}
	if err := literal(p); err != nil {
		return no, err
	}
	fits := func(at string, of shape) (term, error) {
		t, err := leafOf(p.Scalar).fits(at, of.sort())
		if err != nil {
			return no, refuse(p.Field, err.Error(), "write it as a validation")
		}
		return t, nil
	}
	sort := of.sort()
	if sort != kind.List && sort != kind.Anything {
		return fits(at, of)
	}
	name := w.variable(at)
	element, err := fits(name, of.element())
	w.taken = w.taken[:len(w.taken)-1]
	if err != nil || sort == kind.List {
		return every(at, name, element), err
	}
	single, err := fits(at, of)
	return when(compare("type("+at+")", "==", "list"), every(at, name, element), single), err
}

// every returns a term that holds if one does for all elements of a list.
func every(list, name string, t term) term {
	if t == yes || t == no && list == "" {
		return t
	}
	return call(list + ".all(" + name + ", " + t.text + ")")
}

// ofList returns what a list says about a value: its first element, a map or a scalar, is for all elements.
func (w *patterns) ofList(p *syntax.Pattern, at string, of shape) (answer, error) {
	if len(p.Items) == 0 {
		return answer{no, no}, nil
	}
	first := p.Items[0]
	if first.Sort == syntax.List {
		return answer{}, refuse(first.Field, "it is a list in a list", "write it as a validation")
	}
	isList := yes
	if of.sort() != kind.List {
		isList = compare("type("+at+")", "==", "list")
	}
	name := w.variable(at)
	defer func() { w.taken = w.taken[:len(w.taken)-1] }()
	var a answer
	var err error
	if err := literal(first); err != nil {
		return answer{}, err
	}
	if first.Sort == syntax.Scalar {
		a.skips = no
		a.ok, err = leafOf(first.Scalar).fits(name, of.element().sort())
		if err != nil {
			err = refuse(first.Field, err.Error(), "write it as a validation")
		}
	} else {
		a, err = w.answer(first, name, of.element())
	}
	if err != nil {
		return answer{}, err
	}
	skips := no
	if a.skips != no {
		skips = all(isList, compare("size("+at+")", ">", "0"), every(at, name, a.skips))
	}
	return answer{all(isList, every(at, name, a.ok)), skips}, w.short(p, a)
}

// short returns an error for expressions that are too long.
func (w *patterns) short(p *syntax.Pattern, a answer) error {
	if len(a.ok.text)+len(a.skips.text) > longest {
		return refuse(p.Field, "its expression would be too long, because of the anchors in it", "write it as a validation")
	}
	return nil
}

var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variable returns a name for the elements of a list that is not taken, and takes it.
func (w *patterns) variable(list string) string {
	name := list[strings.LastIndexAny(list, ".'")+1:]
	for suffix, singular := range map[string]string{"ies": "y", "sses": "ss", "sts": "st", "ses": "se", "s": ""} {
		if rest, ok := strings.CutSuffix(name, suffix); ok && len(rest) > 1 && (suffix != "s" || !hasAny(name, "ies", "sses", "ses")) {
			name = rest + singular
			break
		}
	}
	if !simple.MatchString(name) || slices.Contains(reserved, name) || name == list {
		name = "e"
	}
	for base, n := name, 2; slices.Contains(w.taken, name) || name == "object" || name == "oldObject"; n++ {
		name = fmt.Sprintf("%s%d", base, n)
	}
	w.taken = append(w.taken, name)
	return name
}

// reserved are names that variables of CEL cannot have, or that have a meaning.
var reserved = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace", "null", "object", "oldObject", "package", "params", "request", "return", "true", "type", "var", "variables", "void", "while", "data", "size", "string", "int", "list", "map"}

func hasAny(text string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(text, s) })
}

// has returns a term that holds if a map has a key.
func has(at, key string) term {
	if simple.MatchString(key) {
		return call("has(" + at + "." + key + ")")
	}
	return compare(convert.Quote(key), "in", at)
}

// member returns the value of a key.
func member(at, key string) string {
	if simple.MatchString(key) {
		return at + "." + key
	}
	return at + "[" + convert.Quote(key) + "]"
}

// literal returns an error for a scalar with variables. It resolves what is escaped.
func literal(p *syntax.Pattern) error {
	text, ok := p.Scalar.(string)
	if !ok {
		return nil
	}
	if text, ok = syntax.Literal(text); !ok {
		return refuse(p.Field, "it has a variable", "write it as a validation")
	}
	p.Scalar = text
	return nil
}
