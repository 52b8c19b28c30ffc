package try_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/cmd/usher/internal/try"
)

// TestObjectsAreNamedAsForKubectl beside a folder that is called as a kind.
func TestObjectsAreNamedAsForKubectl(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"deploy", "refused.yaml"} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		reason       string
		cluster      bool
		args         []string
		named, files []string
	}{
		{"kinds with names", true, []string{"deployment/web", "po/api-0"}, []string{"deployment/web", "po/api-0"}, nil},
		{"a kind and a name", true, []string{"deployment", "web"}, []string{"deployment/web"}, nil},
		{"a kind and names, beside a folder", true, []string{"deploy", "front", "back"}, []string{"deploy/front", "deploy/back"}, nil},
		{"a kind with its group", true, []string{"deployments.apps", "web"}, []string{"deployments.apps/web"}, nil},
		{"a file", true, []string{"refused.yaml"}, nil, []string{"refused.yaml"}},
		{"folders", true, []string{"deploy", "refused.yaml"}, nil, []string{"deploy", "refused.yaml"}},
		{"a file and an object", true, []string{"refused.yaml", "deployment/web"}, []string{"deployment/web"}, []string{"refused.yaml"}},
		{"no cluster", false, []string{"deploy", "front"}, nil, []string{"deploy", "front"}},
	} {
		named, files := try.Named(test.cluster, test.args)
		if diff := cmp.Diff(test.named, named) + cmp.Diff(test.files, files); diff != "" {
			t.Errorf("%s: named and files (-want +got):\n%s", test.reason, diff)
		}
	}
}
