package lockout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// installed are the options of a cluster with Usher, as the chart installs it.
var installed = lockout.Options{Registered: webhookconfig.Options{Namespace: "usher-system"}, Upstream: true} //nolint:gochecknoglobals // constant

func decode(t testing.TB, text string) api.Policy {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return policy
}

// check returns the findings about policies.
func check(t *testing.T, o lockout.Options, texts ...string) []lockout.Finding {
	t.Helper()
	var policies []api.Policy
	for _, text := range texts {
		policies = append(policies, decode(t, text))
	}
	compiled, problems := compile.All(policies)
	if errs := rule.Errors(problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	results, err := lockout.All(context.Background(), compiled, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []lockout.Finding
	for _, result := range results {
		all = append(all, result.Findings...)
	}
	return all
}

func requests(t *testing.T) []lockout.Request {
	t.Helper()
	all, err := lockout.Requests("")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRequestsAreWhole(t *testing.T) {
	t.Parallel()
	all := requests(t)
	if len(all) < 200 {
		t.Errorf("%d requests, want at least 200", len(all))
	}
	names, groups := map[string]bool{}, map[string]int{}
	for i := range all {
		r := &all[i]
		groups[r.Group]++
		if names[r.Name] {
			t.Errorf("two requests are called %s", r.Name)
		}
		names[r.Name] = true
		if r.Name == "" || r.Group == "" || r.What == "" || r.Why == "" || r.User == "" || len(r.Groups) == 0 {
			t.Errorf("%+v lacks a text or a user", r)
		}
		asked := r.Admission(usher.Validate)
		if asked.Target() == nil && r.Operation != usher.Connect {
			t.Errorf("%s has no object", r.Name)
		}
		for _, o := range []*usher.Object{asked.Object, asked.OldObject, asked.Options} {
			if _, err := o.Tree(); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		}
		if (r.Operation == usher.Create || r.Operation == usher.Update) != (asked.Object != nil) || (r.Operation == usher.Update || r.Operation == usher.Delete) != (asked.OldObject != nil) {
			if r.Operation != usher.Connect {
				t.Errorf("%s: %s with object %t and old object %t", r.Name, r.Operation, asked.Object != nil, asked.OldObject != nil)
			}
		}
	}
	for _, group := range []string{
		"control-plane", "nodes", "static-pods", "network", "dns", "storage", "certificates", "cluster-services", "namespaces",
		"garbage-collection", "policies", "usher", "drain", "administration",
	} {
		if groups[group] < 3 {
			t.Errorf("group %s has %d requests", group, groups[group])
		}
	}
}

// TestEveryRequestIsOfUse: a policy that denies all requests of a user to an endpoint reports just these.
// What API servers ask no admission policy about is reported of policies of other kinds, as out of
// reach.
func TestEveryRequestIsOfUse(t *testing.T) {
	t.Parallel()
	type endpoint struct {
		resource, user string
		operation      usher.Operation
	}
	all := map[endpoint][]string{}
	for _, r := range requests(t) {
		key := endpoint{r.Resource, r.User, r.Operation}
		all[key] = append(all[key], r.Name)
	}
	for key, names := range all {
		sample := requests(t)[slices.IndexFunc(requests(t), func(r lockout.Request) bool { return r.Name == names[0] })]
		asked := sample.Admission(usher.Validate)
		unasked := asked.Resource.Group == "admissionregistration.k8s.io" || strings.HasSuffix(asked.Resource.Resource, "reviews")
		var findings []lockout.Finding
		if unasked {
			findings = check(t, installed, validatePolicy(asked.Kind.GroupVersion().String(), asked.Kind.Kind))
			findings = slices.DeleteFunc(findings, func(f lockout.Finding) bool {
				return f.Resource != key.resource || f.User != key.user || f.Operation != key.operation
			})
		} else {
			findings = check(t, installed, admissionPolicy(asked, key.user, "Deny")...)
		}
		var found []string
		for _, f := range findings {
			found = append(found, f.Request)
			if (f.Unreached != "") != unasked || f.Effect != lockout.Refused {
				t.Errorf("%s: %s, out of reach because %q", f.Request, f.Effect, f.Unreached)
			}
		}
		if !slices.Equal(found, names) {
			t.Errorf("%s of %s by %s: found %q, want %q", key.operation, key.resource, key.user, found, names)
		}
	}
}

func admissionPolicy(r *usher.Request, user, action string) []string {
	resource := r.Resource.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return []string{fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [%q], apiVersions: [%q], operations: [%q], resources: [%q]}]}
  validations: [{expression: "request.userInfo.username != '%s'", message: closed}]`,
		r.Resource.Group, r.Resource.Version, r.Operation, resource, user), fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [%s]}`, action)}
}

func validatePolicy(apiVersion, kind string) string {
	return fmt.Sprintf(`
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: p}
spec:
  resourceSelectors: [{apiVersion: %s, kind: %s}]
  validateRules: [{cue: 'validate: {valid: false, reason: "closed"}'}]`, apiVersion, kind)
}

func objectPolicy(spec string) string {
	return "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: p}\nspec: " + spec
}

const everything = `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]}, validations: [{expression: "false", message: closed}]`

func TestReach(t *testing.T) {
	t.Parallel()
	only := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: names},
		}}
	}
	selecting, compat := installed, installed
	selecting.Registered.NamespaceSelector = only("kube-system", "pod-network")
	compat.Registered.Compat = true
	for _, row := range []struct {
		reason, policy string
		options        lockout.Options
		// request is one of them, and why, unless empty, is part of why it is out of reach.
		request, why string
	}{
		{"leases are never sent", objectPolicy("{" + everything + "}"), installed, "node-lease", "leaves out leases"},
		{"nor nodes", objectPolicy("{" + everything + "}"), installed, "node-status", "leaves out nodes"},
		{"nor what the control plane does in kube-system", objectPolicy("{" + everything + "}"), installed, "static-etcd", "in kube-system"},
		{"unless the object asks for it", validatePolicy("v1", "Pod"), compat, "static-etcd", "objectSelector"},
		{"people in kube-system are", objectPolicy("{" + everything + "}"), installed, "coredns-applied", ""},
		{"and the network elsewhere", objectPolicy("{" + everything + "}"), installed, "route-agent-pod", ""},
		{"unless the namespace is left out", objectPolicy("{" + everything + "}"), selecting, "route-agent-pod", "namespaceSelector"},
		{"Usher's own namespace is left out", objectPolicy("{" + everything + "}"), installed, "usher-scaled-to-zero", "namespace of Usher"},
		{"also when it is deleted", objectPolicy("{" + everything + "}"), installed, "usher-namespace-deleted", "namespace of Usher"},
		{"but not by a plugin, which no registration keeps from it", objectPolicy("{" + everything + "}"), lockout.Options{}, "usher-scaled-to-zero", ""},
		{"policies can be deleted", objectPolicy("{" + everything + "}"), installed, "object-policy-deleted", "deletions of policies"},
		{"and corrected by guards only if policies let it", objectPolicy("{" + everything + "}"), installed, "object-policy-changed", ""},
		{"evictions of a team's pods are sent", objectPolicy("{" + everything + "}"), installed, "drain-eviction", ""},
		{"and the end of a namespace, to policies that name the endpoint", objectPolicy("{" + everything + "}"), installed, "namespace-finalized", ""},
		{"API servers ask admission policies themselves", admissionPolicy(lease(t), "system:node:node-1", "Deny")[0], installed, "node-lease", ""},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			texts := []string{row.policy}
			if strings.Contains(row.policy, "ValidatingAdmissionPolicy") {
				texts = append(texts, admissionPolicy(lease(t), "", "Deny")[1])
			}
			findings := check(t, row.options, texts...)
			i := slices.IndexFunc(findings, func(f lockout.Finding) bool { return f.Request == row.request })
			switch {
			case i < 0:
				t.Fatalf("no finding about %s", row.request)
			case (row.why == "") != (findings[i].Unreached == ""), !strings.Contains(findings[i].Unreached, row.why):
				t.Errorf("out of reach because %q, want %q", findings[i].Unreached, row.why)
			}
		})
	}
}

func lease(t *testing.T) *usher.Request {
	t.Helper()
	all := requests(t)
	return all[slices.IndexFunc(all, func(r lockout.Request) bool { return r.Name == "node-lease" })].Admission(usher.Validate)
}

func TestWhatIsNoLockout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, policy string }{
		{"it warns", objectPolicy("{" + everything + ", bindings: [{name: all, validationActions: [Warn, Audit]}]}")},
		{"it leaves out the users", objectPolicy("{" + everything + `, subjects: [{users: ["jane-of-shop"]}]}`)},
		{"it selects namespaces that have a label", objectPolicy(`{matchConstraints: {namespaceSelector: {matchLabels: {tenant: a}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"], scope: Namespaced}]}, validations: [{expression: "false"}]}`)},
		{"it adds what it validates", objectPolicy(`{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, podTemplates: "Off",
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"zone": "none"}}}'}}],
  validations: [{expression: "has(object.metadata.labels) && 'zone' in object.metadata.labels"}]}`)},
		{"its failures are ignored", objectPolicy(`{failurePolicy: Ignore, matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, validations: [{expression: "object.spec.absent == 1"}]}`)},
		{"it is for other objects", validatePolicy("v1", "LimitRange")},
		{"it depends on facts, which are not known", `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: p}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  validateRules: [{template: {type: condition, condition: {cond: Exist, message: closed, dataRef: {from: k8s, k8s: {apiVersion: v1, kind: ConfigMap, namespace: default, name: x}, path: /data/x}}}}]`},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			if findings := check(t, installed, row.policy); len(findings) > 0 {
				t.Errorf("%d findings, first %+v", len(findings), findings[0])
			}
		})
	}
}

// TestNoObjectPolicyBindsTheEndOfObjects: the namespace controller and the garbage collector delete
// whatever object policies say.
func TestNoObjectPolicyBindsTheEndOfObjects(t *testing.T) {
	t.Parallel()
	for _, f := range check(t, installed, objectPolicy("{"+everything+"}")) {
		if f.Operation == usher.Delete && (strings.HasSuffix(f.User, ":namespace-controller") || strings.HasSuffix(f.User, ":generic-garbage-collector")) {
			t.Errorf("%s is refused", f)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, policy string
		// says are parts of the problem; severity is that of it.
		severity rule.Severity
		says     []string
	}{
		{
			"what is refused, grouped, with the first", objectPolicy(`{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, podTemplates: "Off", validations: [{expression: "!has(object.spec.hostNetwork)", message: no node network}]}`),
			rule.Error, []string{"spec.validations[0]: the rule refuses requests without which a cluster cannot recover: a pod of the DaemonSet route-agent is made in pod-network and ", " (no node network)", "by namespace with matchConstraints.namespaceSelector, by user with excludeSubjects, or with a ClusterPolicyExemption", "(pod-network is the namespace of a sample: docs/checking.md#lock-out)"},
		},
		{
			"what two parts refuse is one problem, with three requests of different groups", objectPolicy(`{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, podTemplates: "Off", validations: [{expression: "!has(object.spec.hostNetwork)", message: no node network}, {expression: "false", message: closed}]}`),
			rule.Error, []string{"spec.validations[0]: the rule refuses requests ", "a pod of the DaemonSet route-agent is made in pod-network, a pod of the Deployment resolver is made in cluster-dns, ", " more (no node network"},
		},
		{
			"a rule that fails", objectPolicy(`{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/eviction]}]}, validations: [{expression: "object.spec.absent == 1"}]}`),
			rule.Error, []string{"the rule fails on, and so refuses, ", "an administrator evicts a pod of a team in shop, "},
		},
		{
			"a change of a workload of kube-system", objectPolicy(`{matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [daemonsets]}]}, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/minReadySeconds", value: 30}]'}}]}`),
			rule.Warning, []string{"the rule changes the spec in", "an administrator applies the DaemonSet kube-proxy in kube-system"},
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			problems := lockout.Problems(check(t, installed, row.policy))
			if len(problems) != 1 || problems[0].Severity != row.severity {
				t.Fatalf("problems %v, want one %s", problems, row.severity)
			}
			for _, text := range row.says {
				if !strings.Contains(problems[0].String(), text) {
					t.Errorf("%s\ndoes not say %q", problems[0], text)
				}
			}
		})
	}
}

// TestWith: who writes a policy is warned, and also told if there was no time.
func TestWith(t *testing.T) {
	t.Parallel()
	policy := decode(t, objectPolicy("{"+everything+"}"))
	none := func(context.Context, compile.Compiled) []rule.Problem { return nil }
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	problems := lockout.With(none, installed)(ended, compile.Policy(policy))
	if len(problems) != 1 || problems[0].Severity != rule.Warning || !strings.Contains(problems[0].What, "there was no time") {
		t.Errorf("problems %v", problems)
	}
}

// TestWithTimeOfItsOwn: samples that take all of their time leave the requests theirs.
func TestWithTimeOfItsOwn(t *testing.T) {
	t.Parallel()
	policy := decode(t, objectPolicy("{"+everything+"}"))
	long := func(ctx context.Context, _ compile.Compiled) []rule.Problem { <-ctx.Done(); return nil }
	problems := lockout.With(long, installed)(t.Context(), compile.Policy(policy))
	if !slices.ContainsFunc(problems, func(p rule.Problem) bool {
		return strings.Contains(p.What, "without which a cluster cannot recover:") && strings.Contains(p.What, "refuses")
	}) {
		t.Errorf("problems %v", problems)
	}
}

// TestWithErrors: of a policy in which the trial finds an error, nothing else is said.
func TestWithErrors(t *testing.T) {
	t.Parallel()
	policy := decode(t, objectPolicy("{"+everything+"}"))
	wrong := []rule.Problem{{Severity: rule.Mistake, What: "no Pod has it"}}
	problems := lockout.With(func(context.Context, compile.Compiled) []rule.Problem { return wrong }, installed)(t.Context(), compile.Policy(policy))
	if !slices.Equal(problems, wrong) {
		t.Errorf("problems %v", problems)
	}
}

// TestNamespaceOfUsher: the requests of Usher are for the namespace that it is in.
func TestNamespaceOfUsher(t *testing.T) {
	t.Parallel()
	all, err := lockout.Requests("policies-of-us")
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i := range all {
		if all[i].Namespace == "usher-system" {
			t.Errorf("%s is for usher-system", all[i].Name)
		}
		if all[i].Namespace == "policies-of-us" {
			moved++
		}
	}
	if moved < 10 {
		t.Errorf("%d requests are for the namespace", moved)
	}
}

func BenchmarkCheck(b *testing.B) {
	compiled := compile.Policy(decode(b, objectPolicy("{"+everything+"}")))
	for b.Loop() {
		if _, err := lockout.Check(context.Background(), compiled.Rules, installed); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTenantsAreTriedInTheirNamespace: what is said of a policy of a namespace does not depend on its name.
func TestTenantsAreTriedInTheirNamespace(t *testing.T) {
	t.Parallel()
	const policy = `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: p, namespace: %s}
spec: {` + everything + `}`
	said := map[string]int{}
	for _, namespace := range []string{"shop", "leaving", "team-b", "a", "default"} {
		for _, f := range check(t, installed, fmt.Sprintf(policy, namespace)) {
			if f.Namespace != namespace {
				t.Errorf("%s: %s", namespace, f)
			}
			said[namespace]++
		}
	}
	if said["team-b"] == 0 || said["team-b"] != said["shop"] || said["a"] != said["shop"] || said["leaving"] != said["shop"] {
		t.Errorf("findings by namespace: %v", said)
	}
}

// TestTenantsAreToldOfTheirNamespace: of a policy for one namespace, what is said is about this namespace. In
// kube-system it is about the cluster.
func TestTenantsAreToldOfTheirNamespace(t *testing.T) {
	t.Parallel()
	const policy = "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: p, namespace: %s}\n" +
		`spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], resources: [%s]}]}, validations: [{expression: "false", message: closed}]}`
	for _, row := range []struct{ namespace, operations, resources, want, do string }{
		{
			"team-a", "CREATE", "configmaps", "the rule refuses a request in team-a that Kubernetes and its administrators depend on: a namespace gets the CA of the cluster (closed)",
			"exclude them with excludeSubjects: [{serviceAccounts: [kube-system/root-ca-cert-publisher]}], ",
		},
		{
			"team-a", "DELETE", "pods", "requests in team-a that Kubernetes and its administrators depend on: kube-scheduler removes a pod for one that is more important, ",
			"exclude them with excludeSubjects, ",
		},
		{"kube-system", "CREATE", "pods", "a request without which a cluster cannot recover: ", "exclude them with excludeSubjects"},
	} {
		problems := lockout.Problems(check(t, installed, fmt.Sprintf(policy, row.namespace, row.operations, row.resources)))
		if len(problems) != 1 || !strings.Contains(problems[0].What, row.want) || !strings.HasPrefix(problems[0].Do, row.do) || problems[0].Severity != rule.Error {
			t.Errorf("%v: %v", row, problems)
		}
		if row.namespace == "team-a" && len(problems) > 0 && strings.Contains(problems[0].What, "control-plane") {
			t.Errorf("%v: %v", row, problems)
		}
	}
}
