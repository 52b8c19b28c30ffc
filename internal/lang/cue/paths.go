package cue

import (
	"slices"

	"cuelang.org/go/cue/ast"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
	"github.com/usher-dev/usher/internal/rule"
)

// readsOf returns what a source reads of its parameters. It may return too much, never too little:
// what it cannot follow is read completely.
//
// It follows each reference to a parameter, with its selectors and indices, to its use. Names for
// such a path (a top-level field, a let clause, the variable of a for clause) are followed to their
// own references.
func readsOf(file *ast.File, form Form) map[string]*need {
	t := &tracer{
		file:   file,
		params: form.params(),
		fixed:  []string{form.output(), processing},
		fields: map[string][]*ast.Field{},
		uses:   map[any][]use{},
		needs:  map[any]*need{},
	}
	t.declarations(file.Decls)
	t.walk(file)
	t.tell()
	reads := map[string]*need{}
	for _, name := range t.params {
		if t.lost {
			reads[name] = &need{whole: true}
			continue
		}
		if n := t.paramNeed(name); n != nil {
			reads[name] = n
		}
	}
	return reads
}

// A tracer determines what a source reads.
type tracer struct {
	file   *ast.File
	params []string
	// fixed are the top-level fields that are read from outside.
	fixed []string
	// fields are the declarations of each top-level field, those under conditions too.
	fields map[string][]*ast.Field
	// lost means that the source has a construct that cannot be followed.
	lost bool

	stack []ast.Node
	// uses are the references to a key: the name of a top-level field, or the node that declares a
	// let or for variable.
	uses map[any][]use
	// needs are what the uses of a key add up to; nil while that is being found out.
	needs map[any]*need
	// nodes counts the combined nodes, which can be many more than the source has.
	nodes int
}

// mostNeeds is how many parts of needs are put together; then all is needed.
const mostNeeds = 200_000

// A use is one reference: its path, and the use of the value there.
type use struct {
	path []step
	does action
	// to are the keys that the value goes by from here on.
	to []any
	// compared are the constants that it is compared with, if that is all that is done.
	compared []rule.Comparison
	// within is the key of the field or clause in which it stands, and told says that it is in a message.
	within any
	told   bool
}

// declarations collects the top-level fields.
func (t *tracer) declarations(decls []ast.Decl) {
	for _, decl := range decls {
		switch d := decl.(type) {
		case *ast.Field:
			name, ok := syntax.StaticLabel(d.Label)
			if !ok {
				t.lost = true
				continue
			}
			t.fields[name] = append(t.fields[name], d)
		case *ast.Comprehension:
			body, ok := d.Value.(*ast.StructLit)
			if !ok || d.Fallback != nil {
				t.lost = true
				continue
			}
			t.declarations(body.Elts)
		case *ast.LetClause, *ast.ImportDecl, *ast.Package, *ast.Attribute, *ast.CommentGroup, *ast.Ellipsis:
		default:
			t.lost = true
		}
	}
}

// walk records every mention.
func (t *tracer) walk(root ast.Node) {
	ast.Walk(root, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Ident:
			t.mention(x)
		case *ast.Alias, *ast.PostfixAlias, *ast.Func, *ast.TryClause:
			t.lost = true
		}
		t.stack = append(t.stack, n)
		return true
	}, func(ast.Node) {
		t.stack = t.stack[:len(t.stack)-1]
	})
}

// mention records id if it refers to a value that can be followed.
func (t *tracer) mention(id *ast.Ident) {
	if id.Node == nil || t.isLabel(id) {
		return
	}
	key := t.keyOf(id)
	if key == nil {
		return
	}
	top := t.climb(id)
	u := use{path: top.path}
	if u.does, u.to = t.does(top); u.does == readAll {
		u.compared = t.comparisons(top)
	}
	u.within, u.told = t.placeOf()
	t.uses[key] = append(t.uses[key], u)
}

// keyOf returns the key that id refers to, nil if it is neither a parameter nor a possible name of
// one.
func (t *tracer) keyOf(id *ast.Ident) any {
	switch id.Node.(type) {
	case *ast.ImportSpec:
		return nil
	case *ast.LetClause:
		return id.Node
	}
	switch id.Scope.(type) {
	case *ast.File:
		return id.Name
	case *ast.ForClause, *ast.LetClause:
		return id.Node
	}
	// A field of a nested struct. Within the declaration of a parameter it is a part of
	// the parameter by another name.
	if field := t.enclosingField(); field != nil {
		if name, _ := syntax.StaticLabel(field.Label); slices.Contains(t.params, name) {
			t.uses[name] = append(t.uses[name], use{does: readAll})
		}
	}
	return nil
}

func (t *tracer) enclosingField() *ast.Field {
	for _, n := range t.stack {
		if field, ok := n.(*ast.Field); ok {
			return field
		}
	}
	return nil
}

// isLabel reports whether id is a name rather than a mention.
func (t *tracer) isLabel(id *ast.Ident) bool {
	switch p := t.stack[len(t.stack)-1].(type) {
	case *ast.Field:
		return p.Label == id
	case *ast.SelectorExpr:
		return p.Sel == id
	case *ast.LetClause:
		return p.Ident == id
	case *ast.ForClause:
		return p.Key == id || p.Value == id
	case *ast.ImportSpec, *ast.Package:
		return true
	}
	return false
}

// paramNeed adds up what is read of a parameter, nil if nothing is.
func (t *tracer) paramNeed(name string) *need {
	var total *need
	add := func(n *need) {
		if n == nil {
			return
		}
		if total == nil {
			total = &need{}
		}
		total.add(n)
	}
	if len(t.uses[name]) > 0 {
		add(t.needOf(name))
	}
	for _, field := range t.fields[name] {
		add(constraint(field.Value))
	}
	return total
}

// needOf adds up the uses of key.
func (t *tracer) needOf(key any) *need {
	if n, ok := t.needs[key]; ok {
		if n == nil {
			return &need{whole: true}
		}
		return n
	}
	t.needs[key] = nil
	total := &need{}
	for _, u := range t.uses[key] {
		used := t.useNeed(u)
		if t.nodes += len(u.path) + used.size(); t.nodes > mostNeeds {
			total = &need{whole: true}
			break
		}
		at := total
		for _, s := range u.path {
			at = at.step(s)
		}
		at.add(used)
	}
	t.needs[key] = total
	return total
}

func (t *tracer) useNeed(u use) *need {
	switch u.does {
	case testPresence:
		return &need{}
	case measure:
		return &need{each: &need{}}
	case nameIt, loopOver:
		total := &need{}
		for _, key := range u.to {
			total.add(t.needOf(key))
		}
		if u.does == loopOver {
			return &need{each: total}
		}
		return total
	case readAll:
	}
	return &need{whole: true, compared: u.compared, only: len(u.compared) > 0, told: u.told}
}
