// Package authorization compiles conditions of authorization policies, written in CEL, to predicates.
//
// The language is that of Kubernetes, libraries included, with one variable, request: see
// docs/authorization.md for its fields and functions. An expression that may take long, such
// as one with a loop, stops with an error at a budget.
package authorization

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/authz"
)

// budget is the cost at which an expression is stopped, in CEL's units: some ten
// milliseconds. API servers grant ten times that to a condition of an admission policy.
const budget = 100_000

// A predicate is a compiled expression.
type predicate struct {
	program cel.Program
	uses    []rule.Use
}

// environment is made once, because that takes milliseconds, and never changes.
var environment = sync.OnceValues(newEnvironment)

// Compile compiles an expression. Problems have no Field, Policy and File.
func Compile(source string) (authz.Predicate, []rule.Problem) {
	env, err := environment()
	if err != nil {
		return nil, []rule.Problem{{Severity: rule.Error, What: err.Error(), Do: "report this as a defect"}}
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, problems(issues)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, []rule.Problem{{
			Severity: rule.Error, What: fmt.Sprintf("the expression yields %s, not bool", ast.OutputType()),
			Do: "compare it with something",
		}}
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if !cheap(ast) {
		options = append(options, limited()...)
	}
	program, err := env.Program(ast, options...)
	if err != nil {
		return nil, []rule.Problem{{Severity: rule.Error, What: err.Error(), Do: "write it in another way"}}
	}
	return &predicate{program: program, uses: usesOf(ast)}, nil
}

// Holds implements [authz.Predicate].
func (p *predicate) Holds(q *authz.Query) (bool, error) {
	r := requests.Get().(*request)
	defer requests.Put(r)
	r.Query = q
	value, _, err := p.program.Eval(r)
	r.Query = nil
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, errNotBool
	}
	return bool(holds), nil
}

var errNotBool = errors.New("the expression does not yield a bool")

var undeclared = regexp.MustCompile(`^undeclared reference to '(\w+)'`)

// problems are what the compiler objects to, each with the place in the expression.
func problems(issues *cel.Issues) []rule.Problem {
	var all []rule.Problem
	for _, e := range issues.Errors() {
		p := rule.Problem{
			Severity: rule.Error,
			What:     fmt.Sprintf("%s (line %d, column %d)", e.Message, e.Location.Line(), e.Location.Column()+1),
			Do:       "see docs/authorization.md for what request has",
		}
		if m := undeclared.FindStringSubmatch(e.Message); m != nil && fieldNames(requestFields)[m[1]] {
			p.Do = "write request." + m[1]
		}
		if strings.Contains(e.Message, "namespace") && strings.Contains(e.Message, "reserved") {
			p.Do = "write request.namespace: namespace alone is a reserved word of CEL"
		}
		if strings.Contains(e.Message, "does not support field selection") {
			p.Do = "request.user is the name; groups, uid and extra are fields of request"
		}
		all = append(all, p)
	}
	return all
}
