package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// gadget is the kind of gadgets in a version.
func gadget(version string) result.Kind {
	return result.Kind{Resource: schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "gadgets"}, Kind: "Gadget"}
}

// TestAPolicyJudgesOneVersion has objects that can be read in versions v3, v2 and v1.
func TestAPolicyJudgesOneVersion(t *testing.T) {
	t.Parallel()
	policy := func(name, version, operation, expression string) string {
		return fmt.Sprintf(`---
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [%s], operations: [%s], resources: [gadgets]}]}
  validations: [{expression: %q}]
`, name, version, operation, expression)
	}
	const judged, byUser = "object.metadata.name != 'x'", "request.userInfo.username != 'x'"
	everywhere, first, second := policy("everywhere", `"*"`, "CREATE", judged), policy("first", "v1", "CREATE", judged), policy("second", "v2", "CREATE", judged)
	for _, test := range []struct {
		reason, policies string
		want             map[string]string
	}{
		{"the first version in which it judges objects", everywhere, map[string]string{"v3": "everywhere"}},
		{"others judge other versions", everywhere + first + second, map[string]string{"v3": "everywhere", "v2": "second", "v1": "first"}},
		{"of its versions, the first in their order", policy("both", "v1, v2", "CREATE", judged) + first, map[string]string{"v2": "both", "v1": "first"}},
		{"what it says without judging it says in the first that is read", policy("users", `"*"`, "CREATE", byUser) + first + second, map[string]string{"v2": "second users-skips", "v1": "first"}},
		{"nothing is read for what is not judged", policy("users", `"*"`, "CREATE", byUser), map[string]string{}},
	} {
		j := judge.New(rules(t, test.policies), judge.Options{}).
			WithVersions(judge.Versions{{Group: "example.com", Resource: "gadgets"}: {gadget("v3"), gadget("v2"), gadget("v1")}})
		got := map[string]string{}
		for _, version := range []string{"v1", "v2", "v3"} {
			plan := j.Plan(gadget(version))
			if plan == nil {
				continue
			}
			var names []string
			for _, ref := range plan.Policies() {
				if slices.ContainsFunc(plan.Unjudged(), func(u judge.Unjudged) bool { return u.Policy == ref }) {
					ref.Name += "-skips"
				}
				names = append(names, ref.Name)
			}
			slices.Sort(names)
			got[version] = strings.Join(names, " ")
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
	// A version that nobody has discovered is judged by all.
	j := judge.New(rules(t, everywhere+first), judge.Options{})
	if n := len(j.Plan(gadget("v1")).Policies()); n != 2 {
		t.Errorf("without versions, %d policies judge v1, want 2", n)
	}
}
