package admissionregistration_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/lang/cel/admission"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/ruletest"
)

// TestReadPaths runs every program on the whole objects, and on what it says that it reads.
func TestReadPaths(t *testing.T) {
	t.Parallel()
	policies := expressionPolicies()
	for _, s := range situations {
		if !s.once {
			policies = append(policies, s.policies(t)...)
		}
	}
	var programs []rule.Program
	for i := 0; i < len(policies); i += 2 {
		rules, _ := compile.Policies([]api.Policy{{Object: policies[i]}, {Object: policies[i+1]}})
		for j := range rules {
			programs = append(programs, rules[j].Steps[0].Program)
		}
	}
	object, old := tree(t, pod), tree(t, strings.Replace(pod, "app: web, ", "app: old, ", 1))
	known := &fact.Known{}
	known.Set(admission.NamespaceFact("shop"), tree(t, shop), nil)
	var partial int
	for _, p := range programs {
		selective, ok := p.(rule.Selective)
		if !ok {
			t.Fatalf("%s does not say what it reads", p)
		}
		if paths, _ := selective.ReadPaths(); !paths.Whole() {
			partial++
		}
		for _, in := range []rule.Input{{Object: object}, {Object: object, OldObject: old}, {Object: old}} {
			r := &usher.Request{
				Phase: usher.Validate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Namespace: "shop", Object: usher.TreeObject(in.Object),
			}
			if in.OldObject != nil {
				r.Operation, r.OldObject = usher.Update, usher.TreeObject(in.OldObject)
			} else if in.Object["metadata"].(map[string]any)["labels"].(map[string]any)["app"] == "old" {
				r.Operation, r.Object, r.OldObject = usher.Delete, nil, usher.TreeObject(in.Object)
			}
			in.Request, in.Facts = r, known
			_, _ = ruletest.Run(t, p, &in)
		}
	}
	if partial < len(programs)/2 {
		t.Errorf("only %d of %d programs read less than everything", partial, len(programs))
	}
}
