// Package authorization compiles conditions of authorization policies, written in CEL, to predicates.
//
// The language is that of Kubernetes, libraries included, with one variable, request: see
// docs/authorization.md for its fields and functions. An expression that may take long, such
// as one with a loop, stops with an error at a budget.
package authorization

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// budget is the cost at which an expression is stopped, in CEL's units: some ten
// milliseconds. API servers grant ten times that to a condition of an admission policy.
const budget = 100_000

// What a condition may take: API servers wait for the answer with every request.
const (
	conditionTime   = 300 * time.Millisecond
	conditionMemory = 32 << 20
)

// A predicate is a compiled expression.
type predicate struct {
	// program does not count its cost; counted does. Requests within the limit small, and those for
	// which bound is within the budget, need no counting.
	program *cel.Program
	counted func() (*cel.Program, error)
	bound   cel.Bound
	small   cel.Limit
	// lists are the paths to what the expression reads whose size is not that of a few texts.
	lists [][]string
	uses  []rule.Use
}

// shared is the environment of all expressions. To make one takes milliseconds.
var shared = sync.OnceValues(newEnvironment)

// Compile compiles an expression. Problems have no Field, Policy and File.
func Compile(source string) (authz.Predicate, []rule.Problem) {
	return CompileWithin(&cel.Budget{}, source)
}

// CompileWithin is Compile with the budget of a policy. What is not compiled before its context is done
// is a problem that is Pending.
func CompileWithin(within *cel.Budget, source string) (authz.Predicate, []rule.Problem) {
	env, err := shared()
	if err != nil {
		return nil, problem(err.Error(), "report this as a defect")
	}
	ast, issues, err := env.Check(within, source)
	if err != nil && within.Done() != nil {
		return nil, []rule.Problem{{Severity: rule.Error, What: err.Error(), Do: "write less in one policy", Pending: !errors.Is(err, cel.ErrTooLarge)}}
	}
	if err != nil {
		return nil, problem(err.Error(), writeDifferently)
	}
	if issues != nil {
		return nil, problems(source, issues)
	}
	if !ast.OutputType().IsExactType(celgo.BoolType) {
		return nil, problem(fmt.Sprintf("the expression yields %s, not bool", ast.OutputType()), "compare it with something")
	}
	program, err := env.Plan(ast)
	if err != nil {
		return nil, problem(err.Error(), writeDifferently)
	}
	p := &predicate{program: program, uses: usesOf(ast)}
	p.bound, _ = cel.BoundOf(ast, map[string]cel.Measure{requestName: cel.Input()})
	p.small = cel.LimitOf(p.within)
	p.lists = listsOf(ast)
	// To compile again takes less memory than to keep what few requests need.
	p.counted = sync.OnceValues(func() (*cel.Program, error) {
		ast, issues, err := env.Check(&cel.Budget{}, source)
		if err = cmp.Or(err, issues.Err()); err != nil {
			return nil, fmt.Errorf("compile %q again: %w", source, err)
		}
		return env.PlanCounted(ast, budget)
	})
	var warnings []rule.Problem
	for _, issue := range cel.SurelyWrong(ast) {
		warnings = append(warnings, rule.Problem{Severity: rule.Warning, At: rule.PlaceIn(source, issue.Line, issue.Column), What: issue.What, Do: issue.Do})
	}
	return p, warnings
}

// listsOf returns the paths that an expression reads below groups and extra. An empty one is for the
// whole request.
func listsOf(ast *celgo.Ast) [][]string {
	var reads cel.Reads
	reads.AddValue(reads.Add(ast, map[string]cel.Provenance{requestName: cel.Variable(requestName)}))
	return slices.DeleteFunc(reads.Whole(requestName), func(path []string) bool {
		return len(path) > 0 && path[0] != groupsName && path[0] != extraName
	})
}

// Holds implements [authz.Predicate].
func (p *predicate) Holds(ctx context.Context, q *authz.Query) (bool, error) {
	r := requests.Get().(*request)
	r.Query = q
	r.meter.Context = ctx //nolint:fatcontext // it is that of the request
	r.meter.Allowance, r.meter.Time, r.meter.Memory = q.Allowance, conditionTime, conditionMemory
	defer func() {
		r.Query = nil
		r.meter.Release()
		requests.Put(r)
	}()
	program, err := p.programFor(r)
	if err != nil {
		return false, err
	}
	value, _, err := program.Eval(r)
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, errNotBool
	}
	return bool(holds), nil
}

// programFor returns the program that counts its cost, if that may exceed the budget.
func (p *predicate) programFor(r *request) (*cel.Program, error) {
	if p.small.None() {
		return p.program, nil
	}
	if s := r.size(p.lists); p.small.Includes(s) || p.within(s) {
		return p.program, nil
	}
	return p.counted()
}

// within reports whether the budget is enough for a request of that size.
func (p *predicate) within(s cel.Size) bool { return p.bound.At(s) <= budget }

var errNotBool = errors.New("the expression does not yield a bool")

const writeDifferently = "write it in another way"

// problem is one about the whole expression.
func problem(what, do string) []rule.Problem {
	return []rule.Problem{{Severity: rule.Error, What: what, Do: do}}
}

var undeclared = regexp.MustCompile(`^undeclared reference to '(\w+)'`)

// problems are what the compiler objects to, each with the place in the expression.
func problems(source string, issues *celgo.Issues) []rule.Problem {
	var all []rule.Problem
	for _, issue := range cel.Issues(source, issues) {
		p := rule.Problem{Severity: rule.Error, At: rule.PlaceIn(source, issue.Line, issue.Column), What: issue.What, Do: issue.Do}
		if p.Do == "" {
			p.Do = advise(p.What)
		}
		all = append(all, p)
	}
	return all
}

// advise says what to do about what the compiler objects to.
func advise(what string) string {
	do := "see docs/authorization.md for what request has"
	if m := undeclared.FindStringSubmatch(what); m != nil && fieldNames(requestFields)[m[1]] {
		do = "write request." + m[1]
	}
	if strings.Contains(what, "namespace") && strings.Contains(what, "reserved") {
		do = "write request.namespace: namespace alone is a reserved word of CEL"
	}
	if strings.Contains(what, "does not support field selection") {
		do = "request.user is the name; groups, uid and extra are fields of request"
	}
	return do
}
