package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/usher-dev/usher/api"
)

// TestEveryKindIsKnown: who adds a kind to api.Kinds is told what else has to know it.
func TestEveryKindIsKnown(t *testing.T) {
	t.Parallel()
	var roles []rbacv1.PolicyRule
	for _, role := range only[*rbacv1.ClusterRole](renderings[0].objects(t)) {
		roles = append(roles, role.Rules...)
	}
	documented := docs(t)
	for _, kind := range api.Kinds() {
		for _, dir := range []string{"crds", "helm/usher/crds"} {
			file := filepath.Join(filepath.FromSlash(dir), kind.Group+"_"+kind.Resource+".yaml")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v: run make generate", kind.Kind, err)
				continue
			}
			scope := "scope: Cluster\n"
			if kind.Namespaced {
				scope = "scope: Namespaced\n"
			}
			for _, line := range []string{"kind: " + kind.Kind + "\n", "plural: " + kind.Resource + "\n", scope} {
				if !strings.Contains(string(text), line) {
					t.Errorf("%s does not have %q", file, line)
				}
			}
		}
		for resource, verbs := range map[string][]string{kind.Resource: {"get", "list", "watch"}, kind.Resource + "/status": {"patch"}} {
			if !granted(roles, kind.Group, resource, verbs) {
				t.Errorf("the ClusterRole of the chart does not let Usher %s %s.%s", strings.Join(verbs, ", "), resource, kind.Group)
			}
		}
		if !strings.Contains(documented, kind.Kind) {
			t.Errorf("neither README.md nor docs/*.md mention %s", kind.Kind)
		}
	}
}

func granted(rules []rbacv1.PolicyRule, group, resource string, verbs []string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) &&
			!slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(r.Verbs, verb) })
	})
}

// docs are the texts that users read.
func docs(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
