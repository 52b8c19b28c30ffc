package typecheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// The names of variables.
const (
	objectName = "object"
	paramsName = "params"
)

// The names of the types of variables. A schema with a definition has its name, and others that of
// the field that leads to them. They begin with what no expression can: a type that has the name of
// a field would be found in its place.
const (
	objectType    = "@object"
	paramsType    = "@params"
	variablesType = "kubernetes.variables"
	dataType      = "kubernetes.data"
)

// quantity is the definition of what API servers always write as text, although clients may write
// a number.
const quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"

// A provider knows the fields of the objects of one kind, and of parameters. It reads schemas when
// an expression does, so that none is converted as a whole, and recursive ones need no care.
type provider struct {
	types.Provider

	set *kind.Set
	// kind is that of the objects.
	kind           schema.GroupVersionKind
	object, params *kind.Schema
	// named are the schemas of the types that were handed out.
	named map[string]*kind.Schema
	// variables are the types of the variables of the policy, and paths where their values come from.
	variables map[string]*types.Type
	paths     map[string]path
	// data are the schemas of the sources of data, by the names that expressions read.
	data map[string]*kind.Schema
}

func newProvider(base types.Provider, set *kind.Set, object schema.GroupVersionKind, policy *Policy) *provider {
	p := &provider{
		Provider: base, set: set, kind: object, object: set.Schema(object), params: set.Schema(policy.Params),
		named: map[string]*kind.Schema{}, variables: map[string]*types.Type{}, paths: map[string]path{}, data: map[string]*kind.Schema{},
	}
	p.named[objectType], p.named[paramsType] = set.Resolve(p.object), set.Resolve(p.params)
	for _, d := range policy.Data {
		of := set.Schema(d.Kind)
		if of == nil {
			continue
		}
		if d.List {
			of = &kind.Schema{Type: "array", Items: of}
		}
		name := dataPrefix + d.Name
		p.data[name], p.paths[name] = of, path{holder: name}
	}
	return p
}

// dataPrefix begins the names of sources of data, as expressions read them.
const dataPrefix = "data."

// like returns the schema of a variable.
func (p *provider) like(name string) *kind.Schema {
	switch {
	case name == paramsName:
		return p.params
	case strings.HasPrefix(name, dataPrefix):
		return p.data[name]
	}
	return p.object
}

// owns reports whether a type is that of an object with a schema.
func (p *provider) owns(name string) bool {
	_, ok := p.named[name]
	return ok
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if p.owns(name) || name == variablesType || name == dataType || isMutation(name) {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if p.owns(name) {
		return p.fields(name), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// fields returns the names of the fields of a type, sorted.
func (p *provider) fields(name string) []string {
	if of := p.named[name]; of != nil {
		return slices.Sorted(maps.Keys(of.Properties))
	}
	return nil
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name == variablesType {
		if of, ok := p.variables[field]; ok {
			return &types.FieldType{Type: of}, true
		}
		return &types.FieldType{Type: types.DynType}, true
	}
	if name == dataType {
		return &types.FieldType{Type: p.typeOf("@"+dataPrefix+field, p.data[dataPrefix+field])}, true
	}
	if isMutation(name) {
		return p.mutatedField(name, field)
	}
	if !p.owns(name) {
		return p.Provider.FindStructFieldType(name, field)
	}
	of := p.named[name]
	if of == nil {
		return &types.FieldType{Type: types.DynType}, true
	}
	next, ok := of.Properties[field]
	if !ok {
		return &types.FieldType{Type: types.DynType}, isOpen(of)
	}
	return &types.FieldType{Type: p.typeOf(name+"."+field, next)}, true
}

// isOpen reports whether objects may have fields that their schema does not name.
func isOpen(of *kind.Schema) bool {
	return of.Open || of.Embedded || of.Values != nil || of.Kind() != kind.Object
}

// typeOf returns the type of the values of a schema, as expressions see them: JSON. So moments and
// bytes are strings, and a number may be an integer.
func (p *provider) typeOf(name string, of *kind.Schema) *types.Type {
	if named := definitionOf(of); named != "" {
		name = named
	}
	resolved := p.set.Resolve(of)
	if resolved == nil {
		return types.DynType
	}
	switch resolved.Kind() {
	case kind.Object:
		p.named[name] = resolved
		return types.NewObjectType(name)
	case kind.Map:
		if resolved.Values == nil || resolved.Values.Schema == nil || resolved.Open {
			return types.DynType
		}
		return types.NewMapType(types.StringType, p.typeOf(name+"{}", resolved.Values.Schema))
	case kind.List:
		if resolved.Items == nil {
			return types.NewListType(types.DynType)
		}
		return types.NewListType(p.typeOf(name+"[]", resolved.Items))
	case kind.Text:
		return types.StringType
	case kind.Integer:
		return types.IntType
	case kind.Number:
		return types.DoubleType
	case kind.Bool:
		return types.BoolType
	case kind.Quantity:
		if name == quantity {
			return types.StringType
		}
	case kind.Anything, kind.Either:
	}
	return types.DynType
}

// definitionOf returns the name of the definition that a schema refers to.
func definitionOf(of *kind.Schema) string {
	if of == nil {
		return ""
	}
	name := of.Ref
	if name == "" && len(of.AllOf) == 1 {
		name = of.AllOf[0].Ref
	}
	return name[strings.LastIndex(name, "/")+1:]
}
