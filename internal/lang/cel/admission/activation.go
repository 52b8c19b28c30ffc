package admission

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// An Input is what expressions see. It is for one request, and not safe for concurrent use.
type Input struct {
	Request *usher.Request
	// Object and OldObject are nil if the request has none; Params is nil if the binding has none.
	Object, OldObject, Params map[string]any
	Facts                     *fact.Known
	// Allowance is what expressions may take; nil is that of a policy.
	Allowance *allowance.Allowance
	// Memo, unless nil, is that of the request, Object and OldObject.
	Memo *rule.Memo
	// Size, unless 0, is at least that of the objects, see [usher.Object.DecodedSize]. ParamsSize,
	// unless 0, is that of Params.
	Size, ParamsSize cel.Size
	// ParamsDigest, unless zero, is that of Params, which other policies may have, too.
	ParamsDigest rule.Digest

	// data are the sources of data that have been read, and dataOf is the policy whose they are.
	data   []datum
	dataOf *Program
	// patches counts what the operations of a policy take.
	patches patchMeter
	// context is that of the request.
	context context.Context //nolint:containedctx // an Input is as short-lived as a call
}

// Rule returns what programs of other languages see: an object that is deleted is the object.
func (in *Input) Rule() *rule.Input {
	r := &rule.Input{Request: in.Request, Object: in.Object, OldObject: in.OldObject, Facts: in.Facts}
	if r.Object == nil {
		r.Object, r.OldObject = in.OldObject, nil
	}
	return r
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
	program   *Program
	has       has
	variables variables
	frame     cel.Frame
	meter     meter.Meter
	// counted are the programs of all expressions that count their cost; nil if the size of the
	// request excludes that a budget is exceeded. Then costs are 0.
	counted []*cel.Program
	// stop is why evaluation cannot go on: a fact is missing, or there is none.
	stop error
	// glances says that this is a glance: variables are a part of what it may take, and no error is told.
	glances bool
	// few has the outcomes of the validations, unless there are more.
	few [3]outcome
}

// errUncounted is impossible: expressions that compile do so again.
var errUncounted = errors.New("expressions whose costs count do not compile")

// activations are those that are not in use. All programs share them, so that those of one request evaluate with one.
var activations = sync.Pool{New: func() any { return &activation{} }}

func (in *Input) activation(p *Program, h has) *activation {
	a := in.uncounted(p, h)
	if !p.bounded(in, &p.deciding) {
		a.count()
	}
	return a
}

// uncounted returns an activation for a request of which it is known that no budget can be exceeded.
func (in *Input) uncounted(p *Program, h has) *activation {
	a, _ := activations.Get().(*activation)
	a.in, a.program, a.has = in, p, h
	a.meter.Allowance = in.Allowance
	a.meter.Context = in.context //nolint:fatcontext // it is that of the request
	a.variables.program, a.variables.activation, a.variables.visible = p, a, len(p.variables)
	return a
}

// count has costs counted from now on.
func (a *activation) count() {
	if a.program.heavy {
		if err := a.meter.Turn(); err != nil {
			a.end(err)
			return
		}
	}
	if a.counted = a.program.counted(); a.counted == nil {
		a.end(errUncounted)
	}
	a.variables.forget()
}

// explain has costs counted if messages could exceed a budget.
func (a *activation) explain() {
	if a.counted == nil && a.program.source.LazyMessages && !a.program.bounded(a.in, &a.program.limits) {
		a.count()
	}
}

// release keeps the activation for another request: nothing that evaluation returned may refer to it.
func (a *activation) release() {
	a.variables.forget()
	a.meter.Release()
	*a = activation{frame: a.frame, variables: variables{values: a.variables.values[:0]}}
	activations.Put(a)
}

// enter has the activation see what other expressions see. Variables are computed again only where
// costs count, or where they depend on that.
func (a *activation) enter(h has) {
	changed := a.has ^ h
	a.has, a.variables.cost = h, 0
	for i := range a.variables.values {
		if a.counted != nil || a.program.variables[i].has&changed != 0 {
			a.variables.values[i] = uncomputed{}
		}
	}
}

// run evaluates an expression, unless another policy has done so.
func (a *activation) run(e *expression) (value ref.Val, cost uint64, err error) {
	native, cost, err := a.runNative(e)
	if err != nil {
		value, _ = native.(ref.Val)
		return value, cost, err
	}
	return cel.Value(native), cost, nil
}

// runNative is run whose value is as [cel.Program.EvalNative] returns it, or a list.
func (a *activation) runNative(e *expression) (value any, cost uint64, err error) {
	if a.counted != nil {
		return a.counted[e.index].Eval(a)
	}
	place := a.place(e)
	if place != nil && *place != nil {
		return *place, 0, nil
	}
	value, cost, err = e.program.EvalNative(a)
	if _, isList := value.([]any); isList {
		// It is one value however often it is read.
		value = cel.Value(value)
	}
	if place != nil && err == nil && a.stop == nil {
		*place = value
	}
	return value, cost, err
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
		return a.in.requestView(a.has&asConditions != 0), true
	case namespaceName:
		return a.namespaceObject(), true
	case variablesName:
		return &a.variables, true
	case dataName:
		return a.dataView(), true
	case authorizerName, resourceName:
		return a.authorizer(name)
	}
	return a.meter.ResolveName(name)
}

// Frame implements [closure.Framed].
func (a *activation) Frame() *cel.Frame { return &a.frame }

// Meter implements [closure.Framed].
func (a *activation) Meter() *meter.Meter { return &a.meter }

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
	if a.has&withNamespace == 0 {
		return nil
	}
	tree, err := a.in.namespace()
	switch {
	case err != nil:
		a.end(err)
		return types.NewErr("namespace %s: %v", NamespaceOf(a.in.Request), err)
	case tree == nil:
		return nil
	}
	return namespaceView(tree)
}

// end ends the evaluation with an error that is no result of it.
func (a *activation) end(err error) {
	if a.stop == nil {
		a.stop = err
	}
}

// namespace returns the namespace of the object, nil if it is in none.
func (in *Input) namespace() (map[string]any, error) {
	name := NamespaceOf(in.Request)
	if name == "" {
		return nil, nil
	}
	in.memo()
	namespace, err := Namespace(in.Memo, in.Facts, name)
	if err == nil && namespace == nil {
		namespace = map[string]any{}
	}
	return namespace, err
}

// namespaceSize returns the size of the namespace of the object. What is not known yet ends the
// evaluation.
func (in *Input) namespaceSize() cel.Size {
	namespace, err := in.namespace()
	if err != nil || namespace == nil {
		return cel.Size{}
	}
	return in.memo().ofNamespace.get(func() cel.Size { return cel.SizeOf(namespace) })
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
	return &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: name}
}

// visibleMetadata are the fields of metadata that expressions see of a namespace.
var visibleMetadata = []string{
	"name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
}

var namespaceFields = []string{"metadata", "spec", "status"}

// namespaceView is the variable namespaceObject.
func namespaceView(tree map[string]any) *cel.Record {
	metadata, _ := tree["metadata"].(map[string]any)
	visible := &cel.Record{Names: visibleMetadata, Field: func(name string) (any, bool) {
		value, ok := metadata[name]
		return value, ok && slices.Contains(visibleMetadata, name)
	}}
	return &cel.Record{Names: namespaceFields, Field: func(name string) (any, bool) {
		switch name {
		case "metadata":
			return visible, true
		case "spec", "status":
			part, _ := tree[name].(map[string]any)
			return part, true
		}
		return nil, false
	}}
}
