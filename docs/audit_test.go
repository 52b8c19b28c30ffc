package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestAuditHasAllReasons compares the reasons why a rule is not judged with the table of them.
func TestAuditHasAllReasons(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("audit.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/audit/judge/approach.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	reasons := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "needs") && !strings.HasPrefix(spec.Names[0].Name, "only") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		reasons++
		if !strings.Contains(string(text), "\n| "+strings.TrimSuffix(reason, ": ")) {
			t.Errorf("docs/audit.md has no row for %q", reason)
		}
		return true
	})
	if rows := strings.Count(string(text), "\n| it ") + strings.Count(string(text), "\n| pods are "); rows != reasons {
		t.Errorf("docs/audit.md has %d rows of reasons, want %d", rows, reasons)
	}
}
