package admission

import (
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// A memo is what policies have in common that are evaluated for the same objects.
type memo struct {
	// views are the variable request: as other expressions see it, and as conditions do.
	views [2]*cel.Record
	// namespace is that of a name, from facts; nil if it is not known yet.
	namespace     map[string]any
	namespaceName string
	namespaceFrom *fact.Known
	// The sizes of what expressions read, where they are known.
	ofPaths              sizes
	ofRequest, ofOptions known[cel.Size]
	ofNamespace          known[cel.Size]
}

// A known is a value that is known, or not.
type known[T any] struct {
	is    bool
	value T
}

// get returns the value, and finds it out if it is not known.
func (k *known[T]) get(find func() T) T {
	if !k.is {
		k.is, k.value = true, find()
	}
	return k.value
}

// memo returns what the policies for the objects have in common.
func (in *Input) memo() *memo {
	if in.Memo == nil {
		in.Memo = &rule.Memo{}
	}
	return rule.Kept[memo](in.Memo)
}

// Outdate implements [rule.Lasting]: the request and its namespace stay what they are.
func (m *memo) Outdate() { clear(m.ofPaths) }

// Outdate implements [rule.Lasting]: who takes an Input from a memo sets all of it.
func (in *Input) Outdate() { *in = Input{} }

// Change replaces the object.
func (in *Input) Change(object map[string]any) {
	in.Object, in.Size, in.Memo, in.data = object, cel.Size{}, nil, nil
}

// Namespace returns a namespace from facts. The error is [*fact.Missing], or that of the fact.
func Namespace(m *rule.Memo, facts *fact.Known, name string) (map[string]any, error) {
	if m == nil {
		return namespaceIn(facts, name)
	}
	s := rule.Kept[memo](m)
	if s.namespace != nil && s.namespaceFrom == facts && s.namespaceName == name {
		return s.namespace, nil
	}
	namespace, err := namespaceIn(facts, name)
	if err == nil {
		s.namespace, s.namespaceFrom, s.namespaceName = namespace, facts, name
		s.ofNamespace = known[cel.Size]{}
	}
	return namespace, err
}

func namespaceIn(facts *fact.Known, name string) (map[string]any, error) {
	value, err := facts.Value(NamespaceFact(name))
	if err != nil {
		return nil, err
	}
	namespace, _ := value.(map[string]any)
	return namespace, nil
}
