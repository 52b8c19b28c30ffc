//go:build !race

// What reads the whole source is the same with the race detector, and takes minutes.

package usher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 60
	// maxComplexity is that of a function: one more than its if, for, case, && and ||.
	maxComplexity = 20
	maxMethods    = 25
	maxFields     = 20
	// maxChain is how many packages of this module import one another in a row, without those below
	// cmd and examples, and maxCommandChain with them. It is what happens to a policy: the tree of its object, the contract,
	// facts, rules, a language, its dialect, the fields of a kind, the kind, all kinds, what judges policies, and
	// what keeps them current; serve and the commands are on top. Each needs the one before.
	maxChain        = 11
	maxCommandChain = 14
)

// exceptions are what may exceed its budget, and how far. There are five at most.
var exceptions = map[string]struct {
	most   int
	reason string
}{
	"lines of internal/jsontree/skip.go skipper.value":       {71, "one switch, which is harder to read in pieces"},
	"complexity of internal/jsontree/skip.go skipper.value":  {22, "one switch, which is harder to read in pieces"},
	"complexity of internal/audit/stream/scan.go lexer.scan": {22, "one step for each byte of a stream, without calls"},
}

// TestBudgets checks the limits of CONTRIBUTING.md, in all modules. Tests and generated code have
// none.
func TestBudgets(t *testing.T) {
	t.Parallel()
	const mostExceptions = 5
	if len(exceptions) > mostExceptions {
		t.Errorf("%d exceptions, more than %d", len(exceptions), mostExceptions)
	}
	found, most := measure(sources(t))
	for _, what := range slices.Sorted(maps.Keys(found)) {
		exception, excepted := exceptions[what]
		switch number, limit := found[what], most[what]; {
		case number <= limit && excepted:
			t.Errorf("%s: %d, within the limit of %d: remove the exception", what, number, limit)
		case number > max(limit, exception.most):
			t.Errorf("%s: %d, more than %d", what, number, max(limit, exception.most))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(exceptions)) {
		if _, ok := found[what]; !ok {
			t.Errorf("there is an exception for %s, which is not there", what)
		}
	}
}

// measure returns what has a budget, by what it is, and the budgets.
func measure(sources *code) (found, most map[string]int) {
	found, most = map[string]int{}, map[string]int{}
	add := func(kind, what string, number, limit int) {
		found[kind+" of "+what] += number
		most[kind+" of "+what] = limit
	}
	for name, file := range sources.files {
		if ast.IsGenerated(file) {
			continue
		}
		add("lines", name, sources.set.File(file.Pos()).LineCount(), maxFileLines)
		folder := path.Dir(name)
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				lines := sources.set.Position(d.End()).Line - sources.set.Position(d.Pos()).Line + 1
				what := name + " " + d.Name.Name
				if d.Recv != nil {
					receiver := receiverOf(d)
					what = name + " " + receiver + "." + d.Name.Name
					add("methods", folder+"."+receiver, 1, maxMethods)
				}
				add("lines", what, lines, maxFunctionLines)
				add("complexity", what, complexity(d), maxComplexity)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						if structure, ok := s.Type.(*ast.StructType); ok {
							add("fields", folder+"."+s.Name.Name, structure.Fields.NumFields(), maxFields)
						}
					}
				}
			}
		}
	}
	add("chain", "packages", chain(sources.imports, false), maxChain)
	add("chain", "packages and commands", chain(sources.imports, true), maxCommandChain)
	return found, most
}

// TestBudgetsAreMeasured checks that the test above can fail.
func TestBudgetsAreMeasured(t *testing.T) {
	t.Parallel()
	const text = `package p
type T[V any] struct { a, b int; sub.T }
func (t *T[V]) M(c chan int) {
	for range c {
		if t.a > 0 && t.b > 0 || t == nil {
			switch { case t.a > 1, t.b > 1: default: }
		}
	}
	select { case <-c: default: }
}
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "x/p.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := measure(&code{set: set, files: map[string]*ast.File{"x/p.go": file}, imports: map[string][]string{
		"cmd/c": {module + "/a", "fmt"}, "a": {module + "/b", module}, "b": {module}, ".": nil,
	}})
	want := map[string]int{
		"lines of x/p.go": 10, "lines of x/p.go T.M": 8, "complexity of x/p.go T.M": 7, "methods of x.T": 1, "fields of x.T": 3,
		"chain of packages": 3, "chain of packages and commands": 4,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// receiverOf is the type of a method.
func receiverOf(method *ast.FuncDecl) string {
	name := ""
	ast.Inspect(method.Recv.List[0].Type, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && name == "" {
			name = ident.Name
		}
		return name == ""
	})
	return name
}

// complexity is the cyclomatic complexity of a function, with those in it.
func complexity(function *ast.FuncDecl) int {
	number := 1
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			number++
		case *ast.CaseClause:
			if n.List != nil {
				number++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				number++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				number++
			}
		}
		return true
	})
	return number
}

// chain is the number of packages in the longest chain of imports.
func chain(imports map[string][]string, commands bool) int {
	lengths := map[string]int{}
	var length func(string) int
	length = func(folder string) int {
		if _, ok := lengths[folder]; !ok {
			longest := 0
			for _, imported := range imports[folder] {
				if ours, ok := within(imported); ok {
					longest = max(longest, length(ours))
				}
			}
			lengths[folder] = longest + 1
		}
		return lengths[folder]
	}
	longest := 0
	for folder := range imports {
		if commands || !below(folder, "cmd") && !below(folder, "examples") {
			longest = max(longest, length(folder))
		}
	}
	return longest
}

// TestNoFoldersAreTangled fails on import cycles between folders of the first level, with
// everything below them, and between the folders below cmd and internal.
func TestNoFoldersAreTangled(t *testing.T) {
	t.Parallel()
	needs := map[string]map[string]bool{}
	for folder, imports := range sources(t).imports {
		from := topFolder(folder)
		if needs[from] == nil {
			needs[from] = map[string]bool{}
		}
		for _, imported := range imports {
			if ours, ok := within(imported); ok && topFolder(ours) != from {
				needs[from][topFolder(ours)] = true
			}
		}
	}
	if tangled := tangles(needs); len(tangled) > 0 {
		t.Errorf("these folders need one another: %v", tangled)
	}
}

// TestTanglesAreFound checks that the test above can fail.
func TestTanglesAreFound(t *testing.T) {
	t.Parallel()
	got := tangles(map[string]map[string]bool{"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true}, "d": {}})
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// topFolder is the folder that a package counts for.
func topFolder(folder string) string {
	first, rest, deeper := strings.Cut(folder, "/")
	if deeper && (first == "cmd" || first == "internal") {
		second, _, _ := strings.Cut(rest, "/")
		return first + "/" + second
	}
	return first
}

// tangles returns the folders that need themselves through others, sorted.
func tangles(needs map[string]map[string]bool) []string {
	var tangled []string
	for _, start := range slices.Sorted(maps.Keys(needs)) {
		seen, next := map[string]bool{}, slices.Collect(maps.Keys(needs[start]))
		for len(next) > 0 && !seen[start] {
			folder := next[0]
			next = next[1:]
			if !seen[folder] {
				seen[folder] = true
				next = slices.AppendSeq(next, maps.Keys(needs[folder]))
			}
		}
		if seen[start] {
			tangled = append(tangled, start)
		}
	}
	return tangled
}
