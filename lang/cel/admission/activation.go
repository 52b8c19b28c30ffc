package admission

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/lang/cel"
)

// An Input is what expressions see. It is for one request, and not safe for concurrent use.
type Input struct {
	Request *usher.Request
	// Object and OldObject are nil if the request has none; Params is nil if the binding has none.
	Object, OldObject, Params map[string]any
	Facts                     *fact.Known

	// request and conditionRequest are the variable request, of which conditions see the
	// resource that the client used; nil until they are read.
	request, conditionRequest map[string]any
}

// What an activation has besides what every one has.
type has byte

const (
	withNamespace has = 1 << iota
	withAuthorizer
	// asConditions is for match conditions, which see the request as the client made it.
	asConditions
)

// An activation resolves the names of variables, each when it is first read.
type activation struct {
	in        *Input
	has       has
	variables variables
	namespace any
	interrupt cel.Interrupt
	// stop is why evaluation cannot go on: a fact is missing, or there is none.
	stop error
}

func (in *Input) activation(p *Program, h has) *activation {
	a := &activation{in: in, has: h}
	a.variables = variables{program: p, activation: a}
	return a
}

// ResolveName implements [interpreter.Activation].
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case objectName:
		return orNull(a.in.Object), true
	case oldObjectName:
		return orNull(a.in.OldObject), true
	case paramsName:
		return orNull(a.in.Params), true
	case requestName:
		return a.in.requestValue(a.has&asConditions != 0), true
	case namespaceName:
		return a.namespaceObject(), true
	case variablesName:
		return &a.variables, true
	case authorizerName, resourceName:
		return a.authorizer(name)
	}
	return a.interrupt.ResolveName(name)
}

// Parent implements [interpreter.Activation].
func (a *activation) Parent() interpreter.Activation { return nil }

func orNull(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return tree
}

// namespaceObject is the namespace of the object, without what is only for other programs; nil if
// it is in none.
func (a *activation) namespaceObject() any {
	name := NamespaceOf(a.in.Request)
	if a.has&withNamespace == 0 || name == "" {
		return nil
	}
	if a.namespace != nil {
		return a.namespace
	}
	ref := NamespaceFact(name)
	value, err := a.in.Facts.Value(ref)
	if err != nil {
		a.end(err)
		return types.NewErr("namespace %s: %v", name, err)
	}
	tree, _ := value.(map[string]any)
	a.namespace = visibleNamespace(tree)
	return a.namespace
}

// end ends the evaluation with an error that is no result of it.
func (a *activation) end(err error) {
	if a.stop == nil {
		a.stop = err
	}
}

// NamespaceOf returns the name of the namespace whose object expressions see, empty for none. A
// namespace is in none, although its requests name it as theirs.
func NamespaceOf(r *usher.Request) string {
	if r.Kind.Group == "" && r.Kind.Version == "v1" && r.Kind.Kind == "Namespace" {
		return ""
	}
	return r.Namespace
}

// NamespaceFact returns the fact that a namespace is.
func NamespaceFact(name string) fact.Ref {
	return fact.Ref{Object: &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: name}}
}

// visibleMetadata are the fields of metadata that expressions see of a namespace.
var visibleMetadata = []string{
	"name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
}

func visibleNamespace(tree map[string]any) map[string]any {
	all, _ := tree["metadata"].(map[string]any)
	metadata := make(map[string]any, len(all))
	for key, value := range all {
		if slices.Contains(visibleMetadata, key) {
			metadata[key] = value
		}
	}
	namespace := map[string]any{"metadata": metadata, "spec": map[string]any{}, "status": map[string]any{}}
	for _, part := range []string{"spec", "status"} {
		if value, ok := tree[part].(map[string]any); ok {
			namespace[part] = value
		}
	}
	return namespace
}

// variables is the value of the variable of that name: a map whose values are computed when they
// are first read. It behaves as the lazy map of k8s.io/apiserver/pkg/cel/lazy.
type variables struct {
	program    *Program
	activation *activation
	values     []ref.Val
	// cost is that of variables since it was taken last.
	cost int64
}

var _ traits.Mapper = (*variables)(nil)

// variablesType is the type of variables.
var variablesType = types.NewObjectType("kubernetes.variables", traits.IndexerType|traits.FieldTesterType|traits.IterableType)

func (v *variables) takeCost() int64 {
	cost := v.cost
	v.cost = 0
	return cost
}

// Find implements [traits.Mapper].
func (v *variables) Find(key ref.Val) (ref.Val, bool) {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	name, ok := apiservercel.Unescape(string(text))
	if !ok {
		return nil, false
	}
	// Of two variables of one name the last counts.
	for i, x := range slices.Backward(v.program.variables) {
		if x.name == name {
			return v.value(i), true
		}
	}
	return nil, false
}

// value returns the value of a variable, or its error as a value.
func (v *variables) value(i int) ref.Val {
	if v.values == nil {
		v.values = make([]ref.Val, len(v.program.variables))
	}
	if v.values[i] == nil {
		v.values[i] = v.compute(&v.program.variables[i])
	}
	return v.values[i]
}

func (v *variables) compute(x *variable) ref.Val {
	if x.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", x.name, x.err)
	}
	value, cost, err := x.program.Eval(v.activation)
	v.cost += int64(min(cost, math.MaxInt64))
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", x.name, err)
	}
	return value
}

// Get implements [traits.Indexer].
func (v *variables) Get(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if found {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements [traits.Container].
func (v *variables) Contains(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Size implements [traits.Sizer].
func (v *variables) Size() ref.Val { return types.Int(len(v.program.variables)) }

// Iterator implements [traits.Iterable]. There is no expression that the compiler lets iterate.
func (v *variables) Iterator() traits.Iterator {
	names := make([]string, len(v.program.variables))
	for i := range names {
		names[i] = v.program.variables[i].name
	}
	return types.NewStringList(types.DefaultTypeAdapter, names).Iterator()
}

// ConvertToNative implements [ref.Val].
func (v *variables) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("disallowed conversion from %q to %q", variablesType.TypeName(), t.Name())
}

// ConvertToType implements [ref.Val].
func (v *variables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesType:
		return v
	case types.TypeType:
		return variablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesType.TypeName(), t.TypeName())
}

// Equal implements [ref.Val].
func (v *variables) Equal(other ref.Val) ref.Val {
	others, ok := other.(*variables)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v == others)
}

// Type implements [ref.Val].
func (v *variables) Type() ref.Type { return variablesType }

// Value implements [ref.Val].
func (v *variables) Value() any { return types.NoSuchOverloadErr() }
