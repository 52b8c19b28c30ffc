package admission_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	// The messages in the files.
	_ "cel.dev/expr/conformance/proto2"
	_ "cel.dev/expr/conformance/proto3"
	spec "cel.dev/expr/conformance/test"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// moduleDir is the folder of a module in the module cache. Without it the test is skipped.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skipf("%s is not in the module cache: %v", module, err)
	}
	return dir
}

// specified are tests of the specification that Kubernetes' evaluator decides otherwise, by file,
// section and name, each with the reason.
var specified = map[string]string{
	"fields/qualified_identifier_resolution/map_value_repeat_key":         "cel-go takes the last of two entries with one key",
	"optionals/optionals/map_null_entry_no_such_key":                      "cel-go selects nothing from what has no fields",
	"optionals/optionals/map_present_key_invalid_field":                   "cel-go selects nothing from what has no fields",
	"string_ext/value_errors/indexof_out_of_range":                        oldStrings,
	"string_ext/value_errors/lastindexof_out_of_range":                    oldStrings,
	"string_ext/format/scientific notation formatting clause":             oldStrings,
	"string_ext/format/default precision for scientific notation":         oldStrings,
	"string_ext/format/NaN support for scientific notation":               oldStrings,
	"string_ext/format/positive infinity support for scientific notation": oldStrings,
	"string_ext/format/negative infinity support for scientific notation": oldStrings,
	"string_ext/format/positive infinity support for fixed-point":         oldStrings,
	"string_ext/format/negative infinity support for fixed-point":         oldStrings,
	"string_ext/format/list support for string":                           oldStrings,
	"string_ext/format/map support for string":                            oldStrings,
	"string_ext/format/map support (all key types)":                       oldStrings,
	"string_ext/format/dyntype support for scientific notation":           oldStrings,
	"string_ext/format/dyntype NaN/infinity support":                      oldStrings,
	"string_ext/format/dyntype support for lists":                         oldStrings,
	"string_ext/format/dyntype support for maps":                          oldStrings,
}

const oldStrings = "Kubernetes has version 2 of the library for strings"

// TestSpecification runs the tests of the specification of CEL that expressions of Kubernetes can
// express. Usher answers each of them as upstream does.
func TestSpecification(t *testing.T) {
	t.Parallel()
	// least is how many tests ran when this was written.
	const least = 1188
	dir := filepath.Join(moduleDir(t, "cel.dev/expr"), "tests", "simple", "testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*.textproto"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	s := situations(t, 1)["widget"][0]
	excluded := map[string]int{}
	used := map[string]bool{}
	var ran int
	for _, name := range files {
		for _, test := range specifiedIn(t, name, excluded) {
			want := s.upstream(test.upstream, wholeBudget)
			if got := test.usher(t, s, wholeBudget); got.String() != want.String() {
				t.Errorf("%s: %s\nupstream: %v\nusher:    %v", test.id, test.text, want, got)
				continue
			}
			if why := uncompiledBecause(want.Err); why != "" {
				excluded[why]++
				continue
			}
			ran++
			if test.holds(want) {
				continue
			}
			used[test.id] = true
			if specified[test.id] == "" {
				t.Errorf("%s: %s is %v, and should be %s", test.id, test.text, want, test.want)
			}
		}
	}
	for id := range specified {
		if !used[id] {
			t.Errorf("%s is decided as specified: remove it", id)
		}
	}
	t.Logf("%d ran, %d of them are known to differ; excluded:", ran, len(specified))
	for _, why := range slices.Sorted(maps.Keys(excluded)) {
		t.Logf("%5d %s", excluded[why], why)
	}
	if ran < least {
		t.Errorf("%d ran, fewer than %d", ran, least)
	}
}

// A specification is one test.
type specification struct {
	pair

	id string
	// want is the value; it is empty if there must be an error.
	want string
}

func (s *specification) holds(a answer) bool {
	if s.want == "" {
		return a.Err != "" || a.Stopped != ""
	}
	return a.Value == s.want
}

// specifiedIn returns the tests of a file that have no variables of their own.
func specifiedIn(t *testing.T, name string, excluded map[string]int) []specification {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var file spec.SimpleTestFile
	if err := prototext.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	var all []specification
	var texts []string
	for _, section := range file.GetSection() {
		for _, test := range section.GetTest() {
			if why := excludedBecause(test); why != "" {
				excluded[why]++
				continue
			}
			s := specification{id: file.GetName() + "/" + section.GetName() + "/" + test.GetName()}
			value := test.GetValue()
			if typed := test.GetTypedResult(); typed != nil {
				value = typed.GetResult()
			}
			if value != nil {
				v, err := cel.ProtoAsValue(types.DefaultTypeAdapter, value)
				if err != nil {
					excluded["a value that is a message"]++
					continue
				}
				s.want = render(v)
			} else if test.GetEvalError() == nil {
				s.want = "bool true"
			}
			all, texts = append(all, s), append(texts, test.GetExpr())
		}
	}
	for i, p := range pairs(t, admission.Code{}, texts...) {
		all[i].pair = p
	}
	return all
}

// excludedBecause is why admission policies cannot express a test.
func excludedBecause(test *spec.SimpleTest) string {
	switch {
	case len(test.GetBindings()) > 0 || len(test.GetTypeEnv()) > 0:
		return "variables of its own"
	case test.GetContainer() != "":
		return "a container, which is for protobuf"
	case test.GetDisableCheck() || test.GetDisableMacros() || test.GetCheckOnly():
		return "not parsed, checked and evaluated as policies are"
	case strings.Contains(test.GetExpr(), "google.protobuf") || strings.Contains(test.GetExpr(), "cel.expr.conformance"):
		return "protobuf"
	}
	return ""
}

// uncompiledBecause is why an expression is none of Kubernetes; it is empty if it is one.
func uncompiledBecause(err string) string {
	if !strings.Contains(err, "compilation error") {
		return ""
	}
	for _, row := range [][2]string{
		{"undeclared reference", "a function or variable that Kubernetes does not have"},
		{"found no matching overload", "an overload that Kubernetes does not have"},
		{"expected type", "lists and maps of several types, which Kubernetes does not allow"},
		{"program instantiation failed", "a constant with an error, which Kubernetes finds before it evaluates"},
		{"Syntax error", "syntax that Kubernetes does not have"},
		{"invalid", "a literal that Kubernetes validates"},
		{"error during formatting", "a literal that Kubernetes validates"},
		{"argument is not an ident", "a function or variable that Kubernetes does not have"},
		{"argument must be a simple", "a function or variable that Kubernetes does not have"},
		{"unsupported syntax", "syntax that Kubernetes does not have"},
	} {
		if strings.Contains(err, row[0]) {
			return row[1]
		}
	}
	return "not compiled: " + err
}
