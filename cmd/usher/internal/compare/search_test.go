package compare_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/compare"
)

// TestSearchFindsLists: what policies read in the elements of lists, and how many these are, is tried, also where
// variables, filters and sums of lists lie between.
func TestSearchFindsLists(t *testing.T) {
	t.Parallel()
	const all = "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"
	for _, test := range []struct{ reason, variable, was, is string }{
		{"the number of elements", "1", "object.spec.containers.size() < 3", "object.spec.containers.size() < 2"},
		{"more elements than a policy permits", "1", "object.spec.containers.size() <= 9", "object.spec.containers.size() <= 8"},
		{"a list in a variable", "object.spec.containers", "variables.v.size() < 3", "variables.v.size() < 2"},
		{"elements that a filter leaves", "1", "object.spec.containers.filter(c, c.image.startsWith('x/')).size() < 3", "object.spec.containers.filter(c, c.image.startsWith('x/')).size() < 2"},
		{"a filter in a variable", "object.spec.containers.filter(c, c.image.startsWith('x/'))", "variables.v.all(c, c.name != 'a')", "variables.v.all(c, c.name != 'b')"},
		{"the sum of lists", all, "variables.v.all(c, c.image != 'a')", "variables.v.all(c, c.image != 'b')"},
		{"both fields of an element of a sum", all, "true", "variables.v.all(c, !(c.image.contains('q') && c.name == 'k'))"},
		{"some element, and all of them", "1", "object.spec.containers.exists(c, c.image == 'a')", "object.spec.containers.all(c, c.image == 'a')"},
		{"one element, and some", "1", "object.spec.containers.exists(c, c.image == 'a')", "object.spec.containers.exists_one(c, c.image == 'a')"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, expression := range map[string]string{"was.yaml": test.was, "is.yaml": test.is} {
				text := fmt.Sprintf("apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: p}\nspec:\n  podTemplates: \"Off\"\n"+
					"  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n"+
					"  variables: [{name: v, expression: %q}]\n  validations: [{message: not so, expression: %q}]\n", test.variable, expression)
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs bytes.Buffer
			root := func(s cli.Streams) *cobra.Command {
				root := &cobra.Command{Use: "usher"}
				root.AddCommand(compare.Impact(s))
				return root
			}
			status := cli.Execute(t.Context(), root, cli.Streams{Out: &out, Err: &errs}, []string{"impact", filepath.Join(dir, "was.yaml"), filepath.Join(dir, "is.yaml"), "--search"})
			if status != cli.ExitNegative || !strings.Contains(out.String(), "found by search: ClusterObjectPolicy p: newly denied") {
				t.Error(status, out.String(), errs.String())
			}
		})
	}
}
