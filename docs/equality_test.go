package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno"
	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
	"github.com/usher-dev/usher/internal/policytest"
)

// A suite is something that Usher is compared with, row by row.
type suite struct {
	// with is what is compared, and run the test that does it.
	with, run string
	rows      int
	differ    []difference
	note      string
}

// A difference is why so many rows are decided otherwise.
type difference struct {
	rows int
	why  string
}

// TestEquality writes docs/equality.md from the data of the tests that compare Usher with something else; without
// -update it fails if the page is not that one.
func TestEquality(t *testing.T) {
	t.Parallel()
	suites := []suite{
		conformance(t), situations(t), fixtures(t), podRequests(t), specification(t), tables(t),
		authorizers(t, "the decisions of RBAC and of chains of authorizers, request lines, selectors, recorded of k8s.io/kubernetes and k8s.io/apiserver", "internal/simulate/authz", "chain", "rbac", "requestinfo", "selectors"),
		authorizers(t, "what a kube-apiserver makes of responses, recorded of its own client", "door/authorization", "apiserver-client"),
		recorded(t), converted(t), gatekeeperSuites(t),
	}
	var page strings.Builder
	page.WriteString("# Equality\n\n<!-- Written by make equality. Do not edit. -->\n\n" + `What Usher is compared with, row by row. Each row is one comparison that a test makes; all have to be equal, except those that differ on purpose, which fail as soon as they are equal.
The numbers are counted in the data of these tests. [compatibility.md](compatibility.md) says more about the differences, and [conformance.md](conformance.md) about the specs of Kubernetes.

| with | rows | differ | the test |
|---|---|---|---|
`)
	for _, s := range suites {
		fmt.Fprintf(&page, "| %s | %d | %d | `%s` |\n", s.with, s.rows, s.differing(), s.run)
		if s.rows < 5 || s.differing() > s.rows/4 {
			t.Errorf("%s: %d of %d rows differ", s.run, s.differing(), s.rows)
		}
	}
	page.WriteString("\n## What differs, and why\n")
	for _, s := range suites {
		if len(s.differ) == 0 && s.note == "" {
			continue
		}
		fmt.Fprintf(&page, "\n### `%s`\n\n", s.run)
		if s.note != "" {
			page.WriteString(s.note + "\n")
		}
		if len(s.differ) == 0 {
			continue
		}
		if s.note != "" {
			page.WriteString("\n")
		}
		page.WriteString("| rows | why |\n|---|---|\n")
		for _, d := range s.differ {
			fmt.Fprintf(&page, "| %d | %s |\n", d.rows, strings.ReplaceAll(d.why, "|", "\\|"))
			if d.rows == 0 || d.why == "" {
				t.Errorf("%s: %+v is no difference", s.run, d)
			}
		}
	}
	if *update {
		if err := os.WriteFile("equality.md", []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile("equality.md"); err != nil || string(written) != page.String() {
		t.Errorf("docs/equality.md is not up to date: run make equality (%v)", err)
	}
}

func (s *suite) differing() int {
	all := 0
	for _, d := range s.differ {
		all += d.rows
	}
	return all
}

// because counts rows by reason.
func because(reasons map[string]int) []difference {
	var all []difference
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		all = append(all, difference{reasons[why], why})
	}
	return all
}

// declared returns the value of a variable or constant of a file, and its texts, by name.
func declared(t *testing.T, file, name string) ast.Expr {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var value ast.Expr
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == name {
			value = spec.Values[0]
		}
		return true
	})
	if value == nil {
		t.Fatalf("%s declares no %s", file, name)
	}
	return value
}

func number(t *testing.T, file, name string) int {
	t.Helper()
	literal, ok := declared(t, file, name).(*ast.BasicLit)
	if !ok {
		t.Fatalf("%s: %s is no number", file, name)
	}
	n, err := strconv.Atoi(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reasons counts the values of a table of a file, which are texts or constants of it.
func reasons(t *testing.T, file, name string) (map[string]int, int) {
	t.Helper()
	table, ok := declared(t, file, name).(*ast.CompositeLit)
	if !ok {
		t.Fatalf("%s: %s is no table", file, name)
	}
	counts := map[string]int{}
	for _, row := range table.Elts {
		value := row.(*ast.KeyValueExpr).Value
		if named, ok := value.(*ast.Ident); ok && named.Name != "true" && named.Name != "false" {
			value = declared(t, file, named.Name)
		}
		if literal, ok := value.(*ast.BasicLit); ok {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			counts[text]++
		}
	}
	return counts, len(table.Elts)
}

// documents reads the YAML documents of files.
func documents[T any](t *testing.T, pattern string) (all []T, names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var d T
			if decoder.Decode(&d) != nil {
				break
			}
			all, names = append(all, d), append(names, filepath.Base(file))
		}
	}
	return all, names
}

func conformance(t *testing.T) suite {
	t.Helper()
	_, specs := reasons(t, "conformance/internal/verdict/verdict.go", "aboutAnswers")
	return suite{with: "Kubernetes' end-to-end specs of admission and conversion webhooks", run: "make conformance", rows: specs}
}

func situations(t *testing.T) suite {
	t.Helper()
	all, _ := documents[struct {
		Reason  string            `yaml:"reason"`
		Differs map[string]string `yaml:"differs"`
	}](t, "sandbox/situations/testdata/*.yaml")
	s := suite{
		with: "a kube-apiserver with its own admission policies, and API servers that leave the same policies to Usher: everything that a client and the audit log see",
		run:  "sandbox/situations: TestSituations", note: "Each situation is compared behind the webhook and behind the plugin, and is counted once for each.",
	}
	counts := map[string]int{}
	for _, situation := range all {
		if situation.Reason == "" {
			t.Errorf("a situation has no reason: %+v", situation)
		}
		s.rows += 2
		for _, why := range situation.Differs {
			if why == "the same" {
				why = situation.Differs["webhook"]
			}
			counts[why]++
		}
	}
	s.differ = because(counts)
	return s
}

func fixtures(t *testing.T) suite {
	t.Helper()
	return suite{
		with: "the pods with which Kubernetes tests the Pod Security Standards, by level and version", run: "sandbox/podsecurity: TestFixtures",
		rows: number(t, "sandbox/podsecurity/fixtures_test.go", "fixtures"),
	}
}

func podRequests(t *testing.T) suite {
	t.Helper()
	counts, _ := reasons(t, "sandbox/podsecurity/admission_test.go", "workloads")
	return suite{
		with: "the tests of the admission plugin PodSecurity, with policies in its place: the rows of its own tests", run: "sandbox/podsecurity: TestAdmissionOfUpstream",
		rows: number(t, "sandbox/podsecurity/admission_test.go", "rowsOfUpstream"), differ: because(counts),
		note: "The rest of what the plugin and the checks do is compared on generated pods and requests, which have no number: `make pod-security`.",
	}
}

func specification(t *testing.T) suite {
	t.Helper()
	const file = "internal/lang/cel/admission/spec_test.go"
	counts, _ := reasons(t, file, "specified")
	return suite{
		with: "the tests of the specification of CEL that expressions of Kubernetes can express", run: "internal/lang/cel/admission: TestSpecification",
		rows: number(t, file, "least"), differ: because(counts),
		note: "Usher answers every row as the evaluator of Kubernetes does. The rows that differ are those where that evaluator differs from the specification.",
	}
}

func tables(t *testing.T) suite {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../internal/lang/cel/admission/upstream_test.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := suite{with: "the tables of upstream's own tests of libraries, costs and policies in k8s.io/apiserver", run: "internal/lang/cel/admission: TestTablesOfUpstream"}
	ast.Inspect(parsed, func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok || row.Type != nil || len(row.Elts) != 4 {
			return true
		}
		if literal, ok := row.Elts[3].(*ast.BasicLit); ok && literal.Kind == token.INT {
			ran, err := strconv.Atoi(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			s.rows += ran
		}
		return true
	})
	return s
}

func authorizers(t *testing.T, with, folder string, files ...string) suite {
	t.Helper()
	s := suite{with: with, run: folder + ": TestCases"}
	for _, file := range files {
		all, _ := documents[[]map[string]any](t, folder+"/testdata/cases/"+file+".yaml")
		for _, rows := range all {
			for _, row := range rows {
				cases, ok := row["cases"].([]any)
				if !ok {
					s.rows++
				}
				s.rows += len(cases)
			}
		}
	}
	return s
}

func recorded(t *testing.T) suite {
	t.Helper()
	cases, err := policytest.Load(filepath.Join(root, "internal/policytest/testdata/kinitiras"))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := documents[struct {
		Name, Class, Topic, Description string
		BetterExpect                    map[string]any `yaml:"betterExpect"`
	}](t, "internal/policytest/testdata/kinitiras/*.yaml")
	counts := map[string]int{}
	for _, c := range raw {
		if c.BetterExpect == nil {
			continue
		}
		if c.Class == "bug" {
			counts["a defect of the original, fixed: "+c.Topic]++
		} else {
			counts["`"+c.Name+"`: [compatibility.md](compatibility.md#cases-that-differ)"]++
		}
	}
	return suite{with: "what kinitiras does, recorded case by case", run: "usher test internal/policytest/testdata/kinitiras", rows: len(cases), differ: because(counts)}
}

func converted(t *testing.T) suite {
	t.Helper()
	kinds, err := corpus.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	differences, err := corpus.Differences(filepath.Join(root, "internal/convert/kyverno/testdata/different.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := suite{with: "what Kyverno's own engine answers about policies that are imported, recorded", run: "internal/convert/kyverno: TestCorpus"}
	counts := map[string]int{}
	left, files := 0, 0
	for _, folder := range []string{"corpus", "mutations"} {
		all, err := corpus.Load(filepath.Join(root, "internal/convert/kyverno/testdata", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			files++
			objects := []convert.Foreign{{Object: f.Policy}}
			for _, e := range f.Exceptions {
				objects = append(objects, convert.Foreign{Object: e})
			}
			if len(kyverno.Policies(t.Context(), objects, kyverno.Options{Kinds: kinds, Enforce: true})[0].To) == 0 {
				left++
				continue
			}
			for _, row := range f.Rows {
				if row.Answers == nil {
					continue
				}
				s.rows++
				if n := slices.IndexFunc(differences, func(d corpus.Difference) bool { return d.Is(f.Name, row.Name) }); n >= 0 {
					counts[differences[n].Why]++
				}
			}
		}
	}
	s.differ = because(counts)
	s.note = fmt.Sprintf("%d of the %d policies are left out by `usher import`, with the reason, and are not counted: [migrate-from-kyverno.md](migrate-from-kyverno.md).", left, files)
	return s
}

func gatekeeperSuites(t *testing.T) suite {
	t.Helper()
	all, _ := documents[struct {
		Tests []struct{ Cases []any }
	}](t, "internal/convert/gatekeeper/testdata/*/suite.yaml")
	s := suite{with: "suites of Gatekeeper, on what their templates and constraints become", run: "internal/convert/gatekeeper: TestSuites"}
	for _, file := range all {
		for _, test := range file.Tests {
			s.rows += len(test.Cases)
		}
	}
	return s
}
