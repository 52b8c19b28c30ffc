package cue

import (
	"fmt"
	"regexp"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

const (
	// language is the version of CUE that sources are written in.
	language = "v0.4.3"
	// longestSource and deepestSource keep the evaluator's recursion within bounds.
	longestSource = 256 << 10
	deepestSource = 2000
)

var tryWord = regexp.MustCompile(`(^|[^"\w])try([^"\w]|$)`)

// parse returns the syntax of a source, or nil and problems.
func (c *compilation) parse(source string) *ast.File {
	if len(source) > longestSource {
		c.tooLong(source)
		return nil
	}
	file, err := parseFile(source)
	if err != nil {
		c.cueErrors(err)
		if tryWord.MatchString(source) {
			c.fail("try is not a name any more", "choose another name, or write \"try\" where it is a label")
		}
		return nil
	}
	if depth(file) > deepestSource {
		c.fail(fmt.Sprintf("it nests more than %d levels deep", deepestSource), "nest it less")
		return nil
	}
	c.tagged = tagged(file)
	removeAttributes(file)
	return file
}

func (c *compilation) tooLong(source string) {
	c.fail(fmt.Sprintf("it is %d bytes long, more than %d", len(source), longestSource), "make it shorter")
}

// parseFile parses a source of the old language. The parser no longer has infix div, mod, quo and
// rem: they are replaced by *, which has the same precedence, and the operation is then turned into
// a call.
func parseFile(source string) (*ast.File, error) {
	infix := map[int]string{}
	text := []byte(source)
	for {
		file, err := parser.ParseFile("", text, parser.Version(language), parser.AllErrors)
		if err == nil {
			callInfix(file, infix)
			return file, nil
		}
		at, word := wordAt(source, text, err)
		if word == "" || len(infix) == 1000 {
			return nil, err
		}
		infix[at] = word
		copy(text[at:], "*  ")
	}
}

// wordAt returns the word operator at the first position of err.
func wordAt(source string, text []byte, err error) (int, string) {
	for _, e := range errors.Errors(err) {
		pos := e.Position()
		if !pos.IsValid() {
			continue
		}
		at := pos.Offset()
		for _, word := range []string{"div", "mod", "quo", "rem"} {
			if at >= 0 && at <= len(source)-len(word) && source[at:at+len(word)] == word && text[at] == word[0] {
				return at, word
			}
		}
		return 0, ""
	}
	return 0, ""
}

// callInfix turns the products at these offsets into calls of the builtins.
func callInfix(file *ast.File, infix map[int]string) {
	if len(infix) == 0 {
		return
	}
	astutil.Apply(file, nil, func(cursor astutil.Cursor) bool {
		b, ok := cursor.Node().(*ast.BinaryExpr)
		if !ok || b.Op != token.MUL {
			return true
		}
		if word, ok := infix[b.OpPos.Offset()]; ok {
			fun := &ast.Ident{NamePos: b.OpPos, Name: "__" + word}
			cursor.Replace(&ast.CallExpr{Fun: fun, Args: []ast.Expr{b.X, b.Y}})
		}
		return true
	})
	resolve(file)
}

// resolve binds the identifiers of a changed file again.
func resolve(file *ast.File) {
	ast.Walk(file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || id.Node == nil {
			return true
		}
		if spec, ok := id.Node.(*ast.ImportSpec); ok && !spec.Pos().IsValid() {
			return true
		}
		id.Node, id.Scope = nil, nil
		return true
	}, nil)
	file.Unresolved = nil
	astutil.Resolve(file, func(token.Pos, string, ...any) {})
}

// depth returns how deep a file nests.
func depth(file *ast.File) int {
	at, deepest := 0, 0
	ast.Walk(file, func(ast.Node) bool {
		at++
		deepest = max(deepest, at)
		return true
	}, func(ast.Node) { at-- })
	return deepest
}
