package docs_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
)

// TestPolicyOfTenants: nothing is said of the policy that the page shows to those who write their first one.
func TestPolicyOfTenants(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("object-policies/tenants.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: usher.dev/.*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatal("no policy")
	}
	raw, err := yaml.YAMLToJSON(found[1])
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	c := compile.Policy(policy)
	reports, err := lockout.All(t.Context(), []compile.Compiled{c}, lockout.Options{Upstream: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(c.Problems, trial.New(trial.Options{}).Try(t.Context(), c).Problems, lockout.Problems(reports[0].Findings)) {
		t.Error(p)
	}
}

// TestReferenceOfObjectPolicies compares the table of fields with the API types: each field has a
// row, and there are no other rows.
func TestReferenceOfObjectPolicies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("object-policies/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\|$").FindAllStringSubmatch(string(text), -1) {
		got = append(got, row[1])
	}
	var want []string
	var walk func(reflect.Type, string)
	walk = func(of reflect.Type, path string) {
		for field := range fieldsOf(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				walk(field.Type, path)
				continue
			}
			part, lists := field.Type, ""
			for part.Kind() == reflect.Pointer || part.Kind() == reflect.Slice {
				if part.Kind() == reflect.Slice {
					lists = "[]"
				}
				part = part.Elem()
			}
			// Subjects are those of authorization policies; what others define is documented there.
			own := part.Kind() == reflect.Struct && part.PkgPath() == of.PkgPath() && part != reflect.TypeFor[v1alpha1.Subject]()
			if !own {
				want = append(want, path+name)
				continue
			}
			want = append(want, path+name+lists)
			walk(part, path+name+lists+".")
		}
	}
	walk(reflect.TypeFor[v1alpha1.ClusterObjectPolicySpec](), "")
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object-policies/reference.md (-types +rows):\n%s", diff)
	}
	if len(want) < 50 {
		t.Errorf("only %d fields were found", len(want))
	}
}
