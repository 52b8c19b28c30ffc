package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule"
)

// A PatchType says what the value of the expression of a mutation is.
type PatchType string

// The patch types, as in the API.
const (
	// JSONPatch is a list of operations, each a JSONPatch{}.
	JSONPatch PatchType = "JSONPatch"
	// ApplyConfiguration is an Object{} that is merged into the object.
	ApplyConfiguration PatchType = "ApplyConfiguration"
)

// A Mutation changes the object.
type Mutation struct {
	Type       PatchType
	Expression string
	// Program, unless nil, makes the operations in place of the expression: their order and that of
	// the others is the same.
	Program rule.Program
}

// field is the path of the expression of mutation i.
func (m *Mutation) field(i int) string {
	if m.Type == ApplyConfiguration {
		return fmt.Sprintf("spec.mutations[%d].applyConfiguration.expression", i)
	}
	return fmt.Sprintf("spec.mutations[%d].jsonPatch.expression", i)
}

// patchTypes are the types that only mutations have: Object{}, JSONPatch{} and jsonpatch.escapeKey.
func patchTypes() environment.VersionedOptions {
	return environment.VersionedOptions{
		EnvOptions: []celgo.EnvOption{
			common.ResolverEnvOption(&objectResolver{}),
			environment.UnversionedLib(library.JSONPatch),
		},
	}
}

// mutations compiles the mutations of p.
func (c *compilation) mutations(p *Program) {
	c.declared.patchTypes = true
	for i, m := range p.source.Mutations {
		if m.Program != nil {
			p.mutations = append(p.mutations, expression{other: m.Program})
			continue
		}
		output := celgo.ListType(types.NewObjectType(mutation.JSONPatchTypeName))
		if m.Type == ApplyConfiguration {
			output = types.NewObjectType(mutation.ObjectTypeName)
			c.patched.Add()
		}
		compiled, _ := c.compile(m.field(i), m.Expression, output)
		compiled.said = &atomic.Pointer[said]{}
		c.tell(m.field(i), true)
		p.mutations = append(p.mutations, compiled)
	}
	c.declared.patchTypes = false
}

// Structures returns the structure of the objects of a request, for apply configurations. The error
// is [*fact.Missing], that of a fact, or a [*StatusError].
type Structures func(in *Input) (*apply.Schema, error)

// A Mutated is what a policy changes.
type Mutated struct {
	Skipping
	// Patch are the operations of all mutations that have succeeded.
	Patch usher.Patch
	// Failures are the errors of the conditions and of mutations, in order.
	Failures []Failure

	// object is the result of those before the last mutation, and last are the operations of that.
	object map[string]any
	last   usher.Patch
}

// Object returns the result of the patch. Few need it, and to make it takes longer than most mutations.
func (m *Mutated) Object() (map[string]any, error) {
	object, _, err := jsonpatch.Apply(m.object, m.last)
	return object, err
}

// After returns operations and then those of the patch, as [jsonpatch.Join] does.
func (m *Mutated) After(first usher.Patch) usher.Patch { return jsonpatch.Join(first, m.Patch) }

// A Failure is an error of one mutation.
type Failure struct {
	// Index is that of the mutation, and -1 for an error of the conditions.
	Index   int
	Message string
	// Status, unless nil, ends the request with this status, whatever the failure policy is.
	Status *StatusError
}

// A StatusError ends a request, as an error of an API server does.
type StatusError struct {
	Code            int32
	Reason, Message string
}

// Error implements error.
func (e *StatusError) Error() string { return e.Message }

// NotFound is the error of API servers for a kind whose structure they do not know.
func NotFound(kind fmt.Stringer) *StatusError {
	return &StatusError{
		Code: http.StatusServiceUnavailable, Reason: "ServiceUnavailable",
		Message: fmt.Sprintf("Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", kind),
	}
}

// Mutate evaluates the mutations for a request and one object of params, each on the result of
// those before. The error is [*fact.Missing], or that of ctx.
//
// It is what the dispatcher of k8s.io/apiserver/pkg/admission/plugin/policy/mutating does for one
// binding: a mutation that fails is left out, and the others go on.
func (p *Program) Mutate(ctx context.Context, in *Input, structures Structures) (Mutated, error) {
	in.context = ctx
	// The object may be another one than last time.
	in.data = nil
	if len(p.conditions) > 0 {
		a := in.activation(p, withAuthorizer|asConditions)
		skipping, failure, err := a.match(ctx)
		a.release()
		if err != nil {
			return Mutated{}, err
		}
		if failure != "" {
			return Mutated{Skipping: skipping, object: in.Object, Failures: []Failure{{Index: -1, Message: failure}}}, nil
		}
		if skipping.Skipped != "" {
			return Mutated{Skipping: skipping}, nil
		}
	}
	m := Mutated{object: in.Object}
	if in.Object == nil {
		return m, nil
	}
	now := in
	if len(p.mutations) > 1 {
		now = new(*in)
	}
	in.patches = patchMeter{meter.Meter{Allowance: in.Allowance, Context: ctx}}
	defer in.patches.meter.Release()
	for i := range p.mutations {
		patch, err := p.mutate(ctx, now, i, structures)
		if err == nil {
			if patch, err = m.apply(now, patch, i == len(p.mutations)-1, &in.patches); err == nil {
				m.Patch = jsonpatch.Join(m.Patch, patch)
				continue
			}
			if errors.Is(err, jsonpatch.ErrTest) {
				continue
			}
			err = fmt.Errorf("JSON Patch: %w", err)
		}
		if endsEvaluation(ctx, err) {
			return Mutated{}, err
		}
		f := Failure{Index: i, Message: err.Error()}
		f.Status, _ = errors.AsType[*StatusError](err)
		m.Failures = append(m.Failures, f)
		if f.Status != nil {
			return m, nil
		}
	}
	return m, nil
}

// apply returns what a patch does, and has the input see it unless it is the last one.
func (m *Mutated) apply(now *Input, patch usher.Patch, last bool, take jsonpatch.Meter) (done usher.Patch, err error) {
	if last {
		m.last, err = jsonpatch.Effect(now.Object, patch, take)
		return m.last, err
	}
	tree, done, err := jsonpatch.ApplyWithin(now.Object, patch, take)
	if err == nil {
		now.Change(tree)
		m.object = tree
	}
	return done, err
}

// A patchMeter counts what the operations of patches take.
type patchMeter struct{ meter meter.Meter }

// Take implements [jsonpatch.Meter].
func (m *patchMeter) Take(copied, touched int) error {
	const copiedNanos, copiedBytes, touchedNanos = 150, 80, 5
	return m.meter.Try(func() {
		m.meter.Call(copiedNanos*int64(copied), copiedBytes*int64(copied))
		m.meter.Spend(touchedNanos * int64(touched))
	})
}

// endsEvaluation reports whether an error is no result of evaluating expressions.
func endsEvaluation(ctx context.Context, err error) bool {
	_, missing := errors.AsType[*fact.Missing](err)
	return missing || ctx.Err() != nil
}

// mutate returns the operations of one mutation.
func (p *Program) mutate(ctx context.Context, in *Input, i int, structures Structures) (usher.Patch, error) {
	e := &p.mutations[i]
	if e.other != nil {
		out, err := e.other.Run(ctx, in.Rule())
		return out.Patch, err
	}
	var structure *apply.Schema
	if p.source.Mutations[i].Type == ApplyConfiguration {
		var err error
		if structure, err = structures(in); err != nil {
			return nil, err
		}
	}
	if e.err != nil {
		return nil, e.err
	}
	said, err := p.said(ctx, in, i)
	if err != nil {
		return nil, err
	}
	if structure == nil {
		return said.patch, nil
	}
	m := meter.Meter{Allowance: in.Allowance, Context: ctx}
	defer m.Release()
	if err := e.charge(&m, func() int64 { return structure.Weigh(in.Object, said.configuration) }); err != nil {
		return nil, err
	}
	if err = said.check(structure); err == nil {
		var patch usher.Patch
		if patch, err = structure.MergeChecked(in.Object, said.configuration); err == nil {
			return patch, nil
		}
	}
	return nil, fmt.Errorf("error applying patch: %w", err)
}

// A said is the value of the expression of a mutation: operations, or an apply configuration.
type said struct {
	patch         usher.Patch
	configuration map[string]any
	// operation is that of the request.
	operation usher.Operation
	// checked is the outcome of the last check of the configuration.
	checked atomic.Pointer[check]
}

// A check is the error that a configuration gives in a structure.
type check struct {
	structure *apply.Schema
	err       error
}

// check returns the error that the configuration gives in a structure.
func (s *said) check(structure *apply.Schema) error {
	if known := s.checked.Load(); known != nil && known.structure == structure {
		return known.err
	}
	err := structure.Check(s.configuration)
	s.checked.Store(&check{structure, err})
	return err
}

// mostSaid is the weight that a value may have which is kept for other requests.
const mostSaid = 4096

// said returns the value of the expression of mutation i. One that is always the same is evaluated once.
func (p *Program) said(ctx context.Context, in *Input, i int) (*said, error) {
	e := &p.mutations[i]
	if e.constant {
		if kept := e.said.Load(); kept != nil && kept.operation == in.Request.Operation {
			return kept, nil
		}
	}
	a := in.activation(p, withNamespace|withAuthorizer)
	defer a.release()
	out, _, err := a.evaluate(ctx, e, celconfig.RuntimeCELCostBudget)
	if stop := interrupted(ctx, a); stop != nil {
		return nil, stop
	}
	if err = cmp.Or(err, out.err); err != nil {
		return nil, err
	}
	weight := int64(0)
	if err := e.charge(&a.meter, func() int64 {
		weight = a.meter.Weigh(out.value)
		return weight
	}); err != nil {
		return nil, err
	}
	value := &said{operation: in.Request.Operation}
	if p.source.Mutations[i].Type == ApplyConfiguration {
		value.configuration, err = configurationOf(out.value)
	} else {
		value.patch, err = operations(out.value)
	}
	if e.constant && err == nil && weight <= mostSaid {
		e.said.Store(value)
	}
	return value, err
}

// charge takes from a meter what a value of a weight takes to be applied.
func (e *expression) charge(m *meter.Meter, weight func() int64) error {
	if err := m.Try(func() {
		bytes := weight()
		m.Call(16*bytes, 8*bytes)
	}); err != nil {
		return invalid("expression '%v' resulted in error: %v", e.text, err)
	}
	return nil
}
