package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
)

// places are those of a few kinds.
func places(_ context.Context, gvk schema.GroupVersionKind) ([]guard.Place, error) {
	at := func(resource, subresource string, verbs ...string) guard.Place {
		return guard.Place{GroupResource: schema.GroupResource{Group: gvk.Group, Resource: resource}, Subresource: subresource, Verbs: verbs}
	}
	switch gvk.Kind {
	case "Pod":
		return []guard.Place{at("pods", "", "create", "update", "delete"), at("pods", "ephemeralcontainers", "update")}, nil
	case "ConfigMap", "Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "CronJob", "Secret":
		return []guard.Place{at(strings.ToLower(gvk.Kind)+"s", "", "create", "update", "delete")}, nil
	case "PodExecOptions":
		return []guard.Place{at("pods", "exec", "create")}, nil
	case "Flaky":
		return nil, errors.New("no route")
	}
	return nil, nil
}

func override(spec v1alpha1.OverridePolicySpec) compile.Compiled {
	p := &v1alpha1.OverridePolicy{Spec: spec}
	p.Name, p.Namespace = "p", "shop"
	return compile.Policy(api.Policy{Object: p})
}

func spec(ref *v1alpha1.ResourceRefer, selectors ...v1alpha1.ResourceSelector) v1alpha1.OverridePolicySpec {
	t := &v1alpha1.OverrideRuleTemplate{Type: v1alpha1.TemplateLabels, Operation: v1alpha1.OperatorAdd, Path: "team", ValueRef: ref}
	if ref == nil {
		text := "a"
		t.Value = &v1alpha1.ConstantValue{String: &text}
	}
	return v1alpha1.OverridePolicySpec{
		ResourceSelectors: selectors,
		OverrideRules:     []v1alpha1.OverrideRule{{Overriders: v1alpha1.Overriders{Template: t}}},
	}
}

func kind(apiVersion, kind string) v1alpha1.ResourceSelector {
	return v1alpha1.ResourceSelector{APIVersion: apiVersion, Kind: kind}
}

func k8s(s v1alpha1.ResourceSelector) *v1alpha1.ResourceRefer {
	return &v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/data/team", K8s: &s}
}

func TestRightsOfPoliciesOfANamespace(t *testing.T) {
	t.Parallel()
	pods := kind("v1", "Pod")
	writesPods := []string{"create pods in shop", "update pods in shop"}
	for _, test := range []struct {
		reason string
		spec   v1alpha1.OverridePolicySpec
		want   []string
	}{
		{"what it acts on, to create and to update", spec(nil, pods), writesPods},
		{"a kind counts once", spec(nil, pods, pods), writesPods},
		{"a name does not make it less: who creates objects chooses their names", spec(nil, v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Pod", Name: "a"}), writesPods},
		{"several kinds", spec(nil, pods, kind("apps/v1", "Deployment")), slices.Concat([]string{"create deployments.apps in shop", "update deployments.apps in shop"}, writesPods)},
		{"every kind", spec(nil), []string{"create *.* in shop", "update *.* in shop"}},
		{"a kind that nobody knows may become any resource", spec(nil, kind("example.com/v1", "Widget")), []string{"create *.* in shop", "update *.* in shop"}},
		{"a subresource with a kind of its own", spec(nil, kind("v1", "PodExecOptions")), []string{"create pods/exec in shop"}},
		{"a selector for another namespace selects nothing", spec(nil, v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Pod", Namespace: "bank"}), nil},
		{"what it reads by name", spec(k8s(v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "db"}), pods), append(slices.Clone(writesPods), "get secrets db in shop")},
		{"what it reads by a name from the object", spec(k8s(v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Namespace: "{{metadata.namespace}}", Name: "{{metadata.name}}"}), pods), append(slices.Clone(writesPods), "get configmaps in shop")},
		{"its own Namespace can be read by everybody in it", spec(k8s(v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Namespace", Name: "shop"}), pods), writesPods},
		{"owners", spec(&v1alpha1.ResourceRefer{From: v1alpha1.FromOwner, Path: "/metadata/name"}, pods), append(slices.Clone(writesPods),
			"get daemonsets.apps in shop", "get deployments.apps in shop", "get replicasets.apps in shop", "get statefulsets.apps in shop", "get cronjobs.batch in shop", "get jobs.batch in shop")},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			rights, err := guard.RightsOf(t.Context(), usher.User{Name: "mallory"}, override(test.spec), places)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, right := range rights {
				if r := right.Ask; r.User.Name != "mallory" || r.Namespace != "shop" || right.Or != nil {
					t.Errorf("asks %+v", right)
				}
				got = append(got, question(right.Ask))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func question(r *usher.Request) string {
	resource := r.Resource.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Resource.Group != "" {
		resource += "." + r.Resource.Group
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s in %s", r.Access.Verb, resource, r.Name, r.Namespace)), " ")
}

// TestRightsOfObjectPolicies: what a policy of a namespace decides about, its author may do, and what
// it reads, its author may read.
func TestRightsOfObjectPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, resources, spec string
		want                    []string
	}{
		{
			"verbs follow from operations", `[{apiGroups: [""], apiVersions: [v1], operations: [CREATE, DELETE], resources: [pods]}]`, "",
			[]string{"create pods in shop", "delete pods in shop"},
		},
		{
			"all operations", `[{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}]`, "",
			[]string{"create deployments.apps in shop", "delete deployments.apps in shop", "update deployments.apps in shop"},
		},
		{
			"every resource", `[{apiGroups: ["*"], apiVersions: ["*"], operations: [UPDATE], resources: ["*"]}]`, "",
			[]string{"update *.* in shop"},
		},
		{
			"subresources", `[{apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]`, "",
			[]string{"create pods/exec in shop"},
		},
		{
			"params", `[{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`,
			`, paramKind: {apiVersion: v1, kind: ConfigMap}, bindings: [{name: a, paramRef: {selector: {}, parameterNotFoundAction: Allow}}]`,
			[]string{"create pods in shop", "list configmaps in shop"},
		},
		{
			"warnings of the pods of workloads", `[{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`, ", podTemplates: Warn",
			[]string{"create pods in shop"},
		},
		{
			"denials of workloads", `[{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`, ", podTemplates: Deny",
			[]string{
				"create cronjobs.batch in shop", "create daemonsets.apps in shop", "create deployments.apps in shop", "create jobs.batch in shop", "create pods in shop",
				"create replicasets.apps in shop", "create replicationcontrollers in shop", "create statefulsets.apps in shop",
				"update cronjobs.batch in shop", "update daemonsets.apps in shop", "update deployments.apps in shop", "update jobs.batch in shop",
				"update replicasets.apps in shop", "update replicationcontrollers in shop", "update statefulsets.apps in shop",
			},
		},
	} {
		var p usherv1alpha1.ObjectPolicy
		text := fmt.Sprintf("{matchConstraints: {resourceRules: %s}, validations: [{expression: 'true'}]%s}", test.resources, test.spec)
		if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		p.Name, p.Namespace = "p", "shop"
		c := compile.Policy(api.Policy{Object: &p})
		if len(c.Problems) > 0 {
			t.Errorf("%s: %v", test.reason, c.Problems)
		}
		// What is asked for one policy changes nothing for the next.
		for range 2 {
			rights, err := guard.RightsOf(t.Context(), usher.User{Name: "ann"}, c, places)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, right := range rights {
				got = append(got, question(right.Ask))
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", test.reason, diff)
			}
		}
	}
}

func TestPoliciesOfANamespaceNeedRights(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		spec    v1alpha1.OverridePolicySpec
		may     []string
		refused string
	}{
		{"all of them", spec(nil, kind("v1", "Pod")), []string{"create pods in shop", "update pods in shop"}, ""},
		{"one is missing", spec(nil, kind("v1", "Pod")), []string{"create pods in shop"}, "a policy that acts on v1 Pod needs permission to update pods in shop, which jane does not have (have somebody write the policy who has these rights in the namespace)"},
		{"all kinds", spec(nil), []string{"create pods in shop"}, "name the kinds in spec.resourceSelectors"},
		{"escalate on policies does not help: roles for policies often have all verbs", spec(nil, kind("v1", "Pod")), []string{"escalate overridepolicies.policy.kcloudlabs.io p in shop"}, "create and update pods in shop"},
		{"a kind that nobody knows", spec(nil, kind("example.com/v1", "Widget")), nil, "example.com/v1 Widget, which the cluster does not have, needs permission to create and update *.* in shop, which jane does not have (create the kind first"},
		{"discovery does not answer", spec(nil, kind("v1", "Flaky")), nil, "could not check which rights it needs: find the resource of v1 Flaky: no route, try again"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			may := func(_ context.Context, r *usher.Request) (bool, error) {
				return slices.Contains(test.may, question(r)), nil
			}
			policy := override(test.spec).Policy.Object.(*v1alpha1.OverridePolicy)
			d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: may, Places: places}).Decide(t.Context(), writing(t, policy))
			if err != nil {
				t.Fatal(err)
			}
			if denied := d.Verdict == usher.Deny; denied != (test.refused != "") || !strings.Contains(d.Message, test.refused) {
				t.Errorf("%s: %q, want %q", d.Verdict, d.Message, test.refused)
			}
		})
	}
}

// writing is the request by which jane creates a policy.
func writing(t *testing.T, p *v1alpha1.OverridePolicy) *usher.Request {
	t.Helper()
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		t.Fatal(err)
	}
	gvk := v1alpha1.GroupVersion.WithKind("OverridePolicy")
	tree["apiVersion"], tree["kind"] = gvk.GroupVersion().String(), gvk.Kind
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "jane"}, Kind: gvk,
		Namespace: p.Namespace, Name: p.Name, Object: usher.TreeObject(tree),
	}
}

// TestClusterScopedResourcesAreNotForANamespace: who names a resource that is in no namespace is told so, and not
// of rights that would change nothing. The right is needed nevertheless.
func TestClusterScopedResourcesAreNotForANamespace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ groups, resources, refused string }{
		{`""`, "deployments", "no such resource: the API group \"\" has no deployments: write apiGroups: [\"apps\"] in spec.matchConstraints"},
		{`""`, "confmaps", "no such resource: the API group \"\" has no confmaps: correct spec.matchConstraints"},
		{`""`, "namespaces", "it is only for objects of the namespace shop, and namespaces are in none: remove them from spec.matchConstraints, a ClusterObjectPolicy is for them"},
		{`""`, "pods, namespaces", "it is only for objects of the namespace shop, and namespaces are in none: remove them from spec.matchConstraints, a ClusterObjectPolicy is for them"},
		{`""`, "configmaps", "a policy that acts on configmaps needs permission to create and update configmaps in shop, which ann does not have " +
			"(name the resources in spec.matchConstraints, or have somebody write the policy who has these rights in the namespace)"},
		{"example.com", "widgets", "a policy that acts on widgets.example.com needs permission to create and update widgets.example.com in shop, which ann does not have " +
			"(if its objects are in no namespace, no right helps: a policy of a namespace never sees these, a ClusterObjectPolicy does; otherwise name the resources in spec.matchConstraints, or have somebody write the policy who has these rights in the namespace)"},
	} {
		rights := rightsOf(t, "CREATE, UPDATE", test.groups, test.resources)
		why, err := rights.Missing(t.Context(), func(_ context.Context, r *usher.Request) (bool, error) { return r.Resource.Resource == "pods", nil })
		if err != nil || why != test.refused {
			t.Errorf("%s: %q, %v, want %q", test.resources, why, err, test.refused)
		}
	}
}

// TestRightsOfCrossProducts: groups and resources of one rule are for each pair of them, and only those that exist need
// rights. A group of others may have any resource, also one that it does not have yet.
func TestRightsOfCrossProducts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, groups, resources string
		want                      []string
	}{
		{"pods and deployments", `"", apps`, "pods, deployments", []string{"create pods in shop", "create deployments.apps in shop"}},
		{"subresources", `"", apps`, "deployments/scale, pods/exec", []string{"create pods/exec in shop", "create deployments/scale.apps in shop"}},
		{"what no group has needs a right in each", `"", apps`, "nothing", []string{"create nothing in shop", "create nothing.apps in shop"}},
		{"events are in two groups", `"", events.k8s.io`, "events", []string{"create events in shop", "create events.events.k8s.io in shop"}},
		{"a group of others", `apps, example.com`, "deployments, widgets", []string{"create deployments.apps in shop", "create deployments.example.com in shop", "create widgets.example.com in shop"}},
		{"all groups", `"*"`, "deployments", []string{"create deployments.* in shop"}},
		{"all resources", `"", apps`, `"*"`, []string{"create * in shop", "create *.apps in shop"}},
	} {
		rights := rightsOf(t, "CREATE", test.groups, test.resources)
		var got []string
		for _, right := range rights {
			got = append(got, question(right.Ask))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// rightsOf returns what ann needs to write a policy of the namespace shop that is for operations on resources.
func rightsOf(t *testing.T, operations, groups, resources string) guard.Rights {
	t.Helper()
	var p usherv1alpha1.ObjectPolicy
	text := fmt.Sprintf(`{matchConstraints: {resourceRules: [{apiGroups: [%s], apiVersions: [v1], operations: [%s], resources: [%s]}]}, podTemplates: "Off", validations: [{expression: 'true'}]}`, groups, operations, resources)
	if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
		t.Fatal(err)
	}
	p.Name, p.Namespace = "p", "shop"
	rights, err := guard.RightsOf(t.Context(), usher.User{Name: "ann"}, compile.Policy(api.Policy{Object: &p}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return rights
}
