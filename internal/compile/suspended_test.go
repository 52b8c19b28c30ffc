package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// specs has a spec of every kind, with the API version, by kind.
func specs() map[string][2]string {
	const match = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}"
	const exempts = "reason: r, owner: o, expiresAt: '2999-01-01T00:00:00Z', policyRefs: [{kind: ClusterObjectPolicy, name: p}]"
	const access = "subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods, pods/*]}]"
	const pods = "resourceSelectors: [{apiVersion: v1, kind: Pod}], "
	const ours, theirs = "usher.dev/v1alpha1", "policy.kcloudlabs.io/v1alpha1"
	const override = pods + "overrideRules: [{overriders: {plaintext: [{op: add, path: /data, value: {}}]}}]"
	return map[string][2]string{
		"ClusterValidatePolicy":      {theirs, pods + `validateRules: [{cue: 'validate: {valid: false, reason: "no"}'}]`},
		"ClusterOverridePolicy":      {theirs, override},
		"OverridePolicy":             {theirs, override},
		"ClusterObjectPolicy":        {ours, match + ", validations: [{expression: 'false'}]"},
		"ObjectPolicy":               {ours, match + ", validations: [{expression: 'false'}]"},
		"ClusterAuthorizationPolicy": {ours, "effect: Deny, message: closed, " + access},
		"AuthorizationPolicy":        {ours, "effect: Allow, " + access},
		"ClusterPolicyExemption":     {ours, exempts},
		"PolicyExemption":            {ours, exempts},
	}
}

// ofKind is a policy of a kind, with more fields of its spec and annotations, which end with ", ".
func ofKind(t *testing.T, kind, spec, annotations string) api.Policy {
	t.Helper()
	of := specs()[kind]
	namespace := ""
	if !strings.HasPrefix(kind, "Cluster") {
		namespace = ", namespace: shop"
	}
	return decode(t, "p.yaml", fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nmetadata: {name: p%s, annotations: {%s}}\nspec: {%s%s}\n", of[0], kind, namespace, annotations, spec, of[1]))
}

// TestSuspended: a suspended policy of every kind has nothing that decides, and says so.
func TestSuspended(t *testing.T) {
	t.Parallel()
	for _, kind := range api.Kinds() {
		if kind.Candidate {
			// It decides nothing anyway.
			continue
		}
		t.Run(kind.Kind, func(t *testing.T) {
			t.Parallel()
			spec, annotations := "suspend: true, ", "usher.dev/suspended: jane at noon"
			field := "spec.suspend"
			if kind.Group != "usher.dev" {
				spec, annotations = "", annotations+`, usher.dev/suspend: "true"`
				field = "metadata.annotations[usher.dev/suspend]"
			}
			if active := compile.Policy(ofKind(t, kind.Kind, "", "")); !decides(&active) || len(active.Problems) > 0 {
				t.Fatalf("it decides: %v, %v", decides(&active), active.Problems)
			}
			c := compile.Policy(ofKind(t, kind.Kind, spec, annotations))
			if decides(&c) {
				t.Error("it decides something")
			}
			if len(c.Problems) != 1 || c.Problems[0].Severity != rule.Warning || c.Problems[0].Field != field ||
				!strings.Contains(c.Problems[0].What, " is suspended by jane at noon: it ") {
				t.Errorf("problems %v, want a warning at %s", c.Problems, field)
			}
		})
	}
}

// TestWhoIsOneShortLine: what stands in the annotation does not look like something else, and is short.
func TestWhoIsOneShortLine(t *testing.T) {
	t.Parallel()
	p := ofKind(t, "ClusterObjectPolicy", "suspend: true, ", "")
	p.Object.SetAnnotations(map[string]string{api.AnnotationSuspended: "jane\nerror: " + strings.Repeat("x", 5000)})
	if got := compile.Suspended(p.Object); len(got) > 400 || !strings.HasPrefix(got, "the policy is suspended by jane error: xx") {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
}

// decides reports whether something of a policy decides, or exempts.
func decides(c *compile.Compiled) bool {
	all := []compile.Compiled{*c}
	for _, r := range compile.Order(all) {
		if r.Policy != (usher.PolicyRef{}) {
			return true
		}
	}
	return len(compile.Access(all)) > 0 || c.Exemption != nil
}

// TestAnnotationsThatDoNotSuspend: who believes that a policy is suspended learns that it is not.
func TestAnnotationsThatDoNotSuspend(t *testing.T) {
	t.Parallel()
	const not = "it does not suspend the policy, which is in force"
	for _, test := range []struct {
		reason, kind, annotation string
		want                     []rule.Problem
	}{
		{"another value", "ClusterValidatePolicy", `usher.dev/suspend: "yes"`, []rule.Problem{
			{Severity: rule.Warning, What: `"yes" does not suspend the policy, which is in force`, Do: `write "true" to suspend it, or remove the annotation`},
		}},
		{"false is what it says", "ClusterValidatePolicy", `usher.dev/suspend: "false"`, nil},
		{"a kind with a field", "ClusterObjectPolicy", `usher.dev/suspend: "true"`, []rule.Problem{
			{Severity: rule.Warning, What: "it suspends policies of kinitiras, and not this one", Do: "set spec.suspend, and remove the annotation: kubectl annotate clusterobjectpolicy p usher.dev/suspend-"},
		}},
		{"who has suspended it", "ClusterObjectPolicy", `usher.dev/suspended: "true"`, []rule.Problem{{Severity: rule.Warning, What: not, Do: "did you mean spec.suspend?"}}},
		{"who has suspended one of kinitiras", "ClusterValidatePolicy", `usher.dev/suspended: "true"`, []rule.Problem{{Severity: rule.Warning, What: not, Do: "did you mean usher.dev/suspend?"}}},
		{"misspelled", "OverridePolicy", `usher.dev/supsend: "true"`, []rule.Problem{{Severity: rule.Warning, What: not, Do: "did you mean usher.dev/suspend?"}}},
		{"of somebody else", "ObjectPolicy", `other.dev/suspend: "true"`, nil},
		{"about something else", "ObjectPolicy", `usher.dev/since: noon`, nil},
	} {
		c := compile.Policy(ofKind(t, test.kind, "", test.annotation))
		if !decides(&c) {
			t.Errorf("%s: it decides nothing", test.reason)
		}
		name, _, _ := strings.Cut(test.annotation, ":")
		for i := range test.want {
			test.want[i].Field = "metadata.annotations[" + name + "]"
		}
		if diff := cmp.Diff(test.want, c.Problems, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(rule.Problem{}, "Policy", "File", "Line")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.reason, diff)
		}
	}
}

// TestInShort: what kubectl get shows of a policy.
func TestInShort(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: p}\nspec: "
	const pods = "{matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, "
	for _, test := range []struct{ reason, policy, action, kinds string }{
		{"without bindings it denies", object + pods + "validations: [{expression: 'false'}]}", "Deny", "pods"},
		{
			"all bindings count, one without actions denies",
			object + pods + "validations: [{expression: 'false'}], bindings: [{validationActions: [Audit, Warn]}, {}]}", "Deny,Warn,Audit", "pods",
		},
		{"a mutation", object + pods + "mutations: [{jsonPatch: {expression: '[]'}}]}", "Mutate", "pods"},
		{"only annotations", object + pods + "auditAnnotations: [{key: k, valueExpression: \"'v'\"}]}", "Audit", "pods"},
		{
			"many kinds, some of them twice",
			object + "{validations: [{expression: 'false'}], matchConstraints: {resourceRules: [{apiGroups: [''], resources: [pods, services]}, " +
				"{apiGroups: [apps], resources: [deployments]}, {apiGroups: [''], resources: [pods]}, {apiGroups: ['*'], resources: ['*', a, b]}]}}",
			"Deny", "pods,services,deployments.apps,*,a.*,…",
		},
		{"of kinitiras", "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {name: p}\nspec: {resourceSelectors: [{apiVersion: v1, kind: Pod}, {apiVersion: apps/v1, kind: Deployment}], overrideRules: []}", "Mutate", "Pod,Deployment.apps"},
		{"for all kinds", "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterValidatePolicy\nmetadata: {name: p}\nspec: {validateRules: []}", "Deny", "*"},
		{"not about writes", "apiVersion: usher.dev/v1alpha1\nkind: ClusterAuthorizationPolicy\nmetadata: {name: p}\nspec: {effect: Deny}", "", ""},
	} {
		c := compile.Policy(decode(t, "p.yaml", []byte(test.policy)))
		if c.Action() != test.action || c.Kinds() != test.kinds {
			t.Errorf("%s: got %q and %q, want %q and %q", test.reason, c.Action(), c.Kinds(), test.action, test.kinds)
		}
	}
}
