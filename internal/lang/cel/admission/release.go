package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// selectors is the release that brought the functions of authorizer which a feature gate turns on:
// the environments of all releases have them.
const selectors = 31

// environmentOf returns what expressions of a release of Kubernetes may use. Variables have no types:
// compiling an expression for the newest release has checked these.
func environmentOf(r rule.Release) (*celgo.Env, error) {
	set := environment.MustBaseEnvSet(version.MajorMinor(1, uint(r.Minor())))
	var variables []celgo.EnvOption
	for _, name := range []string{objectName, oldObjectName, namespaceName, requestName, variablesName, paramsName, dataName} {
		variables = append(variables, celgo.Variable(name, celgo.DynType))
	}
	return set.NewExpressionsEnv().Extend(append(variables,
		celgo.Variable(authorizerName, library.AuthorizerType), celgo.Variable(resourceName, library.ResourceCheckType))...)
}

// releases have the environments that were used.
var releases = sync.OnceValue(func() *environmentsOfReleases {
	return &environmentsOfReleases{made: map[rule.Release]*cel.Environment{}}
})

type environmentsOfReleases struct {
	sync.Mutex

	made map[rule.Release]*cel.Environment
}

func (e *environmentsOfReleases) of(r rule.Release) (*cel.Environment, error) {
	e.Lock()
	defer e.Unlock()
	if env := e.made[r]; env != nil {
		return env, nil
	}
	env, err := environmentOf(r)
	if err != nil {
		return nil, fmt.Errorf("make CEL environment of Kubernetes %s: %w", r, err)
	}
	e.made[r] = cel.Checking(env)
	return e.made[r], nil
}

// A Portability finds out which releases can do what the expressions of one policy need. The zero
// Portability works.
type Portability struct {
	// budgets are those of compiling the policy for each release.
	budgets map[rule.Release]*cel.Budget
}

// Lacks says what a release of Kubernetes lacks that an expression uses, and the first release that
// has it. The expression compiles for the newest release. What is empty if it lacks nothing,
// and if the policy is too large to be compiled, which another problem says.
func (p *Portability) Lacks(r rule.Release, expression string) (what string, first rule.Release, err error) {
	all := rule.Releases()
	for _, later := range all[slices.IndexFunc(all, func(one rule.Release) bool { return one.Minor() == r.Minor() }):] {
		if p.budgets == nil {
			p.budgets = map[rule.Release]*cel.Budget{}
		}
		if p.budgets[later] == nil {
			p.budgets[later] = &cel.Budget{}
		}
		lacking, err := lacks(p.budgets[later], later, expression)
		switch {
		case err != nil:
			return "", later, err
		case lacking == "":
			return what, later, nil
		case what == "":
			what = lacking
		}
	}
	// It does not compile for any: another problem says so.
	return "", rule.Release{}, nil
}

// lacks says what one release lacks, "" for nothing.
func lacks(budget *cel.Budget, r rule.Release, expression string) (what string, err error) {
	env, err := releases().of(r)
	if err != nil {
		return "", err
	}
	defer func() {
		// The compiler does not survive all expressions, and Compile has reported those.
		if panicked := recover(); panicked != nil {
			what = ""
		}
	}()
	parsed, issues, ended := env.Parse(budget, expression)
	switch {
	case ended != nil:
		return "", nil
	case issues != nil:
		return "its syntax", nil
	}
	if r.Minor() < selectors {
		if name := selectorIn(parsed); name != "" {
			return name + "()", nil
		}
	}
	if env.Admit(budget, parsed.NativeRep().Expr()) != nil {
		return "", nil
	}
	_, issues = env.Env.Check(parsed)
	if issues.Err() == nil {
		return "", nil
	}
	return functionsIn(parsed, issues.Errors()), nil
}

// functionsIn returns the names of the functions that errors are about.
func functionsIn(parsed *celgo.Ast, errors []*celgo.Error) string {
	calls := map[int64]string{}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			calls[e.ID()] = nameOf(e.AsCall())
		}
	}))
	var names []string
	for _, e := range errors {
		if name := calls[e.ExprID]; name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "what it uses"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// nameOf returns a function as authors know it.
func nameOf(call ast.CallExpr) string {
	name := call.FunctionName()
	switch symbol, isOperator := operators.FindReverse(name); {
	case isOperator:
		return "the operator " + cmp.Or(symbol, name)
	case !call.IsMemberFunction():
		return name + "()"
	case call.Target().Kind() == ast.IdentKind && slices.Contains([]string{"sets", "format", "lists", "optional", "strings", "math"}, call.Target().AsIdent()):
		name = call.Target().AsIdent() + "." + name
	case len(call.Args()) > 2 && slices.Contains([]string{"all", "exists", "existsOne", "transformList", "transformMap", "transformMapEntry"}, name):
		return name + "() with two variables"
	}
	return name + "()"
}

// selectorIn returns the name of a function of authorizer for selectors that an expression calls.
func selectorIn(parsed *celgo.Ast) string {
	found := ""
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		if name := e.AsCall().FunctionName(); name == "fieldSelector" || name == "labelSelector" {
			found = name
		}
	}))
	return found
}
