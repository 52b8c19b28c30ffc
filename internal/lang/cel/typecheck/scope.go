package typecheck

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// A Scope is what the expressions of a policy can name, for one kind of objects. It is for one goroutine at a time.
type Scope struct {
	checker  *Checker
	provider *provider
	budget   *cel.Budget
	// declared are the types of request and namespaceObject, and of their fields.
	declared  map[string]*apiservercel.DeclType
	variables []string
}

// A Type is that of an expression. The zero Type is not known.
type Type struct {
	of *types.Type
	// at is where the value comes from.
	at path
}

// Known reports whether anything is known of the type.
func (t Type) Known() bool { return t.of != nil && t.of.Kind() != types.DynKind }

// String returns the type as authors of expressions know it: an object is a map. It is dyn if it is not known.
func (t Type) String() string {
	if t.of == nil {
		return types.DynType.String()
	}
	return signature(t.of)
}

// A Name is something that an expression can name.
type Name struct {
	Name string
	// Type is that of a field or a variable, or the signatures of a function, a line each.
	Type string
	// Of is the definition of the object whose field it is, such as io.k8s.api.core.v1.PodSpec; empty if it is no
	// field, or that has no name.
	Of string
	// Text says what it is, if that is known here.
	Text string
	// Function says that it is called.
	Function bool
}

// Scope returns what the expressions of a policy can name for a target. What is wrong with the variables of the policy
// is ignored. The context is that of all calls.
func (c *Checker) Scope(ctx context.Context, set *kind.Set, p *Policy, t Target) (*Scope, error) {
	if c.once.Do(c.prepare); c.err != nil {
		return nil, fmt.Errorf("make environment to check types: %w", c.err)
	}
	s := &Scope{checker: c, provider: newProvider(c.provider, set, t.Kind, p), budget: &cel.Budget{Context: ctx}, declared: map[string]*apiservercel.DeclType{}}
	request, namespace := admission.Declared()
	s.declare(request)
	s.declare(namespace)
	for i := range p.Expressions {
		e := &p.Expressions[i]
		if e.Use != admission.Variable {
			continue
		}
		of := s.Type(e.Text)
		if of.of == nil {
			of.of = types.DynType
		}
		s.provider.variables[e.Name], s.provider.paths["variables."+e.Name] = of.of, of.at
		s.budget.Variable(e.Name, of.of)
		s.variables = append(s.variables, e.Name)
	}
	return s, nil
}

func (s *Scope) declare(t *apiservercel.DeclType) {
	if t == nil || t.IsObject() && s.declared[t.TypeName()] != nil {
		return
	}
	if t.IsObject() {
		s.declared[t.TypeName()] = t
	}
	for _, field := range t.Fields {
		s.declare(field.Type)
	}
	s.declare(t.ElemType)
}

// Type returns the type of an expression; the zero Type if it has errors.
func (s *Scope) Type(text string) (of Type) {
	defer func() {
		// The type checker does not survive all expressions.
		if recover() != nil {
			of = Type{}
		}
	}()
	parsed, issues, err := s.checker.base.Parse(s.budget, text)
	if err != nil || issues != nil {
		return Type{}
	}
	run := &run{Checker: s.checker}
	result, err := run.expression(s.budget, parsed.NativeRep(), s.provider, nil)
	if err != nil {
		return Type{}
	}
	return Type{result.result, result.at}
}

// Fields returns the fields that values of a type have, or what an optional value may hold, sorted.
func (s *Scope) Fields(t Type) []Name {
	if t.of != nil && t.of.Kind() == types.OpaqueKind && t.of.TypeName() == "optional_type" {
		t.of = t.of.Parameters()[0]
	}
	if t.of == nil || t.of.Kind() != types.StructKind {
		return nil
	}
	name := t.of.TypeName()
	if name == variablesType || name == dataType {
		return s.own(name)
	}
	names := s.provider.fields(name)
	if declared := s.declared[name]; declared != nil {
		names = slices.Sorted(maps.Keys(declared.Fields))
	}
	var all []Name
	for _, field := range names {
		of, ok := s.provider.FindStructFieldType(name, field)
		if !ok {
			continue
		}
		// Of the objects of joined lists the first.
		holder, _, _ := strings.Cut(strings.TrimPrefix(name, "@"), " or ")
		if name == objectType {
			holder = s.definition(s.provider.object)
		}
		all = append(all, Name{Name: field, Type: signature(of.Type), Of: holder})
	}
	return all
}

// definition returns the name of the definition of objects with this schema.
func (s *Scope) definition(*kind.Schema) string {
	for _, r := range s.provider.set.Serving(s.provider.kind) {
		if r.Definition != "" {
			return r.Definition
		}
	}
	return ""
}

// own returns the variables or the sources of data of the policy.
func (s *Scope) own(holder string) []Name {
	names := s.variables
	if holder == dataType {
		names = nil
		for name := range s.provider.data {
			names = append(names, strings.TrimPrefix(name, dataPrefix))
		}
		slices.Sort(names)
	}
	var all []Name
	for _, name := range names {
		of, _ := s.provider.FindStructFieldType(holder, name)
		all = append(all, Name{Name: name, Type: signature(of.Type)})
	}
	return all
}

// Variables returns the variables that all expressions can read.
func (s *Scope) Variables() []Name {
	var all []Name
	for _, name := range []struct{ name, text string }{
		{objectName, "The object of the request: what is written, null for a deletion."},
		{"oldObject", "The object that exists, null for a creation."},
		{"request", "The request: its operation, its user, the resource."},
		{paramsName, "The object that paramRef of the binding names, null without one."},
		{"variables", "The variables of the policy."},
		{"namespaceObject", "The namespace of the object, null for objects of the cluster."},
		{"authorizer", "What the user who makes the request may do."},
		{"data", "What the sources of data of the policy hold."},
	} {
		all = append(all, Name{Name: name.name, Type: s.Type(name.name).String(), Text: name.text})
	}
	return all
}

// Functions returns the functions and macros that can be called on values of a type, sorted by name; those of a Type
// that is not known are all. Without a type it returns those that are called on nothing.
func (s *Scope) Functions(t *Type) []Name {
	unusable := s.checker.base.Unbounded()
	var all []Name
	for name, function := range s.checker.base.Functions() {
		if !isName(name) || slices.Contains(unusable, name) {
			continue
		}
		var lines []string
		for _, overload := range function.OverloadDecls() {
			if callable(overload, t) {
				lines = append(lines, call(name, overload))
			}
		}
		if len(lines) > 0 {
			slices.Sort(lines)
			all = append(all, Name{Name: name, Type: strings.Join(slices.Compact(lines), "\n"), Text: function.Description(), Function: true})
		}
	}
	seen := map[string]bool{}
	for _, macro := range s.checker.base.Macros() {
		name := macro.Function()
		ranged := t == nil || !t.Known() || t.of.Kind() == types.ListKind || t.of.Kind() == types.MapKind
		if seen[name] || !isName(name) || macro.IsReceiverStyle() != (t != nil) || !ranged {
			continue
		}
		seen[name] = true
		one := Name{Name: name, Function: true}
		if documented, ok := macro.(interface{ Documentation() *common.Doc }); ok {
			one.Text = documented.Documentation().Description
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Name) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// isName reports whether a function is called by its name, as operators are not.
func isName(name string) bool {
	return name[0] >= 'a' && name[0] <= 'z' && !strings.ContainsAny(name, "@") && name != "in"
}

// callable reports whether an overload can be called on values of a type, or on nothing.
func callable(o *decls.OverloadDecl, t *Type) bool {
	switch {
	case t == nil:
		return !o.IsMemberFunction()
	case !o.IsMemberFunction():
		return false
	}
	return !t.Known() || o.ArgTypes()[0].IsAssignableType(t.of)
}

// call returns the signature of an overload.
func call(name string, o *decls.OverloadDecl) string {
	var args []string
	for _, arg := range o.ArgTypes() {
		args = append(args, signature(arg))
	}
	if o.IsMemberFunction() {
		name, args = args[0]+"."+name, args[1:]
	}
	return name + "(" + strings.Join(args, ", ") + ") → " + signature(o.ResultType())
}

// short returns the name of a type without that of its package.
func short(t *types.Type) string {
	name := t.DeclaredTypeName()
	return cmp.Or(name[strings.LastIndexAny(name, ".@")+1:], t.TypeName())
}

// signature returns a type as authors know it.
func signature(t *types.Type) string {
	var args []string
	for _, arg := range t.Parameters() {
		args = append(args, signature(arg))
	}
	name := t.DeclaredTypeName()
	switch t.Kind() {
	case types.DynKind:
		name = "dyn"
	case types.NullTypeKind:
		name = "null"
	case types.StructKind, types.OpaqueKind:
		name = short(t)
	default:
	}
	if len(args) > 0 && t.Kind() != types.StructKind {
		return name + "(" + strings.Join(args, ", ") + ")"
	}
	return name
}
