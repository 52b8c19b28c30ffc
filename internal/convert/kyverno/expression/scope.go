// Package expression writes JMESPath expressions, texts with variables, and conditions of Kyverno in CEL.
//
// What it writes has the value that Kyverno has, and fails where Kyverno has an error. What cannot be written like
// that is an [Error]. Where a difference is left that users may notice, the scope has a note.
package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// An Error says what cannot be written in CEL, and what to do instead.
type Error struct{ What, Do string }

func (e *Error) Error() string { return e.What + ": " + e.Do }

func refuse(do, what string, args ...any) error {
	return &Error{What: fmt.Sprintf(what, args...), Do: do}
}

const writeIt = "write the rule in CEL, or leave it out"

// A Scope is what expressions may read.
type Scope struct {
	roots  map[string]Value
	taken  map[string]bool
	notes  map[string]bool
	hidden map[string]error
	// lenient says that a condition that fails does not hold, and nor do those that it is one of.
	lenient bool
	// naming makes a variable of a policy of an expression, and returns how it is read; nil if there are none.
	naming func(name, text string) string
}

// Naming returns a scope that makes variables of long expressions.
func Naming(s *Scope, name func(name, text string) string) *Scope {
	inner := *s
	inner.naming = name
	return &inner
}

// Lenient returns a scope whose conditions do not hold where Kyverno has an error, as those of elements.
func (s *Scope) Lenient() *Scope {
	inner := *s
	inner.lenient = true
	return &inner
}

// NewScope returns the scope of the expressions of a rule: object and oldObject in CEL, of a type.
func NewScope(of Type) *Scope {
	s := &Scope{roots: map[string]Value{}, taken: map[string]bool{}, notes: map[string]bool{}, hidden: map[string]error{}}
	s.roots["request.object"] = fresh("object", postfix, of)
	s.roots["request.oldObject"] = Value{Text: "oldObject", binds: postfix, Type: of, option: "oldObject", absent: null, guard: "oldObject != null"}
	text, name := Type{Kind: Text}, Type{Kind: Text, Plain: true}
	always := func(field string, t Type) { s.roots["request."+field] = fresh("request."+field, postfix, t) }
	maybe := func(field string, t Type) {
		s.roots["request."+field] = Value{Text: "request." + field, binds: postfix, Type: t, option: "request." + optionalLast(field), absent: missing}
	}
	kind := mapOf(map[string]Type{"group": name, "version": name, "kind": name})
	resource := mapOf(map[string]Type{"group": name, "version": name, "resource": name})
	always("operation", Type{Kind: Text, Plain: true, Word: true})
	maybe("name", name)
	maybe("namespace", name)
	always("kind", kind)
	always("resource", resource)
	maybe("subResource", name)
	maybe("requestKind", kind)
	maybe("requestResource", resource)
	maybe("dryRun", Type{Kind: Bool})
	maybe("options", Type{Kind: Map})
	always("userInfo.username", text)
	maybe("userInfo.uid", text)
	maybe("userInfo.groups", ListOf(text))
	maybe("userInfo.extra", Type{Kind: Map})
	const account = "request.userInfo.username.startsWith('system:serviceaccount:') ? request.userInfo.username.split(':')[%d] : ''"
	s.roots["serviceAccountNamespace"] = fresh(fmt.Sprintf(account, 2), ternary, name)
	s.roots["serviceAccountName"] = fresh(fmt.Sprintf(account, 3), ternary, name)
	for field, do := range map[string]string{
		"request.roles": "name the subjects instead", "request.clusterRoles": "name the subjects instead", "request.uid": writeIt,
		"imageData": "check the image where it is built: nothing is read from registries", "target": "existing objects are not changed",
	} {
		s.hidden[field] = refuse(do, "%s is not known to policies", field)
	}
	s.hidden["images"] = refuse(writeIt, "images of other objects than pods are not imported")
	return s
}

// With returns a scope in which a name has a value.
func (s *Scope) With(name string, v Value) *Scope {
	inner := *s
	inner.roots = maps.Clone(s.roots)
	inner.roots[name] = v
	inner.hidden = maps.Clone(s.hidden)
	delete(inner.hidden, name)
	return &inner
}

// Without returns a scope in which a name cannot be read, and why.
func (s *Scope) Without(name string, why error) *Scope {
	inner := *s
	inner.roots, inner.hidden = maps.Clone(s.roots), maps.Clone(s.hidden)
	delete(inner.roots, name)
	inner.hidden[name] = why
	return &inner
}

// Taking returns a scope in which elements of lists do not have a name in CEL.
func (s *Scope) Taking(name string) *Scope {
	inner := *s
	inner.taken = maps.Clone(s.taken)
	inner.taken[name] = true
	return &inner
}

// Notes returns the differences that are left, sorted.
func (s *Scope) Notes() []string { return slices.Sorted(maps.Keys(s.notes)) }

func (s *Scope) note(text string) { s.notes[text] = true }

// Named is a value that has a name in CEL, such as a variable or an element of a list. It is never absent.
func Named(text string, t Type) Value { return fresh(text, postfix, t) }

// As returns the value under a name in CEL that evaluates its text, such as a variable of the policy.
func (v Value) As(text string) Value {
	return Value{Text: text, binds: postfix, Type: v.Type, emptyText: v.emptyText, made: v.made.named()}
}

// ElementName returns a name for elements of a list that is not taken.
func (s *Scope) ElementName(list string) string {
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, list))
	if name == "" {
		name = "element"
	}
	whole := strings.TrimSuffix(name, "s")
	for _, name := range []string{name[:1], whole, whole + "Element"} {
		if !s.taken[name] && identifier(name) && name != "object" && name != "request" && name != "params" && name != "data" {
			return name
		}
	}
	for n := 2; ; n++ {
		if name := fmt.Sprintf("%s%d", name[:1], n); !s.taken[name] {
			return name
		}
	}
}

// top is what @ is outside of all projections: everything that there is.
func (s *Scope) top() Value { return Value{root: s, Text: "@"} }

// known returns the value of a field of everything that there is, or of request and the like.
func (s *Scope) known(path string) (Value, error) {
	if why := s.hidden[path]; why != nil {
		return Value{}, why
	}
	if v, ok := s.roots[path]; ok {
		if strings.HasPrefix(path, "serviceAccount") {
			s.note("users that are no service accounts have no " + path)
		}
		return v, nil
	}
	prefix := path + "."
	for name := range s.roots {
		if strings.HasPrefix(name, prefix) {
			return Value{root: s, Text: path}, nil
		}
	}
	return Value{}, refuse("check the name", "there is no %s", path)
}

// optionalLast makes the last field of a path optional.
func optionalLast(path string) string {
	i := strings.LastIndexByte(path, '.') + 1
	return path[:i] + "?" + path[i:]
}

// Expression writes a JMESPath expression.
func (s *Scope) Expression(text string) (Value, error) {
	n, err := jmespath.Parse(text)
	if err != nil {
		return Value{}, refuse("correct the expression", "{{ %s }}: %v", text, err)
	}
	return parsed(s, n, text)
}

// parsed writes an expression.
func parsed(s *Scope, n *jmespath.Node, text string) (Value, error) {
	fails := false
	var read []string
	v, err := (&translation{Scope: s, fails: &fails, hard: &fails, read: &read, steps: new(int)}).node(n, s.top())
	v.fails = v.fails || fails
	switch {
	case err != nil:
		return Value{}, err
	case v.Type.Kind == images || v.Type.Kind == image:
		return Value{}, refuse("name a part of an image", "{{ %s }} is more than one text", text)
	case v.root != nil:
		return Value{}, refuse("name a field of it", "{{ %s }} is more than a policy can read", text)
	}
	return v.after(read), nil
}
