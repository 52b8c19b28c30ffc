package webhookconfig_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/simulate"
)

// resourceRule is a rule for v1 of a group.
func resourceRule(group, operations string, resources ...string) rule.ResourceRule {
	r := rule.ResourceRule{Groups: []string{group}, Versions: []string{"v1"}, Resources: resources}
	for word := range strings.FieldsSeq(operations) {
		r.Operations = append(r.Operations, usher.Operation(word))
	}
	return r
}

// TestRulesOfSeveralPolicies: API servers reject a rule that names a wildcard and what it matches.
func TestRulesOfSeveralPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		rules  []rule.ResourceRule
		want   []string
	}{
		{"subresources of one and of all", []rule.ResourceRule{resourceRule("apps", "UPDATE", "deployments/scale"), resourceRule("apps", "UPDATE", "*/scale")}, []string{"UPDATE of apps/v1 */scale"}},
		{"all subresources of one", []rule.ResourceRule{resourceRule("", "CREATE", "pods", "pods/eviction", "pods/*")}, []string{"CREATE of /v1 pods/*"}},
		{"everything", []rule.ResourceRule{resourceRule("", "CREATE", "*/*"), resourceRule("", "CREATE", "*", "pods", "*/scale", "pods/exec")}, []string{"CREATE of /v1 */*"}},
		{"all resources", []rule.ResourceRule{resourceRule("", "CREATE", "*"), resourceRule("", "CREATE", "pods", "pods/exec")}, []string{"CREATE of /v1 *,pods/exec"}},
		{"other operations stay", []rule.ResourceRule{resourceRule("", "CREATE", "*"), resourceRule("", "CREATE UPDATE", "pods")}, []string{"CREATE of /v1 *", "UPDATE of /v1 pods"}},
		{"other groups stay", []rule.ResourceRule{resourceRule("", "CREATE", "*"), resourceRule("apps", "CREATE", "deployments")}, []string{"CREATE of /v1 *", "CREATE of apps/v1 deployments"}},
		{"a group among all", []rule.ResourceRule{resourceRule("*", "CREATE", "*"), resourceRule("apps", "CREATE", "deployments")}, []string{"CREATE of */v1 *"}},
		{"every operation", []rule.ResourceRule{resourceRule("*", "", "*/*"), resourceRule("apps", "CREATE", "deployments")}, []string{"CONNECT,CREATE,DELETE,UPDATE of */v1 */*"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range validatingRules(t, test.rules) {
				var operations []string
				for _, o := range r.Operations {
					operations = append(operations, string(o))
				}
				got = append(got, fmt.Sprintf("%s of %s/%s %s", strings.Join(operations, ","), r.APIGroups[0], r.APIVersions[0], strings.Join(r.Resources, ",")))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRulesMatchWhatPoliciesDo registers sets of rules: an API server accepts each, and sends what
// one of the rules is for and nothing else.
func TestRulesMatchWhatPoliciesDo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) []string {
		return []string{words[random.IntN(len(words))], words[random.IntN(len(words))]}
	}
	for i := range 400 {
		var all []rule.ResourceRule
		for range 1 + random.IntN(5) {
			r := resourceRule("", strings.Join(slices.Compact(pick("CREATE", "UPDATE", "DELETE", "CONNECT")), " "))
			r.Groups, r.Versions, r.Scope = pick("", "apps", "*"), pick("v1", "v2", "*"), rule.Scope(pick("", "", "Cluster", "Namespaced")[0])
			r.Resources = append(pick("pods", "pods/*", "pods/exec", "*", "*/*", "*/scale"), pick("deployments", "deployments/scale", "*/exec", "pods/scale")...)
			all = append(all, r)
		}
		registered := validatingRules(t, all)
		for _, r := range requestsFor() {
			want := slices.ContainsFunc(all, func(s rule.ResourceRule) bool { return s.Matches(&r) })
			got := slices.ContainsFunc(registered, func(s admissionv1.RuleWithOperations) bool { return matches(s, &r) })
			if got != want {
				t.Fatalf("set %d: %s of %v/%s in %q: sent %t, want %t; rules %v, registered %v", i, r.Operation, r.Resource, r.Subresource, r.Namespace, got, want, all, registered)
			}
		}
	}
}

// requestsFor are requests of all sorts.
func requestsFor() []usher.Request {
	var all []usher.Request
	for _, group := range []string{"", "apps", "other"} {
		for _, version := range []string{"v1", "v2", "v3"} {
			for _, resource := range []string{"pods", "deployments", "services"} {
				for _, subresource := range []string{"", "exec", "scale", "status"} {
					for _, operation := range usher.Operations() {
						for _, namespace := range []string{"", "shop"} {
							all = append(all, usher.Request{
								Operation: operation, Namespace: namespace, Subresource: subresource,
								Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
							})
						}
					}
				}
			}
		}
	}
	return all
}

// matches is Matches of k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
func matches(s admissionv1.RuleWithOperations, r *usher.Request) bool {
	has := func(words []string, word string) bool {
		return slices.Contains(words, "*") || slices.Contains(words, word)
	}
	scope := map[bool]admissionv1.ScopeType{true: admissionv1.NamespacedScope, false: admissionv1.ClusterScope}[r.Namespace != ""]
	return has(s.APIGroups, r.Resource.Group) && has(s.APIVersions, r.Resource.Version) &&
		slices.Contains(s.Operations, admissionv1.OperationType(r.Operation)) && (*s.Scope == admissionv1.AllScopes || *s.Scope == scope) &&
		slices.ContainsFunc(s.Resources, func(text string) bool {
			resource, subresource, _ := strings.Cut(text, "/")
			return has([]string{resource}, r.Resource.Resource) && has([]string{subresource}, r.Subresource)
		})
}

// validatingRules are those that are registered for policies that validate, which an API server
// accepts.
func validatingRules(t *testing.T, all []rule.ResourceRule) []admissionv1.RuleWithOperations {
	t.Helper()
	e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher", Log: silent})
	var coverage rule.Coverage
	for _, r := range all {
		coverage.ValidateResources = append(coverage.ValidateResources, rule.CoveredResource{ResourceRule: r})
	}
	_, v, err := e.Objects(coverage, []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(v.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return w.Name == "validate.usher.dev" })
	only := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: v.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: "usher"}, Webhooks: v.Webhooks[i : i+1]}
	if err := acceptable(t, only); err != nil {
		t.Fatalf("an API server rejects %v: %v", v.Webhooks[i].Rules, err)
	}
	return v.Webhooks[i].Rules
}

// acceptable returns why an API server does not accept a configuration.
func acceptable(t *testing.T, v *admissionv1.ValidatingWebhookConfiguration) error {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	_, err = simulate.FromObjects([]map[string]any{tree})
	return err
}

// TestAcceptableTellsTheDifference: the checks of an API server are at work.
func TestAcceptableTellsTheDifference(t *testing.T) {
	t.Parallel()
	none, url, all := admissionv1.SideEffectClassNone, "https://usher.example", admissionv1.AllScopes
	v := &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: "usher"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.usher.dev", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"*/scale", "pods/scale"}, Scope: &all},
			}},
		}},
	}
	if err := acceptable(t, v); err == nil || !strings.Contains(err.Error(), "*/scale") {
		t.Errorf("error %v, want that */scale and pods/scale exclude each other", err)
	}
}
