// Package cel evaluates CEL expressions over decoded objects: what the dialects have in common,
// each of which has a folder below.
//
// It is cel-go with another way to make programs. The programs of an environment share one
// interpreter, and read the maps and lists of decoded objects as they are. Values, errors and
// costs are those of the programs of cel-go.
package cel

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/lang/cel/closure"
)

// An Environment compiles expressions and makes programs of them. It is safe for concurrent use.
type Environment struct {
	*cel.Env

	interpreter interpreter.Interpreter
	closures    closure.Compiler
	// parsers are those that are not in use.
	parsers sync.Pool
}

// Kubernetes returns the environment of API servers, with more options, one after the other.
// Expressions may use all that any version of Kubernetes has: what a stored policy says stays valid.
func Kubernetes(options ...environment.VersionedOptions) (*Environment, error) {
	set := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	for _, more := range options {
		more.IntroducedVersion = version.MajorMinor(1, 0)
		var err error
		if set, err = set.Extend(more); err != nil {
			return nil, fmt.Errorf("make CEL environment: %w", err)
		}
	}
	return New(set.StoredExpressionsEnv())
}

// New returns an environment with the declarations of env. It ignores the program options of env,
// of whose libraries it knows those of Kubernetes.
func New(env *cel.Env) (*Environment, error) {
	dispatcher := interpreter.NewDispatcher()
	for name, function := range env.Functions() {
		bindings, err := function.Bindings()
		if err == nil {
			err = dispatcher.Add(strictly(function, apart(name, withinLimit(bindings)))...)
		}
		if err != nil {
			return nil, fmt.Errorf("make CEL environment: function %s: %w", name, err)
		}
	}
	adapter, provider := adapter{env.CELTypeAdapter()}, env.CELTypeProvider()
	attributes := attributes{interpreter.NewAttributeFactory(env.Container, adapter, provider), provider}
	return &Environment{
		Env:         env,
		interpreter: interpreter.NewInterpreter(dispatcher, env.Container, provider, adapter, attributes),
		closures:    closure.Compiler{Dispatcher: dispatcher, Adapter: adapter, Provider: provider, Container: env.Container, Regexes: regexes()},
	}, nil
}

// standard are the options of all programs, in the order of cel-go.
func standard() []interpreter.PlannerOption {
	return []interpreter.PlannerOption{
		interpreter.CustomDecorator(optionals),
		interpreter.InterruptableEval(),
		interpreter.Optimize(),
		interpreter.CompileRegexConstants(regexes()...),
	}
}

// regexes are the functions whose constant regular expressions are compiled once.
func regexes() []*interpreter.RegexOptimization {
	return []*interpreter.RegexOptimization{library.FindRegexOptimization, library.FindAllRegexOptimization, interpreter.MatchesRegexOptimization}
}

// A Program is an expression that can be evaluated. It is immutable.
type Program struct {
	// closure is nil for a program that only cel-go can evaluate.
	closure       *closure.Program
	interpretable interpreter.Interpretable
	// observed is the interpretable of a program that counts.
	observed *interpreter.ObservableInterpretable
}

// Plan makes a program that does not count its cost. cel-go plans it, too: whether there is a program,
// and which parts are constants, is what it says.
func (e *Environment) Plan(ast *cel.Ast) (*Program, error) {
	folded := map[int64]interpreter.Interpretable{}
	planned, err := e.plan(ast, interpreter.CustomDecorator(foldConstants), interpreter.CustomDecorator(func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		switch i.(type) {
		case interpreter.InterpretableConst, *quantity:
			folded[i.ID()] = i
		}
		return i, nil
	}))
	if err != nil {
		return nil, err
	}
	if made, ok := e.closures.Compile(ast.NativeRep(), folded); ok {
		return &Program{closure: made}, nil
	}
	return planned, nil
}

// PlanPart makes a program of a part of an expression, which may read the variables of loops around it.
func (e *Environment) PlanPart(of *cel.Ast, part celast.Expr) (*Program, error) {
	whole := of.NativeRep()
	planned, err := e.interpreter.NewInterpretable(
		celast.NewCheckedAST(celast.NewAST(part, whole.SourceInfo()), whole.TypeMap(), whole.ReferenceMap()), standard()...)
	if err != nil {
		return nil, fmt.Errorf("plan part of an expression: %w", err)
	}
	return &Program{interpretable: planned}, nil
}

// PlanCounted makes a program that counts its cost, and stops with an error when that exceeds limit.
func (e *Environment) PlanCounted(ast *cel.Ast, limit uint64) (*Program, error) {
	tracker, err := interpreter.NewCostTracker(&library.CostEstimator{}, append(costTrackers(), interpreter.CostTrackerLimit(limit))...)
	if err != nil {
		return nil, fmt.Errorf("count cost: %w", err)
	}
	// Evaluations share the table of the trackers.
	factory := func() (*interpreter.CostTracker, error) {
		own := *tracker
		return &own, nil
	}
	return e.plan(ast, interpreter.CostObserver(interpreter.CostTrackerFactory(factory)))
}

func (e *Environment) plan(ast *cel.Ast, options ...interpreter.PlannerOption) (*Program, error) {
	planned, err := e.interpreter.NewInterpretable(ast.NativeRep(), append(standard(), options...)...)
	if err != nil {
		return nil, err
	}
	observed, _ := planned.(*interpreter.ObservableInterpretable)
	return &Program{interpretable: planned, observed: observed}, nil
}

// A Frame is what evaluations with the same variables share. Activations that are used again have one of
// their own, which a method Frame returns.
type Frame = closure.Frame

// Eval evaluates the program. The variables include that of [Interrupt]. The cost is that until
// the error, if there is one; it is 0 unless the program counts it.
func (p *Program) Eval(variables interpreter.Activation) (value ref.Val, cost uint64, err error) {
	if p.closure != nil {
		native, err := p.closure.Eval(variables)
		if err != nil {
			value, _ = native.(ref.Val)
			return value, 0, err
		}
		return Value(native), 0, nil
	}
	if p.observed == nil {
		defer recovered(&err)
		value = p.interpretable.Eval(variables)
		return value, 0, errorOf(value)
	}
	var tracker *interpreter.CostTracker
	defer func() {
		if tracker != nil {
			cost = tracker.ActualCost()
		}
	}()
	defer recovered(&err)
	value = p.observed.ObserveEval(variables, func(state any) { tracker, _ = state.(*interpreter.CostTracker) })
	return value, 0, errorOf(value)
}

// EvalNative is Eval whose value is one of which [Value] makes a value: what is of a decoded object stays
// as it is.
func (p *Program) EvalNative(variables interpreter.Activation) (value any, cost uint64, err error) {
	if p.closure == nil {
		return p.Eval(variables)
	}
	value, err = p.closure.Eval(variables)
	return value, 0, err
}

// recovered turns a panic into an error, as the programs of cel-go do.
func recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case interpreter.EvalCancelledError:
		*err = r
	default:
		*err = fmt.Errorf("internal error: %v", r)
	}
}

func errorOf(value ref.Val) error {
	if err, ok := value.(*types.Err); ok {
		return err
	}
	return nil
}
