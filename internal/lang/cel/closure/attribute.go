package closure

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// An attribute is a node to which steps can be added: what is selected from both branches of ?: is
// selected from the one that is taken.
type attribute interface {
	node

	// resolve returns the value as it was found.
	resolve(f *Frame) any
	// locate is resolve that reports whether cel-go has a value there, and not what was decoded.
	locate(f *Frame) (value any, isValue bool)
	add(s step) attribute
}

// A chain selects from a variable, or from the value of an expression. Once a step is optional, or what
// it selects from, the steps after it are, too.
type chain struct {
	base  node
	steps []step
}

func (c *chain) add(s step) attribute {
	c.steps = append(c.steps, s)
	return c
}

func (c *chain) eval(f *Frame) any { return f.known(c.resolve(f)) }

func (c *chain) resolve(f *Frame) any {
	value, _, optional := c.walk(f)
	if optional {
		return types.OptionalOf(f.value(value))
	}
	return value
}

func (c *chain) locate(f *Frame) (value any, isValue bool) {
	value, of, optional := c.walk(f)
	if optional {
		return types.OptionalOf(f.value(value)), true
	}
	if len(c.steps) == 0 {
		_, isValue = c.base.(global)
		return value, !isValue
	}
	_, isValue = of.(Lookup)
	return value, isValue
}

// walk returns a value, or the value in an optional value, and that of which it is a part; an error is never in one.
func (c *chain) walk(f *Frame) (value, of any, optional bool) {
	value = c.base.eval(f)
	switch v := value.(type) {
	case map[string]any:
	case *types.Err:
		return v, nil, false
	case *types.Optional:
		if !v.HasValue() {
			return v, nil, false
		}
		value, optional = v.GetValue().Value(), true
	}
	for i := range c.steps {
		s := &c.steps[i]
		optional = optional || s.optional
		found, present, err := s.in(f, value, optional)
		if err != nil {
			return wrap(err), nil, false
		}
		switch {
		case s.test && !optional:
			found = present
		case present:
		case optional:
			return types.OptionalNone, nil, false
		default:
			return wrap(&missingKey{s.key.(ref.Val)}), nil, false
		}
		value, of = found, value
	}
	return value, of, optional
}

// wrap returns an error as a value.
func wrap(err error) any {
	if err, ok := err.(*types.Err); ok {
		return err
	}
	return types.WrapErr(err)
}

// A missingKey is what is not in a map.
type missingKey struct{ key ref.Val }

// Error implements error.
func (m *missingKey) Error() string { return fmt.Sprintf("no such key: %v", m.key) }

// A missingIndex is what is not in a list.
type missingIndex struct{ index ref.Val }

// Error implements error.
func (m *missingIndex) Error() string { return fmt.Sprintf("index out of bounds: %v", m.index) }

type kind uint8

const (
	// named selects a text that is known.
	named kind = iota
	// fixed selects another key that is known.
	fixed
	// computed selects what a node says.
	computed
	// field reads a field of a type.
	field
)

// A step selects a part of a value.
type step struct {
	name string
	// key is a [ref.Val], a node or a [*types.FieldType].
	key      any
	kind     kind
	optional bool
	// test says that only whether there is the part is of interest. Such a step is the last one.
	test bool
}

// in returns the part of a value. An absent one that is named may be no error.
func (s *step) in(f *Frame, of any, optional bool) (part any, found bool, err error) {
	if s.kind == named {
		switch v := of.(type) {
		case map[string]any:
			part, found = v[s.name]
			return part, found, nil
		case Lookup:
			part, found = v.Lookup(s.name)
			if err, is := part.(*types.Err); is {
				return nil, false, err
			}
			return part, found, nil
		}
	}
	return s.find(f, of, optional || s.test)
}

// A Lookup is a map value whose keys are texts. It gives values as they are: what its method Find would
// make values of.
type Lookup interface {
	Lookup(name string) (value any, found bool)
}

// find returns the part of a value. Unless presence is tested, an absent one is an error.
func (s *step) find(f *Frame, of any, presence bool) (part any, found bool, err error) {
	switch s.kind {
	case field:
		return s.field(of, presence)
	case computed:
		return s.computed(f, of, presence)
	case fixed:
		if items, ok := of.([]any); ok {
			if i, ok := s.key.(types.Int); ok && i >= 0 && int64(i) < int64(len(items)) {
				return items[i], true, nil
			}
		}
	case named:
	}
	return find(f, of, s.key.(ref.Val), presence, s.test)
}

func (s *step) field(of any, presence bool) (part any, found bool, err error) {
	if v, ok := of.(ref.Val); ok {
		of = v.Value()
	}
	t := s.key.(*types.FieldType)
	if presence {
		if !t.IsSet(of) {
			return nil, false, nil
		}
		if s.test {
			return nil, true, nil
		}
	}
	part, err = t.GetFrom(of)
	return part, err == nil, err
}

func (s *step) computed(f *Frame, of any, presence bool) (part any, found bool, err error) {
	key, isValue := s.index(f)
	f.meter.Scan(key)
	switch k := key.(type) {
	case *types.Err:
		return nil, false, k
	case string:
		if m, ok := of.(map[string]any); ok {
			if part, found = m[k]; found {
				return part, true, nil
			}
		}
	}
	switch value := f.value(key).(type) {
	case types.String, types.Int, types.Uint, types.Bool, types.Double:
		return find(f, of, value, presence, s.test)
	default:
		if isValue || !isNative(key) {
			return nil, false, fmt.Errorf("invalid qualifier type: %s", typeName(value))
		}
		return nil, false, fmt.Errorf("invalid qualifier type: %T", key)
	}
}

// typeName is the type by which the programs of API servers have a value.
func typeName(value ref.Val) string {
	switch value.(type) {
	case native:
		return "*types.baseMap"
	case listed:
		return "*types.baseList"
	}
	return fmt.Sprintf("%T", value)
}

// index returns the key of a computed step, and whether cel-go has it as a value. It is evaluated once: keys may be in
// keys, and so on.
func (s *step) index(f *Frame) (key any, isValue bool) {
	if a, ok := s.key.(attribute); ok {
		return a.locate(f)
	}
	return s.key.(node).eval(f), true
}

// find returns the part of a value that a key selects, as refQualify of cel-go does.
func find(f *Frame, of any, key ref.Val, presence, only bool) (part any, found bool, err error) {
	switch v := f.value(of).(type) {
	case *types.Err:
		return nil, false, v
	case traits.Mapper:
		return findInMap(v, key, presence)
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil {
			return nil, false, err
		}
		if i >= 0 && types.Int(i) < v.Size().(types.Int) {
			return v.Get(key), true, nil
		}
		if presence {
			return nil, false, nil
		}
		return nil, false, &missingIndex{key}
	case traits.Indexer:
		return findIndexed(v, key, presence, only)
	}
	if presence {
		return nil, false, nil
	}
	return nil, false, &missingKey{key}
}

func findInMap(m traits.Mapper, key ref.Val, presence bool) (part any, found bool, err error) {
	value, found := m.Find(key)
	switch err, isErr := value.(*types.Err); {
	case isErr:
		return nil, false, err
	case found:
		return value, true, nil
	case presence:
		return nil, false, nil
	}
	return nil, false, &missingKey{key}
}

func findIndexed(v traits.Indexer, key ref.Val, presence, only bool) (part any, found bool, err error) {
	if tester, ok := v.(traits.FieldTester); ok && presence {
		present := tester.IsSet(key)
		if err, isErr := present.(*types.Err); isErr {
			return nil, false, err
		}
		if only || present == types.False {
			return nil, present == types.True, nil
		}
	}
	value := v.Get(key)
	if err, isErr := value.(*types.Err); isErr {
		return nil, false, err
	}
	return value, true, nil
}

// A global is a variable of the activation.
type global string

func (g global) eval(f *Frame) any {
	value, found := f.variables.ResolveName(string(g))
	if !found {
		return types.NewErr("no such attribute(s): %s", string(g))
	}
	return value
}

// A slot is the variable of a loop.
type slot int

func (s slot) eval(f *Frame) any { return *f.slot(int(s)) }

// A presence is what has() became.
type presence struct{ attribute }

func (p *presence) eval(f *Frame) any {
	value := p.resolve(f)
	if o, ok := value.(*types.Optional); ok {
		return types.Bool(o.HasValue())
	}
	return f.known(value)
}

// A conditional is ?:, whose branches are attributes.
type conditional struct {
	condition node
	yes, no   attribute
}

func (c *conditional) add(s step) attribute {
	c.yes, c.no = c.yes.add(s), c.no.add(s)
	return c
}

func (c *conditional) eval(f *Frame) any { return f.known(c.resolve(f)) }

func (c *conditional) resolve(f *Frame) any {
	taken, err := c.taken(f)
	if err != nil {
		return err
	}
	return taken.resolve(f)
}

func (c *conditional) locate(f *Frame) (value any, isValue bool) {
	taken, err := c.taken(f)
	if err != nil {
		return err, true
	}
	return taken.locate(f)
}

// taken returns the branch that is taken, or an error.
func (c *conditional) taken(f *Frame) (branch attribute, err any) {
	v := c.condition.eval(f)
	holds, ok := truth(v)
	switch {
	case !ok:
		return nil, noOverload(v)
	case holds:
		return c.yes, nil
	}
	return c.no, nil
}
