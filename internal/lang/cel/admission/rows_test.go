package admission_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The tables of upstream's tests are read from the module cache. Nothing of them is copied.

// A record is a struct of a table, by field; a member that is no constant is a name or a call.
type record map[string]any

// A name is an identifier or a selector.
type name string

// A called is a call of a function.
type called struct {
	function string
	args     []any
}

func (r record) text(field string) string { text, _ := r[field].(string); return text }

func (r record) list(field string) []any { list, _ := r[field].([]any); return list }

func (r record) flag(field string) bool { return r[field] == name("true") }

// A table is the rows of one test function.
type table struct {
	file, function string
	rows           []record
}

// tableOf reads the table of a test function.
func tableOf(t *testing.T, dir, file, function string) table {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, filepath.FromSlash(file)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	r := reader{constants: map[string]ast.Expr{}}
	var body *ast.BlockStmt
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.GenDecl:
			r.declare(d)
		case *ast.FuncDecl:
			if d.Name.Name == function {
				body = d.Body
			}
		}
	}
	if body == nil {
		t.Fatalf("%s has no %s", file, function)
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && len(assign.Lhs) == 1 && len(assign.Rhs) == 1 {
			// What is appended to a table is made by code.
			if id, ok := assign.Lhs[0].(*ast.Ident); ok && r.constants[id.Name] == nil {
				r.constants[id.Name] = assign.Rhs[0]
			}
		}
		return true
	})
	found := table{file: file, function: function}
	for _, variable := range []string{"cases", "testCases"} {
		if cases, ok := r.constants[variable].(*ast.CompositeLit); ok {
			for _, row := range r.value(cases).([]any) {
				found.rows = append(found.rows, row.(record))
			}
		}
	}
	if len(found.rows) == 0 {
		t.Fatalf("%s has no table in %s", file, function)
	}
	return found
}

// A reader makes values of expressions of Go.
type reader struct{ constants map[string]ast.Expr }

func (r *reader) declare(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, id := range values.Names {
			if i < len(values.Values) {
				r.constants[id.Name] = values.Values[i]
			}
		}
	}
}

func (r *reader) value(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.BasicLit:
		return literalOf(e)
	case *ast.ParenExpr:
		return r.value(e.X)
	case *ast.UnaryExpr:
		if number, ok := r.value(e.X).(int64); ok && e.Op == token.SUB {
			return -number
		}
		return r.value(e.X)
	case *ast.BinaryExpr:
		left, right := r.value(e.X), r.value(e.Y)
		if a, ok := left.(string); ok {
			if b, ok := right.(string); ok {
				return a + b
			}
		}
		if a, ok := left.(int64); ok && e.Op == token.ADD {
			if b, ok := right.(int64); ok {
				return a + b
			}
		}
		return called{"operator " + e.Op.String(), []any{left, right}}
	case *ast.Ident:
		if constant, ok := r.constants[e.Name]; ok {
			return r.value(constant)
		}
		return name(e.Name)
	case *ast.SelectorExpr:
		return name(nameOf(e))
	case *ast.CallExpr:
		c := called{function: nameOf(e.Fun)}
		for _, arg := range e.Args {
			c.args = append(c.args, r.value(arg))
		}
		if c.function == "int64" {
			return c.args[0]
		}
		return c
	case *ast.CompositeLit:
		return r.composite(e)
	}
	return name("?")
}

func literalOf(e *ast.BasicLit) any {
	if e.Kind == token.STRING {
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return name("?")
		}
		return text
	}
	if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
		return n
	}
	return name(e.Value)
}

func (r *reader) composite(e *ast.CompositeLit) any {
	if _, isArray := e.Type.(*ast.ArrayType); isArray {
		list := make([]any, len(e.Elts))
		for i, element := range e.Elts {
			list[i] = r.value(element)
		}
		return list
	}
	made := record{}
	for _, element := range e.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := pair.Key.(*ast.Ident); ok {
			made[key.Name] = r.value(pair.Value)
		} else if key, ok := r.value(pair.Key).(string); ok {
			made[key] = r.value(pair.Value)
		}
	}
	return made
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return strings.TrimPrefix(nameOf(e.X)+"."+e.Sel.Name, ".")
	}
	return ""
}
