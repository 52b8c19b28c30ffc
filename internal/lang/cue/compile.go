package cue

import (
	"context"
	"fmt"
	"runtime"

	"github.com/usher-dev/usher/internal/lang/cue/internal/closure"
	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/errors"
)

// Compile returns the program of a source, and all problems. The program is nil if a problem is an
// Error.
//
// Like the original's check of policies, it evaluates the source without parameters: what only
// lacks parameters is valid; conflicts and unknown names are not. If the source cannot be checked
// before ctx is done, or not now, the problem is Pending.
func Compile(ctx context.Context, source string, form Form, o Options) (*Program, []rule.Problem) {
	p := &Program{
		form: form, source: source, key: keyOf(source, form), tenant: o.Tenant, extra: o.ExtraParams, dependsOn: o.DependsOn, evaluator: o.Evaluator,
	}
	if p.evaluator == nil {
		p.evaluator = Default()
	}
	c := &compilation{source: source, form: form}
	c.check(ctx, p)
	if c.failed() {
		return nil, c.problems
	}
	// A worker has done this before, within its limits.
	a, problems := p.evaluator.analyse(ctx, p)
	if len(problems) > 0 {
		return nil, append(c.problems, problems...)
	}
	p.analysis = *a
	p.want()
	switch {
	case p.translation != nil:
	case p.evaluator.place == nil:
		c.fail("it needs CUE's evaluator, which this program does not run: "+p.obstacle,
			"write it in the subset that is compiled, or, if this is your program, call live.Main first thing in main, and in TestMain")
		return nil, c.problems
	default:
		p.evaluator.place.hold()
		runtime.AddCleanup(p, place.release, p.evaluator.place)
	}
	return p, c.problems
}

// A compilation collects the problems of a source.
type compilation struct {
	source   string
	form     Form
	problems []rule.Problem
	// tagged are the top-level fields that are written as parameters.
	tagged map[string]bool
}

// check has the evaluator check the source of p.
func (c *compilation) check(ctx context.Context, p *Program) {
	if len(p.source) > longestSource {
		c.tooLong(p.source)
		return
	}
	limits := p.evaluator.limits
	r := &request{Key: p.key, Source: p.source, Form: p.form, Check: true}
	answer, _, err := p.evaluator.ask(ctx, p.tenant, limits.CompileTimeout, r, p.source)
	switch {
	case err == nil:
		c.problems = answer.Problems
		if answer.Error != "" {
			c.fail("it could not be checked: "+answer.Error, "simplify it")
		}
	case errors.Is(err, worker.ErrMemory):
		c.fail("evaluating it takes more memory than there is for it, even without input", "make it compute less")
	case errors.Is(err, worker.ErrCrashed):
		c.fail(fmt.Sprintf("the evaluator crashes on it: %v", err), "write it in another way, and report it as a defect")
	case errors.Is(err, ErrOverrun):
		c.fail(fmt.Sprintf("evaluating it even without input takes longer than %s", limits.CompileTimeout),
			"make it compute less")
	case errors.Is(err, ErrNoEvaluator):
	case errors.Is(err, ErrTooLarge):
		c.fail(fmt.Sprintf("it could not be checked: %v", err), "simplify it")
	default:
		c.problems = append(c.problems, pending(c.form, err))
	}
}

// analyse analyses the source of p: one at a time unless it is from a cluster policy, so that
// requests are decided meanwhile.
func (e *Evaluator) analyse(ctx context.Context, p *Program) (*analysis, []rule.Problem) {
	if p.tenant != "" {
		select {
		case e.analysing <- struct{}{}:
			defer func() { <-e.analysing }()
		case <-ctx.Done():
			return nil, []rule.Problem{pending(p.form, worker.Ended(ctx))}
		}
	}
	return analyse(p.source, p.form)
}

// pending is the problem of a source that has not been checked yet.
func pending(form Form, err error) rule.Problem {
	return rule.Problem{
		Severity: rule.Error, Field: form.field(), Pending: true,
		What: fmt.Sprintf("it has not been checked yet: %v", err), Do: "wait, or try again",
	}
}

// analyse determines what a source reads, and translates it.
func analyse(source string, form Form) (*analysis, []rule.Problem) {
	c := &compilation{source: source, form: form}
	file := c.parse(source)
	if file == nil {
		return nil, c.problems
	}
	a := &analysis{
		reads: readsOf(file, form), fetches: mayDefine(file.Decls, processing), pointers: pointersIn(file),
	}
	a.translate(file, form)
	return a, nil
}

// tagged returns the top-level fields with an attribute.
func tagged(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, decl := range file.Decls {
		if field, ok := decl.(*ast.Field); ok && len(field.Attrs) > 0 {
			if name, ok := syntax.StaticLabel(field.Label); ok {
				names[name] = true
			}
		}
	}
	return names
}

// removeAttributes drops all attributes. To the original they are decoration; to this
// evaluator some are instructions.
func removeAttributes(file *ast.File) {
	drop := func(decls []ast.Decl) []ast.Decl {
		kept := decls[:0]
		for _, decl := range decls {
			if _, ok := decl.(*ast.Attribute); !ok {
				kept = append(kept, decl)
			}
		}
		return kept
	}
	ast.Walk(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.File:
			x.Decls = drop(x.Decls)
		case *ast.StructLit:
			x.Elts = drop(x.Elts)
		case *ast.Field:
			x.Attrs = nil
		}
		return true
	}, nil)
}

// mayDefine reports whether declarations may give the struct that they are in a field
// of this name.
func mayDefine(decls []ast.Decl, name string) bool {
	for _, decl := range decls {
		switch d := decl.(type) {
		case *ast.Field:
			if label, ok := syntax.StaticLabel(d.Label); !ok || label == name {
				return true
			}
		case *ast.Comprehension:
			body, ok := d.Value.(*ast.StructLit)
			if !ok || mayDefine(body.Elts, name) {
				return true
			}
		case *ast.EmbedDecl, *ast.Alias:
			return true
		}
	}
	return false
}

// importsExist reports imports that do not exist, those that nothing mentions too.
func (c *compilation) importsExist(file *ast.File) {
	for decl := range file.ImportDecls() {
		for _, spec := range decl.Specs {
			info, err := astutil.ParseImportSpec(spec)
			if err != nil || !isPackage(info.ID) {
				c.problem(rule.Error, spec.Pos(), fmt.Sprintf("package %s not found", spec.Path.Value),
					"import packages of CUE's standard library only")
			}
		}
	}
}

// isPackage reports whether CUE has a package of this path.
func isPackage(path string) bool {
	spec := ast.NewImport(ast.NewIdent("p"), path)
	probe := &ast.File{Decls: []ast.Decl{
		&ast.ImportDecl{Specs: []*ast.ImportSpec{spec}},
		&ast.Field{Label: ast.NewIdent("x"), Value: &ast.Ident{Name: "p", Node: spec}},
	}}
	return newContext().BuildFile(probe).Err() == nil
}

// translate gives a its translation, or the reason why there is none.
func (a *analysis) translate(file *ast.File, form Form) {
	t, o := closure.Translate(file, form.params(), form.output())
	switch {
	case o != nil:
	case a.fetches:
		a.obstacle = "it may ask an HTTP service"
		return
	default:
		a.translation = t
		return
	}
	a.obstacle = o.What
	if pos := o.Node.Pos(); pos.IsValid() {
		a.obstacle = fmt.Sprintf("%s (%d:%d)", o.What, pos.Line(), pos.Column())
	}
}
