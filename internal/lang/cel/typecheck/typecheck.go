// Package typecheck checks the expressions of admission policies against the schemas of the objects
// that the policies are for.
//
// Expressions are compiled without these types: what one reads is found out when it is evaluated.
// So a finding has to be certain. Each kind is checked for itself, without the branches that are not
// evaluated for it, such as one behind object.kind == 'Pod'. What fails for every kind is a
// mistake, and what fails for some is a warning.
package typecheck

import (
	"context"
	"fmt"
	"slices"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
	apiservercommon "k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
	"github.com/usher-dev/usher/internal/rule"
)

// A Target is a kind of objects that a policy is for, and the resource whose requests have them.
type Target struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
}

// A Policy is what is checked.
type Policy struct {
	// Expressions are in the order of evaluation: variables come first.
	Expressions []admission.Expression
	// Targets are the kinds of objects whose schemas are known.
	Targets []Target
	// Partial says that the policy may be for objects of other kinds, too.
	Partial bool
	// Params is the kind of the parameters; empty if there are none.
	Params schema.GroupVersionKind
	// Data are the sources of data whose kinds are known.
	Data []admission.Data
}

// A Checker checks policies. It is safe for concurrent use, and holds no schemas.
type Checker struct {
	once sync.Once
	err  error
	base *cel.Environment
	// functions has the declarations, checked once.
	functions *checker.Env
	provider  types.Provider
	// structures say what apply configurations can set.
	structures *apply.Types
}

// New returns a checker. Keep it: the first check makes an environment, which takes milliseconds.
func New() *Checker { return &Checker{structures: apply.NewTypes()} }

func (c *Checker) prepare() {
	var base *celgo.Env
	base, c.err = environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv().
		Extend(apiservercommon.ResolverEnvOption(&mutation.DynamicTypeResolver{}), library.JSONPatch())
	if c.err != nil {
		return
	}
	if c.base, c.err = cel.New(base); c.err != nil {
		return
	}
	request, namespace := admission.Declared()
	c.provider, c.err = apiservercel.NewDeclTypeProvider(request, namespace).WithTypeProvider(c.base.CELTypeProvider())
	if c.err != nil {
		return
	}
	// The declarations need no provider; those who check have their own.
	if c.functions, c.err = checker.NewEnv(containers.DefaultContainer, c.provider, checker.CrossTypeNumericComparisons(true)); c.err != nil {
		return
	}
	for _, function := range c.base.Functions() {
		if c.err = c.functions.AddFunctions(function); c.err != nil {
			return
		}
	}
	variables := slices.Concat(c.base.Variables(), []*decls.VariableDecl{
		decls.NewVariable(objectName, types.NewObjectType(objectType)),
		decls.NewVariable("oldObject", types.NewObjectType(objectType)),
		decls.NewVariable(paramsName, types.NewObjectType(paramsType)),
		decls.NewVariable("variables", types.NewObjectType(variablesType)),
		decls.NewVariable("data", types.NewObjectType(dataType)),
		decls.NewVariable("request", request.CelType()),
		decls.NewVariable("namespaceObject", namespace.CelType()),
		decls.NewVariable("authorizer", library.AuthorizerType),
		decls.NewVariable("authorizer.requestResource", library.ResourceCheckType),
	})
	c.err = c.functions.AddIdents(variables...)
}

// Check returns what is wrong with the expressions of a policy. Problems have no Policy and no File.
// It stops when ctx is done, and returns nothing then: what fails for the kinds that were checked
// need not fail for the others.
func (c *Checker) Check(ctx context.Context, set *kind.Set, p *Policy) (problems []rule.Problem, err error) {
	defer func() {
		// The type checker does not survive all expressions, such as [?object.x].
		if panicked := recover(); panicked != nil {
			problems, err = nil, fmt.Errorf("check types: the checker panicked: %v", panicked)
		}
	}()
	if c.once.Do(c.prepare); c.err != nil {
		return nil, fmt.Errorf("make environment to check types: %w", c.err)
	}
	run := &run{Checker: c, set: set, policy: p, found: map[place]*finding{}, reached: map[place]int{}, mentioned: map[string]bool{}}
	for _, parsed := range c.parse(ctx, p.Expressions) {
		run.parsed = append(run.parsed, parsed)
		if parsed == nil {
			continue
		}
		for _, name := range variablesIn(parsed.NativeRep().Expr()) {
			run.mentioned[name] = true
		}
	}
	targets := p.Targets
	if len(targets) == 0 {
		// Parameters and variables have types, too.
		targets = []Target{{}}
	}
	for _, target := range targets {
		if err := run.target(ctx, target); err != nil {
			return nil, err
		}
	}
	return run.problems(), nil
}

// parse parses the expressions of a policy; nil is one with errors, of which compiling the policy tells.
func (c *Checker) parse(ctx context.Context, expressions []admission.Expression) []*celgo.Ast {
	budget := &cel.Budget{Context: ctx}
	all := make([]*celgo.Ast, len(expressions))
	for i := range expressions {
		if parsed, issues, err := c.base.Parse(budget, expressions[i].Text); err == nil && issues == nil {
			all[i] = parsed
		}
	}
	return all
}

// A run checks one policy.
type run struct {
	*Checker

	set    *kind.Set
	policy *Policy
	parsed []*celgo.Ast
	// mentioned are the variables that expressions read.
	mentioned map[string]bool
	// found has what is wrong, and reached for how many targets a node is evaluated.
	found   map[place]*finding
	reached map[place]int
}

// A place is a node of an expression.
type place struct {
	expression int
	node       int64
}

// A checked is an expression, checked for one target.
type checked struct {
	errors []mistake
	// visited are the nodes that are evaluated for the target, without those above a mistake.
	visited map[int64]bool
	result  *types.Type
	// at is where the value comes from.
	at path
	// constant is the value, if it is the same for all objects of the kind.
	constant ref.Val
	// reads are the variables that are read.
	reads []string
}

// target checks all expressions for one kind of objects.
func (r *run) target(ctx context.Context, t Target) error {
	budget := &cel.Budget{Context: ctx}
	provider := newProvider(r.provider, r.set, t.Kind, r.policy)
	constants := constantsOf(t)
	all := make([]*checked, len(r.parsed))
	for i := range r.parsed {
		if r.parsed[i] == nil {
			continue
		}
		result, err := r.expression(budget, r.parsed[i].NativeRep(), provider, constants)
		if err != nil {
			return err
		}
		all[i] = result
		e := &r.policy.Expressions[i]
		switch {
		case e.Use == admission.Variable:
			provider.variables[e.Name], provider.paths["variables."+e.Name] = result.result, result.at
			budget.Variable(e.Name, result.result)
			if result.constant != nil {
				constants["variables."+e.Name] = result.constant
			}
		case e.Use == admission.Condition && result.constant == types.False:
			// The policy is not for objects of this kind.
			return nil
		}
	}
	r.record(t, provider, all)
	return nil
}

// record adds what was found for one target. Variables count when they are read, or if nothing
// reads them for any target.
func (r *run) record(t Target, provider *provider, all []*checked) {
	read := map[string]bool{}
	for i := len(all) - 1; i >= 0; i-- {
		e := &r.policy.Expressions[i]
		if all[i] == nil || e.Use == admission.Variable && !read[e.Name] && r.mentioned[e.Name] {
			continue
		}
		for _, name := range all[i].reads {
			read[name] = true
		}
		r.recordOne(i, t, provider, all[i])
	}
}

func (r *run) recordOne(i int, t Target, provider *provider, c *checked) {
	for node := range c.visited {
		r.reached[place{i, node}]++
	}
	for _, m := range c.errors {
		at := place{i, m.node}
		f := r.found[at]
		if f == nil {
			f = &finding{mistake: m, place: at, like: provider.like(m.at.holder)}
			f.fields = nil
			r.found[at] = f
		}
		if !f.at.equal(m.at) {
			// The value comes from another place in objects of each kind.
			f.at = path{}
		}
		f.wrong, f.fields = append(f.wrong, t.Kind), append(slices.Clip(f.fields), m.fields...)
	}
}

// mostRounds limits how often an expression is checked again because a presence test was decided, or the type of joined
// lists is known.
const mostRounds = 8

// expression checks one expression for one target.
func (r *run) expression(budget *cel.Budget, parsed *ast.AST, provider *provider, constants map[string]ref.Val) (*checked, error) {
	absent, joined := map[int64]mistake{}, map[int64]*types.Type{}
	for range mostRounds {
		if err := r.base.Admit(budget, parsed.Expr()); err != nil {
			return nil, fmt.Errorf("check types: %w", err)
		}
		f := folder{constants: constants, absent: absent, joined: joined, moved: map[int64]int64{}, factory: ast.NewExprFactory()}
		folded := ast.Copy(parsed)
		f.fold(folded.Expr())
		known := len(joined)
		result, tests, err := r.check(folded, provider, &f)
		if err != nil {
			return nil, err
		}
		decided := len(joined) > known
		for _, test := range tests {
			if _, known := absent[test.node]; !known {
				absent[test.node], decided = test, true
			}
		}
		if decided {
			continue
		}
		for _, test := range absent {
			result.errors = append(result.errors, test)
			result.visited[test.node] = true
		}
		slices.SortFunc(result.errors, func(a, b mistake) int { return int(a.node - b.node) })
		return result, nil
	}
	return &checked{result: types.DynType, visited: map[int64]bool{}}, nil
}

// check checks the types of an expression. Tests are those whether a field is present that no object
// of the kind has.
func (r *run) check(folded *ast.AST, provider *provider, f *folder) (result *checked, tests []mistake, err error) {
	env, err := checker.NewEnv(containers.DefaultContainer, provider, checker.ValidatedDeclarations(r.functions), checker.CrossTypeNumericComparisons(true))
	if err != nil {
		return nil, nil, fmt.Errorf("make environment to check types: %w", err)
	}
	result = &checked{visited: map[int64]bool{}, reads: variablesIn(folded.Expr())}
	if folded.Expr().Kind() == ast.LiteralKind {
		result.constant = folded.Expr().AsLiteral()
	}
	nodes := nodesOf(folded.Expr())
	restore, err := f.declareJoined(env, nodes)
	if err != nil {
		return nil, nil, err
	}
	typed, errs := checker.Check(folded, common.NewTextSource(""), env)
	restore()
	result.result = typed.GetType(folded.Expr().ID())
	if result.result.Kind() == types.ErrorKind {
		result.result = types.DynType
	}
	c := classifier{provider: provider, structures: r.structures, nodes: nodes, typed: typed, info: folded.SourceInfo(), paths: trace(folded.Expr(), provider.paths)}
	c.written = writtenIn(c.nodes)
	for id := range c.written {
		result.visited[id] = true
	}
	result.at = c.paths[folded.Expr().ID()]
	wrong := map[int64]bool{}
	for _, e := range errs.GetErrors() {
		m, ok := c.classify(e)
		if !ok {
			f.join(&c, nodes[e.ExprID])
			continue
		}
		m.node, wrong[e.ExprID] = f.origin(e.ExprID), true
		if m.test != "" {
			tests = append(tests, m)
		} else {
			result.errors = append(result.errors, m)
		}
	}
	for _, m := range c.changes() {
		wrong[m.node] = true
		m.node = f.origin(m.node)
		result.errors = append(result.errors, m)
	}
	visit(folded.Expr(), wrong, func(id int64) { result.visited[f.origin(id)] = true })
	return result, tests, nil
}
