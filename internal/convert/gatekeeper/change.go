package gatekeeper

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert"
)

// A change is what a mutator does at a location, as expressions of JSON patches.
type change struct {
	steps []step
	// exist and absent are the steps, by their index, that have to be there or must not.
	exist, absent map[int]bool
	// value is an expression for the value; or values are those that are added to a list, or removed from it.
	value  string
	values string
	prune  bool
	// revised returns an expression for what takes the place of a value that is there; nil for the value above.
	revised func(current string) string
}

// expression returns the list of patches.
func (c *change) expression() string { return c.at("object", "''", 0) }

const none = "[]"

// at returns the patches below a value, which is an expression as its path is.
func (c *change) at(current, path string, n int) string {
	s := &c.steps[n]
	if s.isList() {
		return c.elements(current, path, n)
	}
	next, has := member(current, s.field)
	path = below(path, s.field)
	there, missing := none, none
	last := n == len(c.steps)-1
	if !c.absent[n] {
		if there = c.set(next, path); !last {
			there = c.at(next, path, n+1)
		}
	}
	if value, ok := c.made(n + 1); ok && !c.exist[n] {
		missing = patch("add", path, value)
	}
	if there == missing {
		return there
	}
	return has + " ? " + grouped(there) + " : " + missing
}

// set returns the patches for a value that is there.
func (c *change) set(current, path string) string {
	switch {
	case c.revised != nil:
		return patch("replace", path, c.revised(current))
	case c.values == "":
		return patch("add", path, c.value)
	case c.prune:
		return fmt.Sprintf("%s.exists(v, v in %s) ? %s : %s", current, c.values, patch("replace", path, fmt.Sprintf("%s.filter(v, !(v in %s))", current, c.values)), none)
	}
	return fmt.Sprintf("%s.filter(v, !(v in %s)).map(v, JSONPatch{op: 'add', path: %s, value: v})", c.values, current, below(path, "-"))
}

// elements returns the patches of elements of a list.
func (c *change) elements(current, path string, n int) string {
	s := &c.steps[n]
	if s.isGlob() && c.absent[n] {
		return none
	}
	i := fmt.Sprint("i", n)
	element := current + "[" + i + "]"
	inside := c.at(element, path+" + '/' + string("+i+")", n+1)
	if inside == none {
		return none
	}
	if s.isGlob() {
		return fmt.Sprintf("lists.range(size(%s)).map(%s, %s).flatten()", current, i, inside)
	}
	is := func(e string) string {
		key, has := member(e, s.key)
		return has + " && " + key + " == " + literal(s.value)
	}
	there, missing := none, none
	if !c.absent[n] {
		there = fmt.Sprintf("lists.range(size(%s)).filter(%s, %s).map(%s, %s).flatten()", current, i, is(element), i, inside)
	}
	if value, ok := c.keyed(n); ok && !c.exist[n] {
		missing = patch("add", below(path, "-"), value)
	}
	return fmt.Sprintf("%s.exists(e, %s) ? %s : %s", current, is("e"), grouped(there), missing)
}

// made returns the value that is made where there is none, from a step on; it is false if nothing is.
func (c *change) made(n int) (string, bool) {
	if n == len(c.steps) {
		if c.values != "" {
			return c.values, !c.prune
		}
		return c.value, true
	}
	s := &c.steps[n]
	if s.isGlob() || c.exist[n] {
		return "", false
	}
	if s.isList() {
		value, ok := c.keyed(n)
		return "[" + value + "]", ok
	}
	value, ok := c.made(n + 1)
	return "{" + convert.Quote(s.field) + ": " + value + "}", ok
}

// keyed returns an element of a list with its key, and the field in it that is made.
func (c *change) keyed(n int) (string, bool) {
	s, field := &c.steps[n], &c.steps[n+1]
	value, ok := c.made(n + 2)
	return "{" + convert.Quote(s.key) + ": dyn(" + literal(s.value) + "), " + convert.Quote(field.field) + ": dyn(" + value + ")}", ok && !c.exist[n+1]
}

func patch(op, path, value string) string {
	return "[JSONPatch{op: '" + op + "', path: " + path + ", value: " + value + "}]"
}

// below returns the path of a field.
func below(path, field string) string {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(field)
	quoted := convert.Quote("/" + escaped)
	if strings.HasSuffix(path, "'") {
		return path[:len(path)-1] + quoted[1:]
	}
	return path + " + " + quoted
}

var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are words that no field of an expression can be.
var reserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}

// member returns expressions for a field, and for whether it is there.
func member(current, field string) (value, has string) {
	if simple.MatchString(field) && !slices.Contains(reserved, field) {
		value = current + "." + field
		return value, "has(" + value + ")"
	}
	return current + "[" + convert.Quote(field) + "]", convert.Quote(field) + " in " + current
}

// grouped returns an expression as a branch of another one.
func grouped(text string) string {
	if strings.Contains(text, " ? ") && !strings.HasPrefix(text, "lists.range") {
		return "(" + text + ")"
	}
	return text
}

// literal returns an expression for a value of JSON. Values of several types in a list or a map have any type.
func literal(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return convert.Quote(v)
	case []any:
		var items []string
		plain := len(v) == 1 || uniform(slices.Values(v))
		for _, item := range v {
			items = append(items, typed(item, plain))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		plain := len(v) == 1 || uniform(maps.Values(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			items = append(items, convert.Quote(key)+": "+typed(v[key], plain))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	// Numbers and booleans.
	raw, err := json.Marshal(value)
	if err != nil {
		return "null"
	}
	return string(raw)
}

// uniform reports whether values are all texts.
func uniform(values iter.Seq[any]) bool {
	for value := range values {
		if _, isText := value.(string); !isText {
			return false
		}
	}
	return true
}

func typed(value any, plain bool) string {
	if plain {
		return literal(value)
	}
	return "dyn(" + literal(value) + ")"
}
