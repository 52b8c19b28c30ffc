package deploy_test

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/trial"
)

// TestPolicyOfNotes: nothing is said of the policy that Helm prints, which is a policy as new ones are written.
func TestPolicyOfNotes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("helm/usher/templates/NOTES.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<<EOF\n(.*?)\nEOF\n").FindSubmatch(text)
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
	if _, ok := policy.Object.(*v1alpha1.ClusterObjectPolicy); !ok {
		t.Errorf("the policy is a %T", policy.Object)
	}
	c := compile.Policy(policy)
	for _, p := range append(c.Problems, trial.New(trial.Options{}).Try(t.Context(), c).Problems...) {
		t.Error(p)
	}
}
