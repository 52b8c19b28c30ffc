package cue

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/lang/cue/internal/closure"
	"github.com/usher-dev/usher/lang/cue/internal/syntax"
	"github.com/usher-dev/usher/rule"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
)

// Compile returns the program that a source is, and all that is wrong with it. The
// program is nil if a problem is an Error.
//
// Like the original's check of policies, it evaluates the source without parameters:
// what lacks only them is in order, conflicts and unknown names are not.
func Compile(source string, form Form, o Options) (*Program, []rule.Problem) {
	c := &compilation{form: form, evaluator: o.Evaluator}
	if c.evaluator == nil {
		c.evaluator = shared()
	}
	file := c.parse(source)
	if file == nil {
		return nil, c.problems
	}
	removeAttributes(file)
	c.advise(file, source)
	reads, labels := readsOf(file, form)
	p := &Program{
		form:      form,
		extra:     o.ExtraParams,
		evaluator: c.evaluator,
		output:    cue.MakePath(cue.Str(form.output())),
		reads:     reads,
		labels:    labels,
		fetches:   mayDefine(file.Decls, processing),
	}
	if !mayDefine(file.Decls, form.output()) {
		c.warn(fmt.Sprintf("%s is not defined, so the rule fails whenever it runs", form.output()),
			fmt.Sprintf("define %s", form.output()))
	}
	c.importsExist(file)
	if !c.bound(p, file, source) || !c.keepListArithmetic(file) {
		return nil, c.problems
	}
	if err := astutil.SanitizeFiles([]*ast.File{file}); err != nil {
		c.cueErrors(err)
		return nil, c.problems
	}
	c.build(p, file)
	if c.failed() {
		return nil, c.problems
	}
	p.want(file)
	p.translate()
	return p, c.problems
}

// A compilation gathers what is wrong with a source.
type compilation struct {
	form      Form
	evaluator *Evaluator
	problems  []rule.Problem
}

// build gives p its value, checked by evaluating it.
func (c *compilation) build(p *Program, file *ast.File) {
	type built struct {
		context *cue.Context
		value   cue.Value
		err     error
	}
	e := c.evaluator
	b, _, err := run(context.Background(), e, e.limits.CompileTimeout, func() (built, error) {
		ctx := newContext()
		value := ctx.BuildFile(file)
		return built{ctx, value, value.Validate()}, nil
	})
	switch {
	case errors.Is(err, ErrOverrun):
		c.fail(fmt.Sprintf("evaluating it even without input takes longer than %s", e.limits.CompileTimeout),
			"make it compute less")
	case err != nil:
		c.fail(fmt.Sprintf("it could not be checked: %v", err), "simplify it")
	case b.err != nil:
		c.cueErrors(b.err)
	}
	p.context, p.value = b.context, b.value
}

// newContext returns a context without structure sharing, with which v0.17.1 loses
// fields of values that come from Go.
func newContext() *cue.Context { return cuecontext.New(cuecontext.CUE_DEBUG("sharing=0")) }

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

// translate gives p its translation, or the reason why there is none.
func (p *Program) translate() {
	t, o := closure.Translate(p.bound.file, p.form.params(), p.form.output())
	switch {
	case o != nil:
	case p.fetches:
		p.obstacle = "it may ask an HTTP service"
		return
	default:
		p.translation = t
		return
	}
	p.obstacle = o.What
	if pos := o.Node.Pos(); pos.IsValid() {
		p.obstacle = fmt.Sprintf("%s (%d:%d)", o.What, pos.Line(), pos.Column())
	}
}
