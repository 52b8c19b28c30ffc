package cue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// outputs reports fields of the result that are never read, and values that cannot be read. Its
// findings do not depend on any input.
func (a *advisor) outputs() {
	if a.form != Override && a.form != Validate {
		return
	}
	a.outputName()
	a.parameters()
	for _, field := range a.fields[a.form.output()] {
		switch a.form {
		case Override, RenderedOverride:
			a.patches(field.Value, 0)
		case Validate, RenderedValidate:
			a.verdict(a.literals(field.Value, 0))
		}
	}
}

// outputName reports a result that is missing, or has another name.
func (a *advisor) outputName() {
	output := a.form.output()
	if mayDefine(a.file.Decls, output) {
		return
	}
	do := "define " + output
	if near := nearest(output, slices.Collect(maps.Keys(a.fields))); near != "" {
		do = fmt.Sprintf("did you mean %s for %s?", output, near)
	}
	a.problem(rule.Mistake, token.NoPos, output+" is not defined, so the rule fails whenever it runs", do)
}

// nearest returns the name that word probably means, except names with a meaning in the language.
func nearest(word string, names []string) string {
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains([]string{"object", "oldObject", "data", processing}, name)
	})
	return rule.Nearest(word, names)
}

// parameters reports parameters that the source declares but never gets.
func (a *advisor) parameters() {
	given := a.form.params()
	for _, name := range slices.Sorted(maps.Keys(a.fields)) {
		declared := a.fields[name]
		if len(declared) != 1 || slices.Contains(given, name) || !open(declared[0].Value) {
			continue
		}
		switch {
		case a.read(name):
			a.problem(rule.Mistake, declared[0].Pos(), fmt.Sprintf("nothing gives %s a value, so what reads it fails", name), a.given(name))
		case a.tagged[name] && (name != "oldObject" || a.form != Override):
			a.problem(rule.Warning, declared[0].Pos(), fmt.Sprintf("nothing gives %s a value", name), "remove it: "+a.given(name))
		}
	}
}

// given lists the parameters.
func (a *advisor) given(name string) string {
	given := a.form.params()
	if suggestion := rule.Suggestion(name, given); suggestion != "" && name != "oldObject" {
		return suggestion
	}
	return fmt.Sprintf("rules of this kind are given %s", strings.Join(given, " and "))
}

// open reports whether a value is a type that nothing narrows down.
func open(value ast.Expr) bool {
	id, ok := value.(*ast.Ident)
	return ok && id.Node == nil && slices.Contains(syntax.ScalarTypes(), id.Name) && id.Name != "null"
}

// read reports whether a top-level name is used other than in a test of its presence.
func (a *advisor) read(name string) bool {
	found := false
	var parents []ast.Node
	ast.Walk(a.file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && id.Name == name && id.Node != nil {
			if _, inFile := id.Scope.(*ast.File); inFile && !labels(parents, id) {
				b, tests := parents[len(parents)-1].(*ast.BinaryExpr)
				found = found || !tests || !syntax.ComparesWithBottom(b)
			}
		}
		parents = append(parents, n)
		return true
	}, func(ast.Node) { parents = parents[:len(parents)-1] })
	return found
}

func labels(parents []ast.Node, id *ast.Ident) bool {
	if len(parents) == 0 {
		return true
	}
	switch p := parents[len(parents)-1].(type) {
	case *ast.Field:
		return p.Label == id
	case *ast.SelectorExpr:
		return p.Sel == id
	}
	return false
}

// verdict checks the literals that validate is made of.
func (a *advisor) verdict(structs []*ast.StructLit) {
	known := []string{"valid", "reason", "warnings"}
	a.reason(structs)
	for _, s := range structs {
		for _, f := range a.membersOf(s, 0) {
			switch f.name {
			case "valid":
				a.mustBe(f, kindBool, "write true or false, without quotes")
			case "reason":
				a.mustBe(f, kindString, "write text")
			case "warnings":
				a.mustBe(f, kindList, "write a list of texts")
			default:
				a.unread("validate", f, known, map[string]string{
					"message": "reason", "msg": "reason", "error": "reason", "allowed": "valid", "allow": "valid", "ok": "valid", "warning": "warnings",
				})
			}
		}
	}
}

// reason warns of denials without a message.
func (a *advisor) reason(structs []*ast.StructLit) {
	var refuses token.Pos
	for _, s := range structs {
		for _, f := range a.membersOf(s, 0) {
			switch f.name {
			case "valid":
				if lit, ok := f.value.(*ast.BasicLit); !ok || lit.Kind == token.FALSE {
					refuses = f.at
				}
			default:
				if rule.Nearest(f.name, []string{"reason", "message"}) != "" {
					return
				}
			}
		}
	}
	if refuses.IsValid() {
		a.problem(rule.Warning, refuses, "who is refused is not told why", "define reason")
	}
}

// patches checks the literals that patches is made of.
func (a *advisor) patches(e ast.Expr, depth int) {
	if depth > mostLiterals {
		return
	}
	switch x := e.(type) {
	case *ast.ParenExpr:
		a.patches(x.X, depth+1)
	case *ast.Ident:
		if target, ok := valueOf(x); ok {
			a.patches(target, depth+1)
		}
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			a.patches(x.X, depth+1)
			a.patches(x.Y, depth+1)
		}
	case *ast.CallExpr:
		if fun, ok := x.Fun.(*ast.SelectorExpr); ok && len(x.Args) > 0 {
			if name, _ := syntax.StaticLabel(fun.Sel); name == "Concat" || name == "FlattenN" {
				a.patches(x.Args[0], depth+1)
			}
		}
	case *ast.ListLit:
		for _, element := range x.Elts {
			a.patches(element, depth+1)
		}
	case *ast.Comprehension:
		if body, ok := x.Value.(*ast.StructLit); ok {
			a.patches(body, depth+1)
		}
	case *ast.StructLit:
		if embedded := onlyEmbedded(x); embedded != nil {
			a.patches(embedded, depth+1)
			return
		}
		a.operationOf(x)
	}
}

// onlyEmbedded returns the value that braces are put around.
func onlyEmbedded(s *ast.StructLit) ast.Expr {
	if len(s.Elts) != 1 {
		return nil
	}
	if embedded, ok := s.Elts[0].(*ast.EmbedDecl); ok {
		return embedded.Expr
	}
	return nil
}

// operations are those of JSON patch.
func operations() []string { return []string{"add", "copy", "move", "remove", "replace", "test"} }

// operationOf checks one operation of a patch.
func (a *advisor) operationOf(s *ast.StructLit) {
	for _, f := range a.membersOf(s, 0) {
		switch f.name {
		case "op":
			a.mustBe(f, kindString, "write "+strings.Join(operations(), ", "))
			if text, ok := textOf(f.value); ok && !slices.Contains(operations(), text) {
				do := cmp.Or(rule.Suggestion(text, operations()), "use "+strings.Join(operations(), ", "))
				a.problem(rule.Mistake, f.value.Pos(), fmt.Sprintf("%q is no operation of JSON patch, so the rule fails", text), do)
			}
		case "path", "from":
			a.mustBe(f, kindString, "write a path such as /metadata/labels")
			if text, ok := textOf(f.value); ok && !strings.HasPrefix(text, "/") {
				a.problem(rule.Warning, f.value.Pos(), fmt.Sprintf("the path %q does not begin with a slash and leads nowhere", text),
					fmt.Sprintf("write %q", "/"+strings.ReplaceAll(text, ".", "/")))
			}
		case "value":
		default:
			a.unread("an operation of patches", f, []string{"op", "path", "value", "from"}, map[string]string{"operation": "op", "key": "path"})
		}
	}
}

// unread reports a field that is never read. A name close to that of a known field is an error.
func (a *advisor) unread(of string, f memberField, known []string, synonyms map[string]string) {
	near := rule.Nearest(f.name, known)
	if strings.EqualFold(near, f.name) {
		a.problem(rule.Warning, f.at, fmt.Sprintf("%s is written %q", near, f.name), "write "+near)
		return
	}
	if near == "" {
		near = synonyms[strings.ToLower(f.name)]
	}
	what := fmt.Sprintf("unknown field %q: %s has the fields %s", f.name, of, strings.Join(known, ", "))
	if near != "" {
		a.problem(rule.Mistake, f.at, what, "did you mean "+near+"?")
		return
	}
	a.problem(rule.Warning, f.at, what, "remove it, or make it a hidden field: _"+f.name)
}

// mustBe reports a value that never has the kind that is read.
func (a *advisor) mustBe(f memberField, want kinds, do string) {
	is := a.kindsOf(f.value)
	if is != 0 && is&want == 0 {
		a.problem(rule.Mistake, f.at, fmt.Sprintf("%s has to be %s, and is %s, so the rule fails", f.name, want, is), do)
	}
}

// A memberField is a field of a literal.
type memberField struct {
	name  string
	value ast.Expr
	at    token.Pos
}

// mostLiterals is how deep literals are followed.
const mostLiterals = 30

// membersOf returns the plain fields of a struct literal, including those under conditions and in
// embedded structs.
func (i *inspector) membersOf(s *ast.StructLit, depth int) []memberField {
	var fields []memberField
	if i.looks--; depth > mostLiterals || i.looks < 0 {
		return nil
	}
	for _, decl := range s.Elts {
		switch d := decl.(type) {
		case *ast.Field:
			name, ok := syntax.StaticLabel(d.Label)
			if ok && d.Value != nil && !strings.HasPrefix(name, "_") && !strings.HasPrefix(name, "#") && d.Constraint == token.ILLEGAL {
				fields = append(fields, memberField{name, d.Value, d.Pos()})
			}
		case *ast.Comprehension:
			if body, ok := d.Value.(*ast.StructLit); ok {
				fields = append(fields, i.membersOf(body, depth+1)...)
			}
		case *ast.EmbedDecl:
			for _, embedded := range i.literals(d.Expr, depth+1) {
				fields = append(fields, i.membersOf(embedded, depth+1)...)
			}
		}
	}
	return fields
}

// literals returns the struct literals that a value may be made of, as far as they can be seen.
func (i *inspector) literals(e ast.Expr, depth int) []*ast.StructLit {
	if i.looks--; depth > mostLiterals || i.looks < 0 {
		return nil
	}
	switch x := e.(type) {
	case *ast.ParenExpr:
		return i.literals(x.X, depth+1)
	case *ast.StructLit:
		return []*ast.StructLit{x}
	case *ast.UnaryExpr:
		return i.literals(x.X, depth+1)
	case *ast.BinaryExpr:
		if x.Op == token.AND || x.Op == token.OR {
			return append(i.literals(x.X, depth+1), i.literals(x.Y, depth+1)...)
		}
	case *ast.Ident:
		if target, ok := valueOf(x); ok {
			return i.literals(target, depth+1)
		}
	case *ast.IndexExpr:
		list, ok := x.X.(*ast.ListLit)
		if !ok {
			return nil
		}
		var all []*ast.StructLit
		for _, element := range list.Elts {
			if c, ok := element.(*ast.Comprehension); ok {
				element = c.Value
			}
			all = append(all, i.literals(element, depth+1)...)
		}
		return all
	}
	return nil
}

// valueOf returns the value that a name refers to.
func valueOf(id *ast.Ident) (ast.Expr, bool) {
	switch node := id.Node.(type) {
	case *ast.LetClause:
		return node.Expr, true
	case ast.Expr:
		return node, node != ast.Expr(id)
	}
	return nil, false
}

// textOf returns the text that an expression is, if it is written out.
func textOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := literal.Unquote(lit.Value)
	return text, err == nil
}
