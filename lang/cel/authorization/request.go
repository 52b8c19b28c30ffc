package authorization

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule/authz"
)

// A request is what expressions see of a query: the one variable of an activation, and the
// value of all types of its fields that have fields themselves.
type request struct {
	*authz.Query
}

// requests are used again and again.
var requests = sync.Pool{New: func() any { return &request{} }}

var (
	requestType     = cel.ObjectType("usher.Request")
	accountType     = cel.ObjectType("usher.ServiceAccount")
	resourceType    = cel.ObjectType("usher.ResourceAttributes")
	nonResourceType = cel.ObjectType("usher.NonResourceAttributes")
)

// ResolveName implements [interpreter.Activation].
func (r *request) ResolveName(name string) (any, bool) { return r, name == "request" }

// Parent implements [interpreter.Activation].
func (r *request) Parent() interpreter.Activation { return nil }

// ConvertToNative implements [ref.Val].
func (r *request) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("request cannot be converted to %s", t)
}

// ConvertToType implements [ref.Val].
func (r *request) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("request cannot be converted to %s", t.TypeName())
}

// Equal implements [ref.Val].
func (r *request) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(r)) }

// Type implements [ref.Val].
func (r *request) Type() ref.Type { return requestType }

// Value implements [ref.Val].
func (r *request) Value() any { return r }

// selectsLabel reports whether every object that the request is for has that label.
func (r *request) selectsLabel(key, value string) bool { return r.demands(r.Labels, key, value) }

// selectsField is the same for fields.
func (r *request) selectsField(key, value string) bool { return r.demands(r.Fields, key, value) }

func (r *request) demands(selector []usher.Requirement, key, value string) bool {
	wanted := authz.Requirement{Key: key, Operator: authz.In, Values: []authz.Template{authz.Literal(value)}}
	return authz.Implied([]authz.Requirement{wanted}, selector, r.Query)
}

// A field of a type is read from the request. It is set if has() says so; an absent one that
// has fields itself cannot be read.
type field struct {
	name string
	kind *cel.Type
	set  func(*request) bool
	get  func(*request) (any, error)
}

// text is a field with a text, which is set unless it is empty.
func text(name string, get func(*request) string) field {
	return field{
		name: name, kind: cel.StringType,
		set: func(r *request) bool { return get(r) != "" },
		get: func(r *request) (any, error) { return types.String(get(r)), nil },
	}
}

// part is a field with fields.
func part(name string, kind *cel.Type, set func(*request) bool, absent error) field {
	return field{name: name, kind: kind, set: set, get: func(r *request) (any, error) {
		if !set(r) {
			return nil, absent
		}
		return r, nil
	}}
}

var (
	errNoAccount     = errors.New("the user is no service account: ask has(request.serviceAccount) first")
	errNoResource    = errors.New("the request is not for a resource: ask has(request.resourceAttributes) first")
	errNoNonResource = errors.New("the request is for a resource: ask has(request.nonResourceAttributes) first")
)

// The fields of each type. The tables never change.
var (
	requestFields = append([]field{
		text("user", func(r *request) string { return r.User.Name }),
		text("uid", func(r *request) string { return r.User.UID }),
		{
			name: "groups", kind: cel.ListType(cel.StringType),
			set: func(r *request) bool { return len(r.User.Groups) > 0 },
			get: func(r *request) (any, error) { return r.User.Groups, nil },
		},
		{
			name: "extra", kind: cel.MapType(cel.StringType, cel.ListType(cel.StringType)),
			set: func(r *request) bool { return len(r.User.Extra) > 0 },
			get: func(r *request) (any, error) { return extra(r.User.Extra), nil },
		},
		part("serviceAccount", accountType, func(r *request) bool { return r.AccountName != "" }, errNoAccount),
		text("node", func(r *request) string { return r.Node }),
		text("path", func(r *request) string { return r.Path.Text }),
		{
			name: "isWildcard", kind: cel.BoolType,
			set: func(*request) bool { return true },
			get: func(r *request) (any, error) { return types.Bool(r.Wildcard()), nil },
		},
		part("resourceAttributes", resourceType, func(r *request) bool { return !r.NonResource }, errNoResource),
		part("nonResourceAttributes", nonResourceType, func(r *request) bool { return r.NonResource }, errNoNonResource),
	}, resourceFields...)
	resourceFields = []field{
		text("verb", func(r *request) string { return r.Verb.Text }),
		text("group", func(r *request) string { return r.Group.Text }),
		text("version", func(r *request) string { return r.Version.Text }),
		text("resource", func(r *request) string { return r.Resource.Text }),
		text("subresource", func(r *request) string { return r.Subresource }),
		text("name", func(r *request) string { return r.Name.Text }),
		text("namespace", func(r *request) string { return r.Namespace.Text }),
	}
	nonResourceFields = []field{
		text("verb", func(r *request) string { return r.Verb.Text }),
		text("path", func(r *request) string { return r.Path.Text }),
	}
	accountFields = []field{
		text("namespace", func(r *request) string { return r.AccountNamespace }),
		text("name", func(r *request) string { return r.AccountName }),
	}
)

func fieldNames(fields []field) map[string]bool {
	names := map[string]bool{}
	for _, f := range fields {
		names[f.name] = true
	}
	return names
}
