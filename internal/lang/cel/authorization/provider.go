package authorization

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// A provider knows the types of requests besides the usual ones.
type provider struct {
	types.Provider
}

func fieldsOf(name string) []field {
	switch name {
	case requestType.TypeName():
		return requestFields
	case accountType.TypeName():
		return accountFields
	case resourceType.TypeName():
		return resourceFields
	case nonResourceType.TypeName():
		return nonResourceFields
	}
	return nil
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if fieldsOf(name) != nil {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	fields := fieldsOf(name)
	if fields == nil {
		return p.Provider.FindStructFieldNames(name)
	}
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names, true
}

var errNoRequest = errors.New("not a request")

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	for _, f := range fieldsOf(name) {
		if f.name != fieldName {
			continue
		}
		return &types.FieldType{
			Type: f.kind,
			IsSet: func(target any) bool {
				r, ok := target.(*request)
				return ok && f.set(r)
			},
			GetFrom: func(target any) (any, error) {
				r, ok := target.(*request)
				if !ok {
					return nil, errNoRequest
				}
				return f.get(r)
			},
		}, true
	}
	return p.Provider.FindStructFieldType(name, fieldName)
}
