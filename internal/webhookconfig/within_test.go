package webhookconfig_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

const nameLabel = "kubernetes.io/metadata.name"

// TestNoRequestIsLost: whatever policies say of namespaces, a request that one of them denies or changes is sent,
// and what is sent is what is covered.
func TestNoRequestIsLost(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(4, 2))
	acted, unsent := 0, 0
	for range 25 {
		var policies []string
		for i := range 1 + random.IntN(5) {
			policies = append(policies, randomPolicy(random, fmt.Sprint("p", i)))
		}
		text := strings.Join(policies, "---\n")
		l := following(t, text)
		sent := sender(t, l.Rules())
		decider := deciderOf(l.Rules())
		for _, r := range namespacedRequests() {
			at := *r
			at.Entry = webhookconfig.WholeEntryOf(r)
			d, err := decider.Decide(t.Context(), &at)
			if err != nil {
				t.Fatal(err)
			}
			got := sent(r)
			if acts := d.Verdict == usher.Deny || len(d.Patch) > 0; acts && !got {
				t.Fatalf("lost: %s\n%s", describe(r), text)
			} else if acts {
				acted++
			}
			if covered := l.Covers(r); covered != got {
				t.Fatalf("covered %v, sent %v: %s\n%s", covered, got, describe(r), text)
			}
			if !got {
				unsent++
			}
		}
	}
	if acted < 200 || unsent < 200 {
		t.Errorf("policies act on %d requests, and %d are not sent", acted, unsent)
	}
}

// TestTenantsChangeNothingForOthers: with policies of namespaces, what is sent is what those of the cluster need
// and what those of namespaces need.
func TestTenantsChangeNothingForOthers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 5))
	for range 15 {
		var all [2][]rule.Rule
		var texts []string
		for i := range 6 {
			text := randomPolicy(random, fmt.Sprint("p", i))
			of := 0
			if strings.Contains(text, "kind: ObjectPolicy") || strings.Contains(text, "kind: OverridePolicy") {
				of = 1
			}
			texts = append(texts, text)
			all[of] = append(all[of], following(t, text).Rules()...)
		}
		both, cluster, tenants := sender(t, append(all[0], all[1]...)), sender(t, all[0]), sender(t, all[1])
		for _, r := range namespacedRequests() {
			if got, want := both(r), cluster(r) || tenants(r); got != want {
				t.Fatalf("sent %v, want %v: %s\n%s", got, want, describe(r), strings.Join(texts, "---\n"))
			}
		}
	}
}

// TestManyTenants: more namespaces than a condition names, and more kinds of policies than it tells apart, change
// nothing about what the cluster's policies leave out, and lose nothing.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	cluster := following(t, objectPolicy("ClusterObjectPolicy", "c", "", "pods", "kube-system, other")).Rules()
	ofTenant := following(t, objectPolicy("ObjectPolicy", "t", "n0", "configmaps", "")).Rules()
	var tenants []rule.Rule
	for i := range 300 {
		for _, r := range ofTenant {
			if r.Policy.Name != "t" || r.Pod != nil {
				continue
			}
			r.Match.Namespace = fmt.Sprint("n", i)
			r.Match.Resources = []rule.ResourceMatch{{Rules: []rule.ResourceRule{{
				Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"configmaps", strings.Repeat("x", 63) + fmt.Sprint(i)}, Operations: []usher.Operation{usher.Create},
			}}}}
			tenants = append(tenants, r)
		}
		if i != 20 && i != 99 && i != 299 {
			continue
		}
		sent := sender(t, append(cluster, tenants...))
		for namespace, want := range map[string]bool{"kube-system": false, "other": false, "shop": true} {
			r := namespacedRequest(usher.Validate, usher.Create, "pods", "Pod", namespace)
			if got := sent(r); got != want {
				t.Errorf("%d tenants: pods in %s are sent: %v", i+1, namespace, got)
			}
			if r = namespacedRequest(usher.Validate, usher.Create, "configmaps", "ConfigMap", namespace); namespace != "shop" && sent(r) {
				t.Errorf("%d tenants: config maps in %s are sent", i+1, namespace)
			}
		}
		for k := range i + 1 {
			if !sent(namespacedRequest(usher.Validate, usher.Create, "configmaps", "ConfigMap", fmt.Sprint("n", k))) {
				t.Fatalf("%d tenants: config maps in n%d are not sent", i+1, k)
			}
		}
	}
}

// TestNamespacesOfPolicies: what policies say about namespaces by name becomes one condition.
func TestNamespacesOfPolicies(t *testing.T) {
	t.Parallel()
	const out, in = "!(has(request.namespace) && request.namespace in ['%s'])", "!has(request.namespace) || request.namespace in ['%s']"
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprint("n", i))
	}
	for _, row := range []struct {
		reason, want string
		policies     []string
	}{
		{"one excludes a namespace", fmt.Sprintf(out, "kube-system"), []string{objectPolicy("ClusterObjectPolicy", "a", "", "pods", "kube-system")}},
		{
			"all exclude one, some another", fmt.Sprintf(out, "kube-system"),
			[]string{objectPolicy("ClusterObjectPolicy", "a", "", "pods", "kube-system"), objectPolicy("ClusterObjectPolicy", "b", "", "pods", "kube-system, other")},
		},
		{"one excludes none", "", []string{objectPolicy("ClusterObjectPolicy", "a", "", "pods", "kube-system"), objectPolicy("ClusterObjectPolicy", "b", "", "pods", "")}},
		{"too many", "", []string{objectPolicy("ClusterObjectPolicy", "a", "", "pods", strings.Join(many, ", "))}},
		{"a tenant", "has(request.namespace) && request.namespace in ['shop']", []string{objectPolicy("ObjectPolicy", "a", "shop", "pods", "")}},
		{"a tenant of what is sent anyway", "", []string{objectPolicy("ObjectPolicy", "a", "shop", "pods", ""), objectPolicy("ClusterObjectPolicy", "b", "", "pods", "")}},
		{
			"bindings for some", fmt.Sprintf(in, "other', 'shop"),
			[]string{objectPolicy("ClusterObjectPolicy", "a", "", "pods", "") + bindingsFor("shop", "other")},
		},
		{
			"labels do not narrow", "",
			[]string{objectPolicy("ClusterObjectPolicy", "a", "", "pods", "") + "  bindings: [{matchResources: {namespaceSelector: {matchLabels: {env: a}}}}]\n"},
		},
	} {
		_, v, err := webhookconfig.New(nil, mapper(), webhookconfig.Options{}).Objects(rule.Cover(following(t, strings.Join(row.policies, "---\n")).Rules()), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range v.Webhooks[0].MatchConditions {
			if c.Name == "namespaces-with-policies" {
				got = c.Expression
			}
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", row.reason, got, row.want)
		}
	}
}

func bindingsFor(namespaces ...string) string {
	s := "  bindings:\n"
	for _, n := range namespaces {
		s += "  - {matchResources: {namespaceSelector: {matchLabels: {" + nameLabel + ": " + n + "}}}}\n"
	}
	return s
}

// objectPolicy denies everything it is for, which is not what is in excluded namespaces.
func objectPolicy(kind, name, namespace, resource, excluded string) string {
	selector := ""
	if excluded != "" {
		selector = fmt.Sprintf(", namespaceSelector: {matchExpressions: [{key: %s, operator: NotIn, values: [%s]}]}", nameLabel, excluded)
	}
	return fmt.Sprintf(`apiVersion: usher.dev/v1alpha1
kind: %s
metadata: {name: %s, namespace: %q}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [%s]}]%s}
  validations: [{expression: "false"}]
`, kind, name, namespace, resource, selector)
}

func pick(random *rand.Rand, words ...string) string { return words[random.IntN(len(words))] }

// randomSelector selects namespaces.
func randomSelector(random *rand.Rand) string {
	requirement := func() string {
		key, values := pick(random, nameLabel, nameLabel, "env"), []string{"a", "b"}
		if key == nameLabel {
			values = []string{"kube-system", "shop", "other", "missing"}
		}
		random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		values = values[:1+random.IntN(len(values))]
		operator := pick(random, "In", "NotIn", "NotIn", "Exists", "DoesNotExist")
		if operator == "Exists" || operator == "DoesNotExist" {
			return fmt.Sprintf("{key: %s, operator: %s}", key, operator)
		}
		return fmt.Sprintf("{key: %s, operator: %s, values: [%s]}", key, operator, strings.Join(values, ", "))
	}
	switch random.IntN(5) {
	case 0:
		return "{}"
	case 1:
		return fmt.Sprintf("{matchLabels: {%s: %s}}", nameLabel, pick(random, "shop", "other"))
	case 2:
		return "{matchExpressions: [" + requirement() + ", " + requirement() + "]}"
	default:
		return "{matchExpressions: [" + requirement() + "]}"
	}
}

func randomPolicy(random *rand.Rand, name string) string {
	kind := pick(random, "ClusterObjectPolicy", "ClusterObjectPolicy", "ClusterObjectPolicy", "ObjectPolicy", "ObjectPolicy", "OverridePolicy", "ClusterOverridePolicy", "Validating")
	namespace := ""
	if kind == "ObjectPolicy" || kind == "OverridePolicy" {
		namespace = pick(random, "kube-system", "shop", "other")
	}
	if strings.Contains(kind, "Override") {
		text := policyText(kind, namespace, "v1", pick(random, "Pod", "ConfigMap", "Namespace"), "CREATE, UPDATE")
		return strings.Replace(text, "name: a,", "name: "+name+",", 1)
	}
	constraints := fmt.Sprintf(`{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], resources: [%s]}], namespaceSelector: %s}`,
		pick(random, "CREATE", "CREATE, UPDATE", "CREATE, UPDATE, DELETE"), pick(random, "pods", "configmaps", "namespaces", "pods, namespaces", "persistentvolumes, pods", `"*"`, "namespaces/status"), randomSelector(random))
	if kind == "Validating" {
		return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec: {matchConstraints: %[2]s, validations: [{expression: "false"}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny], matchResources: {namespaceSelector: %[3]s}}
`, name, constraints, randomSelector(random))
	}
	text := fmt.Sprintf("apiVersion: usher.dev/v1alpha1\nkind: %s\nmetadata: {name: %s, namespace: %q}\nspec:\n  matchConstraints: %s\n", kind, name, namespace, constraints)
	if random.IntN(2) == 0 {
		text += "  validations: [{expression: \"false\"}]\n"
	} else {
		text += "  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: \"add\", path: \"/metadata/annotations\", value: {\"a\": \"b\"}}]'}}]\n"
	}
	if strings.Contains(text, "mutations:") {
		text += pick(random, "", "  reinvocationPolicy: IfNeeded\n")
	}
	for i := range random.IntN(3) {
		if i == 0 {
			text += "  bindings:\n"
		}
		text += fmt.Sprintf("  - {name: b%d, validationActions: [Deny], matchResources: {namespaceSelector: %s}}\n", i, randomSelector(random))
	}
	return text
}

func namespacedRequest(phase usher.Phase, operation usher.Operation, resource, kind, namespace string) *usher.Request {
	r := &usher.Request{
		Phase: phase, Operation: operation, Resource: resourceOf("v1/" + resource), Kind: kindOf("v1/" + kind), Namespace: namespace, Name: "a",
		User: usher.User{Name: "jane"},
	}
	metadata := map[string]any{"name": "a", "namespace": namespace}
	switch kind {
	case "Namespace":
		r.Name = namespace
		metadata = namespaceObject(namespace)["metadata"].(map[string]any)
	case "PersistentVolume":
		r.Namespace, metadata = "", map[string]any{"name": "a"}
	}
	tree := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata}
	if operation != usher.Delete {
		r.Object = usher.TreeObject(tree)
	}
	if operation != usher.Create {
		r.OldObject = usher.TreeObject(tree)
	}
	return r
}

// namespacedRequests are requests of a user for objects in namespaces, in none, and for namespaces.
func namespacedRequests() []*usher.Request {
	var all []*usher.Request
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		for _, namespace := range []string{"kube-system", "shop", "other", "new"} {
			for _, operation := range usher.Operations()[:3] {
				for _, of := range [][2]string{{"pods", "Pod"}, {"configmaps", "ConfigMap"}, {"namespaces", "Namespace"}, {"persistentvolumes", "PersistentVolume"}} {
					all = append(all, namespacedRequest(phase, operation, of[0], of[1], namespace))
				}
			}
			status := namespacedRequest(phase, usher.Update, "namespaces", "Namespace", namespace)
			status.Subresource = "status"
			all = append(all, status)
		}
		// The name of this one is made later. Who creates it chooses the labels.
		unnamed := namespacedRequest(phase, usher.Create, "namespaces", "Namespace", "kube-system")
		unnamed.Name, unnamed.Namespace = "", ""
		all = append(all, unnamed)
	}
	return all
}

func namespaceObject(name string) map[string]any {
	env := map[string]any{"kube-system": "a", "shop": "b", "other": "a"}[name]
	labels := map[string]any{nameLabel: name}
	if env != nil {
		labels["env"] = env
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels}}
}

// deciderOf decides by rules, and knows the namespaces.
func deciderOf(rules []rule.Rule) usher.Decider {
	facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		if o, ok := ref.(*fact.Object); ok && o.Kind == "Namespace" {
			return namespaceObject(o.Name), nil
		}
		return nil, fmt.Errorf("no fact %v", ref)
	})
	by := func(some []rule.Rule) usher.Decider {
		return engine.New(index.New(some), facts, engine.Options{FailurePolicy: usher.Fail})
	}
	return engine.NewEntries(rules, rule.Cover(rules).Entries(), by(rules), by)
}

// sender returns a function that reports whether an API server sends a request to an entry for rules.
func sender(t *testing.T, rules []rule.Rule) func(*usher.Request) bool {
	t.Helper()
	m, v, err := webhookconfig.New(nil, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher", Log: silent}).Objects(rule.Cover(rules), []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	if err := acceptable(t, v); err != nil {
		t.Fatalf("an API server rejects %v: %v", v, err)
	}
	hooks := accessors(m, v)
	return func(r *usher.Request) bool {
		for _, hook := range hooks[r.Phase] {
			if sends(t, hook, r) {
				if from := webhookconfig.SentFrom(hook.GetMatchConditions()); r.Namespace != "" && !from.Has(r.Namespace) {
					t.Errorf("sent from %v only: %s", from, describe(r))
				}
				return true
			}
		}
		return false
	}
}

func describe(r *usher.Request) string {
	return fmt.Sprintf("%s %s %s/%s %s in %q", r.Phase, r.Operation, r.Resource.Resource, r.Subresource, r.Name, r.Namespace)
}
