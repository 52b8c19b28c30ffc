// Package cel evaluates CEL expressions over decoded objects: what the dialects have in common,
// each of which has a folder below.
//
// It is cel-go with another way to make programs. The programs of an environment share one
// interpreter, and read the maps and lists of decoded objects as they are. Values, errors and
// costs are those of the programs of cel-go.
package cel

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/internal/lang/cel/closure"
	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// An Environment compiles expressions and makes programs of them. It is safe for concurrent use.
type Environment struct {
	*cel.Env

	interpreter interpreter.Interpreter
	closures    closure.Compiler
	// parsers are those that are not in use.
	parsers sync.Pool
	// functions are copied once: programs ask for them at each call.
	functions func() map[string]*decls.FunctionDecl
}

// Functions returns the functions of the environment, which callers must not change.
func (e *Environment) Functions() map[string]*decls.FunctionDecl { return e.functions() }

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
			err = dispatcher.Add(strictly(function, apart(name, bindings))...)
		}
		if err != nil {
			return nil, fmt.Errorf("make CEL environment: function %s: %w", name, err)
		}
	}
	adapter, provider := adapter{env.CELTypeAdapter()}, env.CELTypeProvider()
	attributes := attributes{interpreter.NewAttributeFactory(env.Container, adapter, provider), provider}
	return &Environment{
		Env:         env,
		functions:   sync.OnceValue(env.Functions),
		interpreter: interpreter.NewInterpreter(dispatcher, env.Container, provider, adapter, attributes),
		closures:    closure.Compiler{Dispatcher: dispatcher, Adapter: adapter, Provider: provider, Container: env.Container, Regexes: regexes(), Bounds: takesOf},
	}, nil
}

// Unbounded returns the functions that expressions cannot call, since it is not known what a call takes.
func (e *Environment) Unbounded() []string {
	var names []string
	for name := range e.Functions() {
		if name != operators.Conditional && takesOf(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Names returns the names of functions and macros that expressions can call, sorted; operators have none.
func (e *Environment) Names() []string {
	var names []string
	add := func(name string) {
		if unicode.IsLetter(rune(name[0])) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for name := range e.Functions() {
		add(name)
	}
	for _, macro := range e.Macros() {
		add(macro.Function())
	}
	slices.Sort(names)
	return names
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
//
// Closures evaluate it, which a meter stops before they take too much. The programs of cel-go, which cannot
// be stopped within a call, only find out what API servers count: they run after closures did, and so do
// nothing that takes much longer.
type Program struct {
	closure *closure.Program
	// observed is the interpretable of a program that counts; nil for others. Limit is that of the cost.
	observed *interpreter.ObservableInterpretable
	limit    uint64
}

// Plan makes a program that does not count its cost. cel-go plans it, too: whether there is a program,
// and which parts are constants, is what it says.
func (e *Environment) Plan(ast *cel.Ast) (*Program, error) { return e.planClosure(ast.NativeRep()) }

// PlanPart makes a program of a part of an expression, which may read the variables of loops around it.
func (e *Environment) PlanPart(of *cel.Ast, part celast.Expr) (*Program, error) {
	whole := of.NativeRep()
	return e.planClosure(celast.NewCheckedAST(celast.NewAST(part, whole.SourceInfo()), whole.TypeMap(), whole.ReferenceMap()))
}

func (e *Environment) planClosure(ast *celast.AST) (*Program, error) {
	folded := map[int64]interpreter.Interpretable{}
	_, err := e.plan(ast, interpreter.CustomDecorator(foldConstants), interpreter.CustomDecorator(func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		switch i.(type) {
		case interpreter.InterpretableConst, *parsedQuantity:
			folded[i.ID()] = i
		}
		return i, nil
	}))
	if err != nil {
		return nil, err
	}
	made, ok := e.closures.Compile(ast, folded)
	if !ok {
		return nil, errNoBound
	}
	return &Program{closure: made}, nil
}

// errNoBound is the error of an expression of which it is not known what it takes.
var errNoBound = errors.New("there is no bound of what it takes to evaluate a part of the expression")

// PlanCounted makes a program that counts its cost, and stops with an error when that exceeds limit.
func (e *Environment) PlanCounted(ast *cel.Ast, limit uint64) (*Program, error) {
	p, err := e.Plan(ast)
	if err != nil {
		return nil, err
	}
	tracker, err := interpreter.NewCostTracker(&library.CostEstimator{}, append(costTrackers(), interpreter.CostTrackerLimit(limit))...)
	if err != nil {
		return nil, fmt.Errorf("count cost: %w", err)
	}
	// Evaluations share the table of the trackers.
	factory := func() (*interpreter.CostTracker, error) {
		own := *tracker
		return &own, nil
	}
	planned, err := e.plan(ast.NativeRep(), interpreter.CostObserver(interpreter.CostTrackerFactory(factory)))
	if err != nil {
		return nil, err
	}
	p.observed, _ = planned.(*interpreter.ObservableInterpretable)
	p.limit = limit
	return p, nil
}

// Record makes a program of a part of an expression that records the values of its own parts.
func (e *Environment) Record(of *celast.AST, part celast.Expr) (*Recorder, error) {
	ast := celast.NewCheckedAST(celast.NewAST(part, of.SourceInfo()), of.TypeMap(), of.ReferenceMap())
	program, err := e.planClosure(ast)
	if err != nil {
		return nil, err
	}
	planned, err := e.plan(ast, interpreter.EvalStateObserver())
	if err != nil {
		return nil, err
	}
	observed, _ := planned.(*interpreter.ObservableInterpretable)
	return &Recorder{Program{closure: program.closure, observed: observed}}, nil
}

// A Recorder is a program that records values.
type Recorder struct{ program Program }

// Eval evaluates the program, and returns its value and those of its parts. The latter are nil if the
// evaluation was stopped.
func (r *Recorder) Eval(variables closure.Framed) (value ref.Val, state interpreter.EvalState, err error) {
	value, err = r.program.observe(variables, allowance.CountedTime, func(s any) { state, _ = s.(interpreter.EvalState) })
	return value, state, err
}

func (e *Environment) plan(ast *celast.AST, options ...interpreter.PlannerOption) (interpreter.Interpretable, error) {
	return e.interpreter.NewInterpretable(ast, append(standard(), options...)...)
}

// A Frame is what evaluations with the same variables share. Activations that are used again have one of
// their own, which a method Frame returns.
type Frame = closure.Frame

// Variables are those of an evaluation, with a frame and a meter.
type Variables = closure.Framed

// Eval evaluates the program. The cost is that until the error, if there is one; it is 0 unless the
// program counts it.
func (p *Program) Eval(variables interpreter.Activation) (value ref.Val, cost uint64, err error) {
	framed, ok := variables.(closure.Framed)
	if p.observed == nil || !ok {
		native, err := p.closure.Eval(variables)
		if err != nil {
			value, _ = native.(ref.Val)
			return value, 0, err
		}
		return Value(native), 0, nil
	}
	var tracker *interpreter.CostTracker
	value, err = p.observe(framed, allowance.CountedTime, func(state any) { tracker, _ = state.(*interpreter.CostTracker) })
	if tracker != nil {
		return value, tracker.ActualCost(), err
	}
	if exceeded, ok := errors.AsType[*allowance.ExceededError](err); ok && exceeded.Allowed == int64(allowance.CountedTime) && !exceeded.Call {
		// No expression within the limit takes so long, and API servers would have stopped it before.
		return nil, p.limit + 1, errLimit
	}
	return value, 0, err
}

// errLimit is the error of cel-go for an expression whose cost exceeds its limit.
var errLimit = interpreter.EvalCancelledError{Message: "operation cancelled: actual cost limit exceeded", Cause: interpreter.CostLimitExceeded}

// slower is how much longer cel-go takes than closures are estimated to take.
const slower = 3

// observe has closures evaluate the program, and then cel-go.
func (p *Program) observe(variables closure.Framed, limit time.Duration, observer func(any)) (value ref.Val, err error) {
	defer recovered(&err)
	m := variables.Meter()
	took, memory := m.Within(limit, func() { _, err = p.closure.Eval(variables) })
	if meter.IsStopped(err) {
		return nil, err
	}
	m.Spend(slower * int64(took))
	m.Take(memory)
	value = p.observed.ObserveEval(variables, observer)
	return value, errorOf(value)
}

// EvalNative is Eval whose value is one of which [Value] makes a value: what is of a decoded object stays
// as it is.
func (p *Program) EvalNative(variables interpreter.Activation) (value any, cost uint64, err error) {
	if p.observed != nil {
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
	case *meter.Stopped:
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
