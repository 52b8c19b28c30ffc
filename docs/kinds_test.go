package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/deploy/crds"
)

// kindRow matches a row of a table that begins with a kind, its short name and its scope.
var kindRow = regexp.MustCompile("(?m)^\\| `[A-Za-z]+` \\| `[a-z]+` \\| (?:cluster|namespaced) \\|")

// TestKindsAreListed: the index has the short name and the scope of each kind, and no page has others.
func TestKindsAreListed(t *testing.T) {
	t.Parallel()
	var want []string
	for _, kind := range api.Kinds() {
		text, err := crds.Of(kind.GroupVersionResource().GroupResource())
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names struct {
					ShortNames []string
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		if len(names.ShortNames) != 1 {
			t.Fatalf("%s has the short names %v, want one", kind.Kind, names.ShortNames)
		}
		scope := "cluster"
		if kind.Namespaced {
			scope = "namespaced"
		}
		want = append(want, fmt.Sprintf("| `%s` | `%s` | %s |", kind.Kind, names.ShortNames[0], scope))
	}
	rows := map[string][]string{}
	walkFiles(t, func(path, text string) {
		if filepath.Ext(path) == ".md" {
			rows[filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)] = kindRow.FindAllString(text, -1)
		}
	})
	for page, found := range rows {
		for _, row := range found {
			if !slices.Contains(want, row) {
				t.Errorf("%s: %s is no kind, or one with another short name or scope", page, row)
			}
		}
	}
	for _, row := range want {
		if !slices.Contains(rows["docs/README.md"], row) {
			t.Errorf("docs/README.md has no row %s", row)
		}
	}
	if len(rows["object-policies/README.md"]) != 2 {
		t.Errorf("object-policies/README.md has the rows %q, want those of two kinds", rows["object-policies/README.md"])
	}
}

// TestRoleReadsPolicies: the role that commands name has the right to list every kind that they read.
func TestRoleReadsPolicies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/explain/read-policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	kinds := api.Kinds()
	for _, versions := range api.ForeignKinds() {
		kinds = append(kinds, versions...)
	}
	for _, kind := range kinds {
		lists := slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, kind.Group) && slices.Contains(r.Verbs, "list") && (slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, kind.Resource))
		})
		if !lists {
			t.Errorf("%s: the role has no right to list them", kind)
		}
	}
}

// TestAdoptersAreTold: the page names the resources of every kind whose policies can be adopted.
func TestAdoptersAreTold(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("install.md")
	if err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile("(?s)`usher authz adopt` takes the verb `escalate`.*?\\)").FindString(string(text))
	for _, kind := range api.Kinds() {
		if kind.NeedsProof && !strings.Contains(sentence, "`"+kind.Resource+"`") {
			t.Errorf("install.md does not say that adopting takes the verb escalate on %s: %s", kind.Resource, sentence)
		}
	}
}
