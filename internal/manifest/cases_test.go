package manifest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/usher-dev/usher/internal/manifest"
)

func TestHasCases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, text string
		want         bool
	}{
		{"an admission case", "name: a\nrequest: {}\nexpect: {allowed: true}\n", true},
		{"several documents", "# none\n---\nname: a\n---\nrequest: {}\nexpect: {}\n", true},
		{"a suite of access cases", "policies: []\ncases: []\n", true},
		{"a list of suites", "- {policies: [], cases: []}\n- {}\n", true},
		{"JSON", `{"request": {}, "expect": null}`, true},
		{"an object", "apiVersion: v1\nkind: ConfigMap\nrequest: {}\nexpect: {}\n", false},
		{"an object beside a case", "request: {}\nexpect: {}\n---\napiVersion: v1\nkind: ConfigMap\n", false},
		{"other YAML", "request: {}\n", false},
		{"a text", "request, expect\n", false},
		{"nothing", "", false},
		{"no YAML after a case", "request: {}\nexpect: {}\n---\n{\n", false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "a.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := manifest.HasCases(file); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
