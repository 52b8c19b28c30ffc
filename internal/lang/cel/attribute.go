package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// attributes make qualifiers that read trees without making values of what is on the way.
type attributes struct {
	interpreter.AttributeFactory

	provider types.Provider
}

// NewQualifier implements [interpreter.AttributeFactory].
func (a attributes) NewQualifier(of *types.Type, id int64, value any, optional bool) (interpreter.Qualifier, error) {
	q, err := a.AttributeFactory.NewQualifier(of, id, value, optional)
	if err != nil {
		return nil, err
	}
	constant, ok := q.(interpreter.ConstantQualifier)
	if !ok {
		return q, nil
	}
	key, ok := constant.Value().(types.String)
	if !ok || a.isStructField(of, string(key)) {
		return q, nil
	}
	return &field{constant, string(key)}, nil
}

// isStructField reports whether a field is read by a function of its type.
func (a attributes) isStructField(of *types.Type, name string) bool {
	if of == nil || of.Kind() != types.StructKind {
		return false
	}
	f, found := a.provider.FindStructFieldType(of.TypeName(), name)
	return found && f.GetFrom != nil
}

// A field selects a constant key.
type field struct {
	interpreter.ConstantQualifier

	key string
}

// find returns a value that is found in a tree.
func (f *field) find(object any) (value any, found bool) {
	switch o := object.(type) {
	case map[string]any:
		value, found = o[f.key]
	case tree:
		value, found = o.native()[f.key]
	}
	return value, found
}

// Qualify implements [interpreter.Qualifier].
func (f *field) Qualify(variables interpreter.Activation, object any) (any, error) {
	if value, found := f.find(object); found {
		return value, nil
	}
	return f.ConstantQualifier.Qualify(variables, object)
}

// QualifyIfPresent implements [interpreter.Qualifier].
func (f *field) QualifyIfPresent(variables interpreter.Activation, object any, presenceOnly bool) (any, bool, error) {
	if value, found := f.find(object); found {
		return value, true, nil
	}
	return f.ConstantQualifier.QualifyIfPresent(variables, object, presenceOnly)
}
