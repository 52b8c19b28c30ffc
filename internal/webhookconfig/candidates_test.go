package webhookconfig_test

import (
	"reflect"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// TestCandidates: a request for which candidates are is sent to their entry if no entry of policies in
// force gets it, and these entries stay as they are.
func TestCandidates(t *testing.T) {
	t.Parallel()
	sets := map[string]string{
		"nothing":                "",
		"pods":                   resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]`),
		"config maps":            resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, secrets]`),
		"subresources":           resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [UPDATE, CONNECT], resources: ["pods/*", namespaces/status]`),
		"all of a group":         resourcesText(`apiGroups: [""], apiVersions: ["*"], operations: ["*"], resources: ["*"]`),
		"everything":             resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]`),
		"in a namespace":         resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"], scope: Namespaced`),
		"by kind":                policyText("ClusterValidatePolicy", "", "v1", "ConfigMap", ""),
		"by kind, in one of few": policyText("ClusterValidatePolicy", "", "", "", "") + "---\n" + policyText("OverridePolicy", "shop", "v1", "ConfigMap", ""),
	}
	rules := map[string][]rule.Rule{}
	for name, text := range sets {
		rules[name] = following(t, text).Rules()
	}
	for inForce := range sets {
		for candidate := range sets {
			t.Run(inForce+" and "+candidate, func(t *testing.T) {
				t.Parallel()
				e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Service: "usher", FailurePolicy: admissionv1.Fail, Log: silent})
				coverage, alone := rule.Cover(rules[inForce]), rule.Cover(rules[candidate])
				without := entriesOf(t, e, coverage)
				coverage.Candidates = &rule.CandidateCoverage{Cluster: alone}
				with := entriesOf(t, e, coverage)
				for name, hook := range without {
					if !reflect.DeepEqual(hook.rules, with[name].rules) || with[name].policy != hook.policy {
						t.Errorf("%s is another entry: %v, was %v", name, with[name].rules, hook.rules)
					}
				}
				only := entriesOf(t, e, alone)
				for _, r := range candidateRequests() {
					name := webhookconfig.Webhook(string(r.Phase))
					sent := without[name].gets(t, r)
					want := !sent && only[name].gets(t, r)
					own := with[webhookconfig.Webhook(string(r.Phase)+"-candidates")]
					if got := own.gets(t, r); got != want {
						t.Errorf("%s %s of %s/%s in %q: sent to the entry of candidates: %v, want %v (%v)", r.Phase, r.Operation, r.Resource, r.Subresource, r.Namespace, got, want, own.rules)
					}
				}
			})
		}
	}
}

// TestCandidatesOfNamespaces: those of one namespace do not have requests of others sent.
func TestCandidatesOfNamespaces(t *testing.T) {
	t.Parallel()
	l := following(t, sandboxed)
	e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Service: "usher", FailurePolicy: admissionv1.Fail, Log: silent})
	entry := entriesOf(t, e, rule.Coverage{Candidates: &rule.CandidateCoverage{Namespaced: rule.Cover(l.Rules()), Namespaces: []string{"blog", "shop"}}})["validate-tenantcandidates.usher.dev"]
	for namespace, want := range map[string]bool{"shop": true, "other": false} {
		r := candidateRequest(usher.Validate, usher.Create, "configmaps", "", namespace)
		if got := entry.gets(t, r); got != want {
			t.Errorf("%s: sent %v", namespace, got)
		}
	}
	if entry.policy != admissionv1.Ignore || entry.timeout != 1 {
		t.Errorf("failure policy %s, timeout %d", entry.policy, entry.timeout)
	}
}

const sandboxed = `apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: p, namespace: shop}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "false"}]
`

// An entry is a registered webhook.
type entry struct {
	rules   []admissionv1.RuleWithOperations
	policy  admissionv1.FailurePolicyType
	timeout int32
	matches func(*testing.T, *usher.Request) bool
}

func (e *entry) gets(t *testing.T, r *usher.Request) bool {
	t.Helper()
	return e != nil && e.matches(t, r)
}

func entriesOf(t *testing.T, e *webhookconfig.Applier, coverage rule.Coverage) map[string]*entry {
	t.Helper()
	mutating, validating, err := e.Objects(coverage, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*entry{}
	hooks := accessors(mutating, validating)
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		for i, hook := range hooks[phase] {
			n := &entry{rules: hook.GetRules(), matches: func(t *testing.T, r *usher.Request) bool { t.Helper(); return sends(t, hook, r) }}
			if phase == usher.Mutate {
				n.policy, n.timeout = *mutating.Webhooks[i].FailurePolicy, *mutating.Webhooks[i].TimeoutSeconds
			} else {
				n.policy, n.timeout = *validating.Webhooks[i].FailurePolicy, *validating.Webhooks[i].TimeoutSeconds
			}
			all[hook.GetName()] = n
		}
	}
	return all
}

func candidateRequest(phase usher.Phase, operation usher.Operation, resource, subresource, namespace string) *usher.Request {
	kinds := map[string]string{"configmaps": "v1/ConfigMap", "secrets": "v1/Secret", "pods": "v1/Pod", "namespaces": "v1/Namespace", "leases": "coordination.k8s.io/v1/Lease"}
	group := "v1/"
	if resource == "leases" {
		group = "coordination.k8s.io/v1/"
	}
	r := &usher.Request{
		Phase: phase, Operation: operation, Resource: resourceOf(group + resource), Kind: kindOf(kinds[resource]), Subresource: subresource,
		Namespace: namespace, Name: "a", User: usher.User{Name: "jane"},
		Object: usher.TreeObject(map[string]any{"metadata": map[string]any{"name": "a"}}),
	}
	if operation == usher.Update {
		r.OldObject = r.Object
	}
	return r
}

func candidateRequests() []*usher.Request {
	var all []*usher.Request
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		for _, operation := range []usher.Operation{usher.Create, usher.Update} {
			for _, resource := range []string{"configmaps", "secrets", "pods", "leases", "namespaces"} {
				namespaces := []string{"shop", "blog"}
				if resource == "namespaces" {
					namespaces = []string{""}
				}
				for _, namespace := range namespaces {
					all = append(all, candidateRequest(phase, operation, resource, "", namespace))
				}
			}
			all = append(all, candidateRequest(phase, operation, "pods", "ephemeralcontainers", "shop"))
		}
		all = append(all, candidateRequest(phase, usher.Connect, "pods", "exec", "shop"))
	}
	return slices.Clip(all)
}
