package authorization

import (
	"fmt"
	"reflect"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A request is what expressions see of a query: the one variable of an activation, and the
// value of all types of its fields that have fields themselves.
type request struct {
	*authz.Query

	frame cel.Frame
	meter meter.Meter
}

// requests are used again and again.
var requests = sync.Pool{New: func() any { return &request{} }}

var (
	requestType     = celgo.ObjectType("usher.Request")
	accountType     = celgo.ObjectType("usher.ServiceAccount")
	resourceType    = celgo.ObjectType("usher.ResourceAttributes")
	nonResourceType = celgo.ObjectType("usher.NonResourceAttributes")
)

const (
	// requestName is the name of the variable.
	requestName = "request"
	// The fields that are lists.
	groupsName = "groups"
	extraName  = "extra"
)

// ResolveName implements [interpreter.Activation].
func (r *request) ResolveName(name string) (any, bool) {
	if name == requestName {
		return r, true
	}
	return r.meter.ResolveName(name)
}

// Frame implements [closure.Framed].
func (r *request) Frame() *cel.Frame { return &r.frame }

// Meter implements [closure.Framed].
func (r *request) Meter() *meter.Meter { return &r.meter }

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

// size returns the size of all fields but groups and extra, and of what there is at paths, which
// lead to these or are empty.
func (r *request) size(paths [][]string) cel.Size {
	// There are fewer fields than that.
	const fields = 64
	s := cel.Size{Total: fields + len(r.User.Name) + len(r.User.UID) + len(r.Node) + len(r.Verb.Text) + len(r.Path.Text) +
		len(r.Group.Text) + len(r.Version.Text) + len(r.Resource.Text) + len(r.Subresource) + len(r.Name.Text) + len(r.Namespace.Text)}
	for _, path := range paths {
		switch {
		case len(path) > 1:
			s.AddTexts(r.User.Extra[path[1]])
			continue
		case len(path) == 0 || path[0] == groupsName:
			s.AddTexts(r.User.Groups)
		}
		if len(path) == 0 || path[0] == extraName {
			s.Longest = max(s.Longest, len(r.User.Extra))
			for key, values := range r.User.Extra {
				s.Total += 2 + len(key)
				s.AddTexts(values)
			}
		}
	}
	return s
}

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
	kind *celgo.Type
	set  func(*request) bool
	get  func(*request) (any, error)
}

// text is a field with a text, which is set unless it is empty.
func text(name string, get func(*request) string) field {
	return field{
		name: name, kind: celgo.StringType,
		set: func(r *request) bool { return get(r) != "" },
		get: func(r *request) (any, error) { return types.String(get(r)), nil },
	}
}

// part is a field with fields.
func part(name string, kind *celgo.Type, set func(*request) bool, absent error) field {
	return field{name: name, kind: kind, set: set, get: func(r *request) (any, error) {
		if !set(r) {
			return nil, absent
		}
		return r, nil
	}}
}

var (
	errNoAccount     = &authz.AbsentError{What: "the user is no service account", Do: "ask has(request.serviceAccount) first"}
	errNoResource    = &authz.AbsentError{What: "the request is not for a resource", Do: "ask has(request.resourceAttributes) first"}
	errNoNonResource = &authz.AbsentError{What: "the request is for a resource", Do: "ask has(request.nonResourceAttributes) first"}
)

// The fields of each type. The tables never change.
var (
	requestFields = append([]field{
		text("user", func(r *request) string { return r.User.Name }),
		text("uid", func(r *request) string { return r.User.UID }),
		{
			name: groupsName, kind: celgo.ListType(celgo.StringType),
			set: func(r *request) bool { return len(r.User.Groups) > 0 },
			get: func(r *request) (any, error) { return r.User.Groups, nil },
		},
		{
			name: extraName, kind: celgo.MapType(celgo.StringType, celgo.ListType(celgo.StringType)),
			set: func(r *request) bool { return len(r.User.Extra) > 0 },
			get: func(r *request) (any, error) { return extra(r.User.Extra), nil },
		},
		part("serviceAccount", accountType, func(r *request) bool { return r.AccountName != "" }, errNoAccount),
		text("node", func(r *request) string { return r.Node }),
		text("path", func(r *request) string { return r.Path.Text }),
		{
			name: "isWildcard", kind: celgo.BoolType,
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
