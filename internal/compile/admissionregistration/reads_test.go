package admissionregistration_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// TestReadPaths runs every program on the whole objects, and on what it says that it reads.
func TestReadPaths(t *testing.T) {
	t.Parallel()
	validating := [][]api.Object{expressionPolicies()}
	for _, s := range situations {
		if !s.once {
			validating = append(validating, s.policies(t))
		}
	}
	var mutating [][]api.Object
	for _, s := range mutatingSituations() {
		if strings.Contains(s.reason, "labels.transformList(") {
			// Maps have no order, and so the operations have none.
			continue
		}
		mutating = append(mutating, s.mutatingPolicies(t))
	}
	for _, test := range []struct {
		reason   string
		phase    usher.Phase
		policies [][]api.Object
		// partial is at least how many of 10 programs read less than everything.
		partial int
	}{
		{"all expressions of conditions and validations", usher.Validate, validating, 5},
		{"patches with a constant path, and no apply configurations", usher.Mutate, mutating, 4},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var all, partial int
			for _, policies := range test.policies {
				for _, p := range programsOf(policies) {
					selective, ok := p.(rule.Selective)
					if !ok {
						t.Fatalf("%s does not say what it reads", p)
					}
					all++
					if paths, _ := selective.ReadPaths(); !paths.Whole() {
						partial++
					}
					for _, in := range inputs(t, test.phase) {
						_, _ = ruletest.Run(t, p, in)
					}
				}
			}
			if partial*10 < all*test.partial {
				t.Errorf("only %d of %d programs read less than everything", partial, all)
			}
		})
	}
}

func programsOf(objects []api.Object) []rule.Program {
	policies := make([]api.Policy, len(objects))
	for i := range objects {
		policies[i] = api.Policy{Object: objects[i]}
	}
	rules, _ := compile.Policies(policies)
	programs := make([]rule.Program, len(rules))
	for i := range rules {
		programs[i] = rules[i].Steps[0].Program
	}
	return programs
}

// inputs are the creation, the update and, to validate, the deletion of a pod, and the creation of a
// deployment.
func inputs(t *testing.T, phase usher.Phase) []*rule.Input {
	t.Helper()
	known := &fact.Known{}
	known.Set(admission.NamespaceFact("shop"), tree(t, shop), nil)
	input := func(op usher.Operation, kind schema.GroupVersionKind, resource string, object, old map[string]any) *rule.Input {
		r := &usher.Request{
			Phase: phase, Operation: op, Kind: kind, Resource: kind.GroupVersion().WithResource(resource),
			Name: "web", Namespace: "shop", Object: usher.TreeObject(object),
		}
		switch {
		case op == usher.Delete:
			r.Object, r.OldObject = nil, usher.TreeObject(object)
		case old != nil:
			r.OldObject = usher.TreeObject(old)
		}
		return &rule.Input{Request: r, Object: object, OldObject: old, Facts: known}
	}
	object, old := tree(t, pod), tree(t, strings.Replace(pod, "app: web, ", "app: old, ", 1))
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	all := []*rule.Input{
		input(usher.Create, pods, "pods", object, nil), input(usher.Update, pods, "pods", object, old),
		input(usher.Create, deployments, "deployments", tree(t, deployment), nil),
	}
	if phase == usher.Validate {
		all = append(all, input(usher.Delete, pods, "pods", old, nil))
	}
	return all
}
