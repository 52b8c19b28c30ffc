package trial_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// compiled returns a policy in YAML, compiled without problems.
func compiled(t *testing.T, text string) compile.Compiled {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	c := compile.Policy(p)
	if errs := rule.Errors(c.Problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	return c
}

const (
	boundPolicy = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["", apps], apiVersions: [v1], operations: [CREATE], resources: [pods, deployments]}]}
  validations: [{expression: "request.name != 'x'"}]
  bindings: [{name: all, matchResources: `
	admissionBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny], matchResources: `
	clusterExemption = `
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyExemption
metadata: {name: p}
spec: {policyRefs: [{kind: ClusterObjectPolicy, name: p}], reason: legacy, owner: team-a, expiresAt: "2999-01-01T00:00:00Z", matchConstraints: `
	namespaceExemption = `
apiVersion: usher.dev/v1alpha1
kind: PolicyExemption
metadata: {name: p, namespace: shop}
spec: {policyRefs: [{kind: ClusterObjectPolicy, name: p}], reason: legacy, owner: team-a, expiresAt: "2999-01-01T00:00:00Z", matchConstraints: `
)

// TestResourcesOfBindingsAndExemptions: what narrows policies names resources that exist, as policies do.
func TestResourcesOfBindingsAndExemptions(t *testing.T) {
	t.Parallel()
	const create = "{resourceRules: [{operations: [CREATE], "
	complete := gadgetKinds(t)
	complete.Complete = true
	for _, test := range []struct {
		reason, policy, resources, end string
		inCluster                      bool
		want                           []string
	}{
		{"a resource that exists", boundPolicy, create + "apiGroups: [''], apiVersions: [v1], resources: [pods]}]}", "}]", false, nil},
		{"no resources", boundPolicy, "{objectSelector: {matchLabels: {a: b}}}", "}]", false, nil},
		{"everything", clusterExemption, create + "apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]}", "}", false, nil},
		{
			"a kind in a binding of an object policy", boundPolicy, create + "apiGroups: [''], apiVersions: [v1], resources: [Pod]}]}", "}]", false,
			[]string{"mistake: spec.bindings[0].matchResources.resourceRules[0].resources[0]: Kubernetes has no resource Pod in v1: no request is for it; did you mean pods?"},
		},
		{
			"a version", boundPolicy, create + "apiGroups: [apps], apiVersions: [v2], resources: [deployments]}]}", "}]", false,
			[]string{"mistake: spec.bindings[0].matchResources.resourceRules[0].apiVersions: Kubernetes has no resource deployments in apps/v2: no request is for it; did you mean apiVersions: [v1]?"},
		},
		{
			"a group", admissionBinding, create + "apiGroups: [v1], apiVersions: [v1], resources: [pods]}]}", "}", false,
			[]string{`mistake: spec.matchResources.resourceRules[0].apiGroups: Kubernetes has no resource pods in v1/v1: no request is for it; did you mean apiGroups: [""]?`},
		},
		{
			"an exclusion", admissionBinding, "{excludeResourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pod]}]}", "}", false,
			[]string{`mistake: spec.matchResources.excludeResourceRules[0].resources[0]: Kubernetes has no resource pod in ""/*: nothing is left out by it; did you mean pods?`},
		},
		{
			"an exemption", clusterExemption, create + "apiGroups: [apps], apiVersions: [v1], resources: [deployment]}]}", "}", false,
			[]string{"mistake: spec.matchConstraints.resourceRules[0].resources[0]: Kubernetes has no resource deployment in apps/v1: no request is for it; did you mean deployments?"},
		},
		{
			"one of a namespace", namespaceExemption, create + "apiGroups: [''], apiVersions: [v1], resources: [Pod]}]}", "}", false,
			[]string{"mistake: spec.matchConstraints.resourceRules[0].resources[0]: Kubernetes has no resource Pod in v1: no request is for it; did you mean pods?"},
		},
		{
			"a definition to come", clusterExemption, create + "apiGroups: [example.org], apiVersions: [v1], resources: [widgets]}]}", "}", false,
			[]string{"warning: spec.matchConstraints.resourceRules[0].resources[0]: the resource widgets in example.org/v1 is not known: unless it exists, no request is for it; " +
				"correct it, or give its CustomResourceDefinition; see kubectl api-resources"},
		},
		{
			"that the cluster lacks", clusterExemption, create + "apiGroups: [example.org], apiVersions: [v1], resources: [widgets]}]}", "}", true,
			[]string{"warning: spec.matchConstraints.resourceRules[0].resources[0]: the cluster has no resource widgets in example.org/v1: no request is for it; correct it, or create its CustomResourceDefinition"},
		},
		{
			"who has rights in a namespace creates none", namespaceExemption, create + "apiGroups: [example.org], apiVersions: [v1], resources: [widgets]}]}", "}", true,
			[]string{"warning: spec.matchConstraints.resourceRules[0].resources[0]: the cluster has no resource widgets in example.org/v1: no request is for it; " +
				"correct it, or ask who administers the cluster to create its CustomResourceDefinition"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			try, looked := tried(t), 0
			if test.inCluster {
				try = trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set {
					looked++
					return complete
				}})
			}
			result := try.Try(t.Context(), compiled(t, test.policy+test.resources+test.end))
			var got []string
			for _, p := range result.Problems {
				p.Policy = rule.Problem{}.Policy
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if result.Unsettled != (test.want != nil) || test.inCluster && looked != 2 {
				t.Errorf("a later try may differ: %t; looked %d times", result.Unsettled, looked)
			}
		})
	}
}
