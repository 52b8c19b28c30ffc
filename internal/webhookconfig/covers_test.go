package webhookconfig_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/source/dir"
)

// TestCoversIsWhatIsSent compares what doors in a process ask about with what an API server,
// by its own code, sends to a webhook that is registered for the same policies.
func TestCoversIsWhatIsSent(t *testing.T) {
	t.Parallel()
	const overrides, validates = "ClusterOverridePolicy", "ClusterValidatePolicy"
	for name, policy := range map[string]string{
		"none":                     "",
		"pods":                     policyText(validates, "", "v1", "Pod", ""),
		"pods in one namespace":    policyText("OverridePolicy", "shop", "v1", "Pod", ""),
		"pods, some operations":    policyText(overrides, "", "v1", "Pod", "CREATE, DELETE"),
		"deployments":              policyText(overrides, "", "apps/v1", "Deployment", ""),
		"scale":                    policyText(validates, "", "autoscaling/v1", "Scale", ""),
		"eviction":                 policyText(validates, "", "policy/v1", "Eviction", ""),
		"binding":                  policyText(validates, "", "v1", "Binding", ""),
		"tokens":                   policyText(validates, "", "authentication.k8s.io/v1", "TokenRequest", ""),
		"shells":                   policyText(validates, "", "v1", "PodExecOptions", ""),
		"nodes, which are exempt":  policyText(validates, "", "v1", "Node", ""),
		"kubelets":                 policyText(validates, "", "v1", "NodeProxyOptions", ""),
		"everything":               policyText(validates, "", "", "", "CREATE, UPDATE, DELETE"),
		"everything, connect, too": policyText(overrides, "", "", "", "CONNECT, UPDATE"),
		"everything in one place":  policyText("OverridePolicy", "shop", "", "", "CREATE"),
		"namespaces":               policyText(validates, "", "v1", "Namespace", ""),
		"resources":                resourcesText(`apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]`),
		"every resource":           resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]`),
		"subresources":             resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: [pods/status, "*/scale", pods/exec, deployments/status]`),
		"resources by scope":       resourcesText(`apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, DELETE], resources: ["*"], scope: Cluster`),
		"resources and kinds": resourcesText(`apiGroups: [apps], apiVersions: ["*"], operations: [UPDATE], resources: [deployments/status, deployments]`) +
			"---\n" + policyText(overrides, "", "apps/v1", "Deployment", "") + "---\n" + strings.Replace(policyText(validates, "", "apps/v1", "Deployment", ""), "name: a", "name: b", 1),
		"existing objects":     existingText,
		"and other namespaces": existingText + "---\n" + policyText(validates, "", "v1", "Namespace", "CREATE, DELETE"),
		"and changes of these": existingText + "---\n" + resourcesText(`apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces/status, namespaces]`),
		"existing and every":   existingText + "---\n" + policyText(validates, "", "", "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := following(t, policy)
			e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Service: "usher", Log: silent})
			mutating, validating, err := e.Objects(rule.Cover(l.Rules()), nil)
			if err != nil {
				t.Fatal(err)
			}
			webhooks := accessors(mutating, validating)
			for _, r := range append(requests(), policyRequests()...) {
				for phase, hooks := range webhooks {
					r.Phase = phase
					var sent, want []string
					for _, hook := range hooks {
						if sends(t, hook, &r) {
							sent = append(sent, hook.GetName())
						}
					}
					if l.Covers(&r) {
						want = []string{webhookconfig.Webhook(webhookconfig.WholeEntryOf(&r))}
					}
					if !slices.Equal(once(phase, sent, want), want) {
						t.Errorf("%s %s %s/%s %s in %q by %s: sent to %q, covered for %q",
							phase, r.Operation, r.Resource.Resource, r.Subresource, r.Kind.Kind, r.Namespace, r.User.Name, sent, want)
					}
				}
			}
		})
	}
}

// once returns the entries that were sent to as callers ask that ask once: want is what they ask.
// A write of a status goes to the entry of the phase if a rule names the resource, and that entry runs
// the rules about objects that exist.
func once(phase usher.Phase, sent, want []string) []string {
	both := webhookconfig.Webhook(rule.Entry{Phase: phase, Part: rule.Beside}.String())
	if slices.Equal(sent, []string{webhookconfig.Webhook(rule.Entry{Phase: phase, Part: rule.Existing}.String())}) {
		return []string{webhookconfig.Webhook(string(phase))}
	}
	if len(sent) == 0 || !slices.Equal(want, []string{both}) {
		return sent
	}
	rest := slices.DeleteFunc(slices.Clone(sent), func(name string) bool {
		return name == webhookconfig.Webhook(rule.Entry{Phase: phase, Part: rule.Metadata}.String()) || name == webhookconfig.Webhook(string(phase))
	})
	return append(rest, both)
}

// accessors are the webhooks of each phase, in order, as an API server has them.
func accessors(m *admissionv1.MutatingWebhookConfiguration, v *admissionv1.ValidatingWebhookConfiguration) map[usher.Phase][]webhook.WebhookAccessor {
	all := map[usher.Phase][]webhook.WebhookAccessor{}
	for i := range m.Webhooks {
		all[usher.Mutate] = append(all[usher.Mutate], webhook.NewMutatingWebhookAccessor(m.Webhooks[i].Name, "usher", &m.Webhooks[i]))
	}
	for i := range v.Webhooks {
		all[usher.Validate] = append(all[usher.Validate], webhook.NewValidatingWebhookAccessor(v.Webhooks[i].Name, "usher", &v.Webhooks[i]))
	}
	return all
}

func policyText(kind, namespace, apiVersion, selected, operations string) string {
	rules, body := "validateRules", "cue: 'validate: {valid: true}'"
	if kind != "ClusterValidatePolicy" {
		rules, body = "overrideRules", "overriders: {plaintext: [{path: /metadata/labels/a, op: add, value: b}]}"
	}
	selectors := ""
	if selected != "" {
		selectors = fmt.Sprintf("  resourceSelectors: [{apiVersion: %s, kind: %s}]\n", apiVersion, selected)
	}
	if operations != "" {
		body = fmt.Sprintf("targetOperations: [%s], %s", operations, body)
	}
	return fmt.Sprintf("apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: %s\nmetadata: {name: a, namespace: %q}\nspec:\n%s  %s: [{%s}]\n",
		kind, namespace, selectors, rules, body)
}

// resourcesText is an admission policy of Kubernetes for a rule, with a binding.
func resourcesText(rule string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a}
spec: {matchConstraints: {resourceRules: [{%s}]}, validations: [{expression: "true"}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: a}
spec: {policyName: a, validationActions: [Deny]}
`, rule)
}

// following has the policies in a file in force.
func following(t *testing.T, text string) *live.Live {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan live.Status, 1)
	l := live.New(live.Options{OnUpdate: func(s live.Status) { loaded <- s }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, dir.New(folder)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case s := <-loaded:
		if len(rule.Errors(s.Problems)) > 0 {
			t.Fatalf("%v", s.Problems)
		}
	case <-time.After(time.Minute):
		t.Fatal("the policies were not loaded")
	}
	return l
}

// requests are what API servers may send, with every kind of place and user.
func requests() []usher.Request {
	places := []struct {
		resource, subresource, kind string
		operations                  []usher.Operation
		cluster                     bool
	}{
		{"v1/pods", "", "v1/Pod", usher.Operations()[:3], false},
		{"v1/pods", "status", "v1/Pod", usher.Operations()[1:2], false},
		{"v1/pods", "resize", "v1/Pod", usher.Operations()[1:2], false},
		{"v1/pods", "ephemeralcontainers", "v1/Pod", usher.Operations()[1:2], false},
		{"v1/pods", "eviction", "policy/v1/Eviction", usher.Operations()[:1], false},
		{"v1/pods", "binding", "v1/Binding", usher.Operations()[:1], false},
		{"v1/pods", "exec", "v1/PodExecOptions", usher.Operations()[3:], false},
		{"v1/pods", "portforward", "v1/PodPortForwardOptions", usher.Operations()[3:], false},
		{"v1/serviceaccounts", "token", "authentication.k8s.io/v1/TokenRequest", usher.Operations()[:1], false},
		{"v1/configmaps", "", "v1/ConfigMap", usher.Operations()[:3], false},
		{"v1/events", "", "v1/Event", usher.Operations()[:3], false},
		{"events.k8s.io/v1/events", "", "events.k8s.io/v1/Event", usher.Operations()[:3], false},
		{"coordination.k8s.io/v1/leases", "", "coordination.k8s.io/v1/Lease", usher.Operations()[:3], false},
		{"apps/v1/deployments", "", "apps/v1/Deployment", usher.Operations()[:3], false},
		{"apps/v1/deployments", "status", "apps/v1/Deployment", usher.Operations()[1:2], false},
		{"apps/v1/deployments", "scale", "autoscaling/v1/Scale", usher.Operations()[1:2], false},
		{"authorization.k8s.io/v1/localsubjectaccessreviews", "", "authorization.k8s.io/v1/LocalSubjectAccessReview", usher.Operations()[:1], false},
		{"policy.kcloudlabs.io/v1alpha1/overridepolicies", "", "policy.kcloudlabs.io/v1alpha1/OverridePolicy", usher.Operations()[:3], false},
		{"usher.dev/v1alpha1/authorizationpolicies", "", "usher.dev/v1alpha1/AuthorizationPolicy", usher.Operations()[:3], false},
		{"usher.dev/v1alpha1/clusterauthorizationpolicies", "status", "usher.dev/v1alpha1/ClusterAuthorizationPolicy", usher.Operations()[1:2], false},
		{"policy.kcloudlabs.io/v1alpha1/overridepolicies", "status", "policy.kcloudlabs.io/v1alpha1/OverridePolicy", usher.Operations()[1:2], false},
		{"v1/nodes", "", "v1/Node", usher.Operations()[:3], true},
		{"v1/nodes", "proxy", "v1/NodeProxyOptions", usher.Operations()[3:], true},
		{"v1/namespaces", "", "v1/Namespace", usher.Operations()[:3], true},
		{"v1/namespaces", "status", "v1/Namespace", usher.Operations()[1:2], true},
		{"v1/namespaces", "finalize", "v1/Namespace", usher.Operations()[1:2], true},
		{"v1/nodes", "status", "v1/Node", usher.Operations()[1:2], true},
		{"certificates.k8s.io/v1/certificatesigningrequests", "approval", "certificates.k8s.io/v1/CertificateSigningRequest", usher.Operations()[1:2], true},
		{"authentication.k8s.io/v1/tokenreviews", "", "authentication.k8s.io/v1/TokenReview", usher.Operations()[:1], true},
	}
	var all []usher.Request
	for _, p := range places {
		namespaces := []string{"shop", "other", "kube-system"}
		if p.cluster {
			namespaces = []string{""}
		}
		if p.kind == "v1/Namespace" {
			namespaces = []string{"shop", "other"}
		}
		for _, operation := range p.operations {
			for _, namespace := range namespaces {
				for _, name := range []string{"jane", "system:apiserver", "system:node:a", "system:serviceaccount:kube-system:a", "system:kube-scheduler"} {
					r := usher.Request{
						Operation: operation, Resource: resourceOf(p.resource), Subresource: p.subresource, Kind: kindOf(p.kind),
						Namespace: namespace, Name: "a", User: usher.User{Name: name},
					}
					tree := map[string]any{"apiVersion": r.Kind.GroupVersion().String(), "kind": r.Kind.Kind, "metadata": map[string]any{"name": "a"}}
					if operation != usher.Delete {
						r.Object = usher.TreeObject(tree)
					}
					if operation == usher.Update || operation == usher.Delete {
						r.OldObject = usher.TreeObject(tree)
					}
					all = append(all, r)
					if operation == usher.Update {
						going := r
						going.Object = usher.TreeObject(map[string]any{
							"apiVersion": tree["apiVersion"], "kind": tree["kind"],
							"metadata": map[string]any{"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
						})
						all = append(all, going)
						for _, field := range []string{"labels", "annotations", "ownerReferences", "finalizers", "generateName"} {
							changed := r
							changed.Object = usher.TreeObject(map[string]any{
								"apiVersion": tree["apiVersion"], "kind": tree["kind"], "metadata": map[string]any{"name": "a", field: metadataValue(field)},
							})
							all = append(all, changed)
						}
					}
				}
			}
		}
	}
	return all
}

// policyRequests write and delete policies that say something.
func policyRequests() []usher.Request {
	users := []usher.User{
		{Name: "jane"}, {Name: "root", Groups: []string{"system:masters"}},
		{Name: "system:serviceaccount:kube-system:generic-garbage-collector"}, {Name: "system:serviceaccount:kube-system:namespace-controller"},
	}
	object := func(kind, spec string, metadata string) *usher.Object {
		text := fmt.Sprintf("{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {name: a%s}, spec: %s}", kind, metadata, spec)
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			panic(err)
		}
		return usher.TreeObject(tree)
	}
	const going = ", deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [example.com/a]"
	var all []usher.Request
	for _, resource := range []string{"authorizationpolicies", "clusterauthorizationpolicies"} {
		kind := map[string]string{"authorizationpolicies": "AuthorizationPolicy", "clusterauthorizationpolicies": "ClusterAuthorizationPolicy"}[resource]
		for _, u := range users {
			base := usher.Request{
				Resource: resourceOf("usher.dev/v1alpha1/" + resource), Kind: kindOf("usher.dev/v1alpha1/" + kind), Name: "a", User: u,
			}
			for _, spec := range []string{"{tier: platform, effect: Deny}", "{tier: platform, effect: Allow}", "{effect: Deny}", "{}"} {
				deleted := base
				deleted.Operation, deleted.OldObject = usher.Delete, object(kind, spec, "")
				emptied := base
				emptied.Operation, emptied.Object, emptied.OldObject = usher.Update, object(kind, "{effect: Allow}", going), object(kind, spec, going)
				released := base
				released.Operation, released.Object, released.OldObject = usher.Update, object(kind, spec, ", deletionTimestamp: '2026-01-01T00:00:00Z'"), object(kind, spec, going)
				all = append(all, deleted, emptied, released)
			}
			collection := base
			collection.Operation, collection.Name = usher.Delete, ""
			all = append(all, collection)
		}
	}
	return all
}

func metadataValue(field string) any {
	switch field {
	case "labels", "annotations":
		return map[string]any{"a": "b"}
	case "ownerReferences":
		return []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}}
	case "finalizers":
		return []any{"example.com/a"}
	}
	return "a-"
}

func split(text string) (schema.GroupVersion, string) {
	at := filepath.Dir(text)
	gv, err := schema.ParseGroupVersion(at)
	if err != nil {
		panic(err)
	}
	return gv, filepath.Base(text)
}

func resourceOf(text string) schema.GroupVersionResource {
	gv, name := split(text)
	return gv.WithResource(name)
}

func kindOf(text string) schema.GroupVersionKind {
	gv, name := split(text)
	return gv.WithKind(name)
}

// compiler compiles conditions as API servers do. To make one is expensive.
var compiler = sync.OnceValue(func() plugincel.ConditionCompiler {
	return plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// sends reports whether an API server sends a request to a webhook, without looking for
// other versions of its object.
func sends(t *testing.T, hook webhook.WebhookAccessor, r *usher.Request) bool {
	t.Helper()
	attributes := admission.NewAttributesRecord(object(t, r.Object), object(t, r.OldObject), r.Kind, r.Namespace, r.Name, r.Resource,
		r.Subresource, admission.Operation(r.Operation), nil, false, &user.DefaultInfo{Name: r.User.Name, Groups: r.User.Groups})
	matches := false
	for _, candidate := range hook.GetRules() {
		matches = matches || (&rules.Matcher{Rule: candidate, Attr: attributes}).Matches()
	}
	if !matches {
		return false
	}
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: r.Kind}
	versioned.VersionedObject, versioned.VersionedOldObject = object(t, r.Object), object(t, r.OldObject)
	result := hook.GetCompiledMatcher(compiler()).Match(t.Context(), versioned, nil, nil)
	if result.Error != nil {
		t.Errorf("%s: %v", r.Resource, result.Error)
	}
	return result.Matches
}

// object is nil if there is none.
func object(t *testing.T, o *usher.Object) runtime.Object {
	t.Helper()
	tree, err := o.Tree()
	if err != nil {
		t.Fatal(err)
	}
	if tree == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: tree}
}
