package trial_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/trial"
)

// TestUpstreamsTable runs the rows of the test of upstream's type checker, which it reads from the
// module cache: problems are where upstream warns, and nowhere else.
func TestUpstreamsTable(t *testing.T) {
	t.Parallel()
	found, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiserver").Output()
	if err != nil {
		t.Skipf("the module k8s.io/apiserver is not found: %v", err)
	}
	file := filepath.Join(strings.TrimSpace(string(found)), "pkg/admission/plugin/policy/validating/typechecking_test.go")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("upstream's table is not there: %v", err)
	}
	rows := upstreamRows(t, file)
	if len(rows) < 15 {
		t.Fatalf("%d rows: some are not found", len(rows))
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row["name"]), func(t *testing.T) {
			t.Parallel()
			compareRow(t, row)
		})
	}
}

// compareRow compares where problems are with what a row asserts.
func compareRow(t *testing.T, row map[string]any) {
	t.Helper()
	row["policy"].(map[string]any)["metadata"] = map[string]any{"name": "p"}
	raw, err := json.Marshal(row["policy"])
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	object["apiVersion"], object["kind"] = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"
	raw, _ = json.Marshal(lowered(object))
	p, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	set := upstreamKinds(t, row["schemaToReturn"])
	try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return set }})
	c := compile.Policy(p)
	var fields []string
	for _, problem := range append(c.Problems, ofTypes(try.Try(t.Context(), c).Problems)...) {
		// Upstream says nothing of fields that are missing, and of variables.
		if strings.HasPrefix(problem.Field, "spec.validations[") && !strings.Contains(problem.What, "must evaluate to") && !slices.Contains(fields, problem.Field) {
			fields = append(fields, problem.Field)
		}
	}
	for _, assertion := range row["assertions"].([]any) {
		call := assertion.(map[string]any)
		var want []string
		for _, arg := range call["args"].([]any) {
			want = append(want, fmt.Sprint(arg))
		}
		switch call["call"] {
		case "toBeEmpty":
			want = nil
		case "toHaveLengthOf":
			if fmt.Sprint(len(fields)) != want[0] {
				t.Errorf("problems in %v, want %s", fields, want[0])
			}
			continue
		case "toHaveFieldRef":
		default:
			continue
		}
		if !slices.Equal(fields, want) {
			t.Errorf("problems in %v, want %v", fields, want)
		}
	}
}

// upstreamKinds are the kinds of upstream's test, which all have one schema.
func upstreamKinds(t *testing.T, like any) *kind.Set {
	t.Helper()
	verbs := []string{"create", "delete", "update"}
	set := kind.New([]kind.Resource{
		{Version: "v1", Kind: "Pod", Name: "pods", Verbs: verbs}, {Group: "apps", Version: "v1", Kind: "Deployment", Name: "deployments", Verbs: verbs},
		{Version: "v1", Kind: "DoesNotMatter", Name: "doesnotmatters", Verbs: verbs}, {Version: "v1", Kind: "Config", Name: "configs", Verbs: verbs},
	}, map[string]json.RawMessage{}, true)
	if like == nil {
		return set
	}
	raw, err := json.Marshal(lowered(like))
	if err != nil {
		t.Fatal(err)
	}
	var of kind.Schema
	if err := json.Unmarshal(raw, &of); err != nil {
		t.Fatal(err)
	}
	for r := range set.Resources() {
		if err := set.Define(r.Of(), &of); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

// lowered writes Go's names of fields as JSON's, and types of schemas as one text.
func lowered(value any) any {
	switch v := value.(type) {
	case map[string]any:
		changed := map[string]any{}
		for name, field := range v {
			if slices.Contains([]string{"RuleWithOperations", "Rule", "SchemaProps"}, name) {
				maps.Copy(changed, lowered(field).(map[string]any))
				continue
			}
			name = strings.ToLower(name[:1]) + name[1:]
			name = strings.NewReplacer("aPI", "api").Replace(name)
			if list, ok := field.([]any); ok && name == "type" && len(list) == 1 {
				field = list[0]
			}
			if name == "additionalProperties" {
				field = true
			}
			changed[name] = lowered(field)
		}
		return changed
	case []any:
		changed := make([]any, len(v))
		for i := range v {
			changed[i] = lowered(v[i])
		}
		return changed
	}
	return value
}

// upstreamRows evaluates the literals of the table.
func upstreamRows(t *testing.T, file string) []map[string]any {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := literals{}
	var rows []map[string]any
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "TestTypeCheck" {
			continue
		}
		for _, statement := range f.Body.List {
			switch s := statement.(type) {
			case *ast.AssignStmt:
				e.assign(s.Lhs[0], e.value(s.Rhs[0]))
			case *ast.RangeStmt:
				for _, row := range e.value(s.X).([]any) {
					rows = append(rows, row.(map[string]any))
				}
			}
		}
	}
	return rows
}

// literals are the values of variables.
type literals map[string]any

func (l literals) assign(to ast.Expr, value any) {
	switch to := to.(type) {
	case *ast.Ident:
		l[to.Name] = value
	case *ast.SelectorExpr:
		l.value(to.X).(map[string]any)[to.Sel.Name] = value
	}
}

func (l literals) value(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return l.value(e.X)
	case *ast.StarExpr:
		return l.value(e.X)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
		return json.Number(e.Value)
	case *ast.Ident:
		if e.Name == "true" {
			return true
		}
		if _, known := l[e.Name]; !known && strings.HasPrefix(e.Name, "to") {
			return map[string]any{"call": e.Name, "args": []any{}}
		}
		return l[e.Name]
	case *ast.SelectorExpr:
		if above, ok := l.value(e.X).(map[string]any); ok {
			return above[e.Sel.Name]
		}
	case *ast.IndexExpr:
		i, _ := strconv.Atoi(e.Index.(*ast.BasicLit).Value)
		return l.value(e.X).([]any)[i]
	case *ast.CallExpr:
		return l.call(e)
	case *ast.CompositeLit:
		return l.composite(e)
	}
	return nil
}

func (l literals) call(e *ast.CallExpr) any {
	switch f := e.Fun.(type) {
	case *ast.SelectorExpr:
		switch f.Sel.Name {
		case "StringProperty":
			return map[string]any{"Type": []any{"string"}}
		case "Int64Property":
			return map[string]any{"Type": []any{"integer"}, "Format": "int64"}
		case "DeepCopy":
			var copied any
			raw, err := json.Marshal(l.value(f.X))
			if err == nil && json.Unmarshal(raw, &copied) == nil {
				return copied
			}
		}
	case *ast.Ident:
		args := []any{}
		for _, arg := range e.Args {
			args = append(args, l.value(arg))
		}
		return map[string]any{"call": f.Name, "args": args}
	}
	return nil
}

func (l literals) composite(e *ast.CompositeLit) any {
	if _, isList := e.Type.(*ast.ArrayType); isList || len(e.Elts) > 0 && !isKeyed(e.Elts[0]) {
		list := []any{}
		for _, element := range e.Elts {
			list = append(list, l.value(element))
		}
		return list
	}
	object := map[string]any{}
	for _, element := range e.Elts {
		pair := element.(*ast.KeyValueExpr)
		name := ""
		switch key := pair.Key.(type) {
		case *ast.Ident:
			name = key.Name
		case *ast.BasicLit:
			name, _ = strconv.Unquote(key.Value)
		}
		object[name] = l.value(pair.Value)
	}
	return object
}

func isKeyed(e ast.Expr) bool {
	_, ok := e.(*ast.KeyValueExpr)
	return ok
}
