package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile/guard"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

func judge(rules []*authz.Rule) usher.Decider { return engine.New(index.New(rules), engine.Options{}) }

// write is the request by which jane writes a policy whose spec is given.
func write(t *testing.T, kind, spec string) *usher.Request {
	t.Helper()
	text := "apiVersion: usher.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: p"
	if kind == "AuthorizationPolicy" {
		text += ", namespace: shop"
	}
	text += "}\nspec: " + spec
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "jane"},
		Kind:   schema.GroupVersionKind{Group: "usher.dev", Version: "v1alpha1", Kind: kind},
		Object: usher.TreeObject(tree),
	}
}

func cluster(t *testing.T, spec string) *usher.Request {
	t.Helper()
	return write(t, "ClusterAuthorizationPolicy", spec)
}

const (
	everybody = "subjects: [{users: ['*']}]"
	anything  = "rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]"
)

func TestDenialsAreTriedOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, spec string
		refused      string
		warned       string
	}{
		{"everything to everybody", "{effect: Deny, " + everybody + ", " + anything + "}", "without which the cluster cannot be operated: system:kube-proxy get nodes", ""},
		{"all paths", "{effect: Deny, " + everybody + ", rules: [{verbs: [get], nonResourceURLs: ['*']}]}", "kubernetes-admin get /livez", ""},
		{"health to those without a name", "{effect: Deny, subjects: [{groups: ['system:unauthenticated']}], rules: [{verbs: [get], nonResourceURLs: ['/livez*']}]}", "it would deny 1 requests without which the cluster cannot be operated: system:anonymous get /livez", ""},
		{"administrators to policies", "{effect: Deny, subjects: [{groups: ['kubeadm:cluster-admins']}], rules: [{verbs: ['*'], apiGroups: [usher.dev], resources: ['*']}]}", "kubernetes-admin update clusterauthorizationpolicies.usher.dev another-policy", ""},
		{"the kubelet's log to API servers", "{effect: Deny, " + everybody + ", rules: [{verbs: [get], apiGroups: [''], resources: [nodes/log]}]}", "kube-apiserver-kubelet-client get nodes/log node-1", ""},
		{"everything, on trial", "{effect: Deny, enforcement: Audit, " + everybody + ", " + anything + "}", "", "once enforced, it would deny"},
		{"everything, to be confirmed", "{effect: Deny, confirmWithin: 10m, " + everybody + ", " + anything + "}", "cannot be operated", ""},
		{"everything, when a condition fails", "{effect: Deny, " + everybody + ", " + anything + ", unless: [{cel: \"request.extra['amr'][0] == 'mfa'\"}]}", "cannot be operated", ""},
		{"everything, never", "{effect: Deny, " + everybody + ", " + anything + ", when: [{cel: 'false'}]}", "", "denies at once"},
		{"what only protected users do", "{effect: Deny, " + everybody + ", rules: [{verbs: [create], apiGroups: [''], resources: [pods/binding]}]}", "", "1 requests of the control plane match; they are never denied"},
		{"exec to developers", "{effect: Deny, subjects: [{groups: [devs]}], rules: [{verbs: [get, create], apiGroups: [''], resources: [pods/exec]}]}", "", "denies at once (begin with Audit, or set confirmWithin"},
		{"the name of one secret", "{effect: Deny, enforcement: Audit, " + everybody + ", rules: [{verbs: [get, list], apiGroups: [''], resources: [secrets], names: [db], namespaces: [team-a]}]}", "", ""},
		{"an allow of everything", "{effect: Allow, " + everybody + ", " + anything + "}", "", "users who have not said who they are"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{Judge: judge}).Decide(t.Context(), cluster(t, test.spec))
			if err != nil {
				t.Fatal(err)
			}
			if denied := d.Verdict == usher.Deny; denied != (test.refused != "") || !strings.Contains(d.Message, test.refused) {
				t.Errorf("%s: %q, want %q", d.Verdict, d.Message, test.refused)
			}
			if warnings := strings.Join(d.Warnings, "\n"); !strings.Contains(warnings, test.warned) {
				t.Errorf("warnings %q, want %q", warnings, test.warned)
			}
		})
	}
}

func TestCriticalRequestsOfOthersAreNotTried(t *testing.T) {
	t.Parallel()
	tried := 0
	count := func([]*authz.Rule) usher.Decider {
		return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			tried++
			if r.User.Name == "" || len(r.User.Groups) == 0 || r.Access.Verb == "" || !r.Access.NonResource && r.Resource.Resource == "" {
				t.Errorf("not a request: %+v %+v", r, r.Access)
			}
			return usher.Decision{}, nil
		})
	}
	g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{Judge: count})
	if _, err := g.Decide(t.Context(), cluster(t, "{effect: Allow, "+everybody+", "+anything+"}")); err != nil || tried != 0 {
		t.Errorf("%v, an Allow is tried on %d requests", err, tried)
	}
	if _, err := g.Decide(t.Context(), cluster(t, "{effect: Deny, "+everybody+", "+anything+"}")); err != nil || tried < 180 {
		t.Errorf("%v, a Deny is tried on %d requests only", err, tried)
	}
}

// A writer is somebody who may do what is listed, as "verb resource.group name namespace".
type writer map[string]bool

func (w writer) may(_ context.Context, r *usher.Request) (bool, error) {
	what := strings.TrimSpace(fmt.Sprintf("%s %s", r.Access.Verb, r.Access.Path))
	if !r.Access.NonResource {
		resource := r.Resource.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		what = strings.TrimSpace(fmt.Sprintf("%s %s.%s %s %s", r.Access.Verb, resource, r.Resource.Group, r.Name, r.Namespace))
	}
	if r.User.Name != "jane" || r.Resource.Version != "*" && !r.Access.NonResource {
		return false, fmt.Errorf("asked about %s, version %q", r.User.Name, r.Resource.Version)
	}
	return w[what], nil
}

func TestNobodyAllowsMoreThanHeMay(t *testing.T) {
	t.Parallel()
	const (
		use      = "use authorizationtiers.usher.dev cluster"
		escalate = "escalate clusterauthorizationpolicies.usher.dev p"
		readPods = "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get, list], apiGroups: [''], resources: [pods], namespaces: [a]}]}"
		ofShop   = "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get, list], apiGroups: [''], resources: [pods], namespaces: [a, shop]}]}"
	)
	for _, test := range []struct {
		reason  string
		kind    string
		spec    string
		may     []string
		refused string
	}{
		{"he may what he allows", "", readPods, []string{use, "get pods.  a", "list pods.  a"}, ""},
		{"he may not use the tier", "", readPods, []string{"get pods.  a", "list pods.  a"}, "the tier cluster needs permission to use authorizationtiers.usher.dev cluster, which jane does not have"},
		{"he may not all of it", "", readPods, []string{use, "get pods.  a"}, "spec.rules[0]: to allow something needs permission to list pods in a, which jane does not have (nor escalate on the policy)"},
		{"he may escalate", "", readPods, []string{use, escalate}, ""},
		{"a pattern is everything", "", "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [a-*], names: ['$(user)']}]}", []string{use, "get pods."}, ""},
		{"everything", "", "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]}", []string{use, "* *.*"}, ""},
		{"subresources", "", "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [''], resources: ['pods/*', '*/scale']}]}", []string{use, "get pods/*."}, "get */scale"},
		{"paths", "", "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], nonResourceURLs: [/metrics, '/debug/*']}]}", []string{use, "get /metrics"}, "permission to get *"},
		{"conditions do not count", "", "{effect: Allow, subjects: [{users: [x]}], when: [{cel: 'false'}], rules: [{verbs: [get], apiGroups: [''], resources: [pods], names: [web]}]}", []string{use}, "permission to get pods web"},
		{"a Deny needs the tier", "", "{effect: Deny, tier: platform, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}", []string{use}, "permission to use authorizationtiers.usher.dev platform"},
		{"a Deny needs nothing else", "", "{effect: Deny, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}", []string{use}, ""},
		{"in a namespace", "AuthorizationPolicy", ofShop, []string{"get pods.  shop", "list pods.  shop"}, ""},
		{"in a namespace, elsewhere", "AuthorizationPolicy", ofShop, []string{"get pods.  a", "list pods.  a"}, "get and list pods in shop"},
		{"escalate in a namespace", "AuthorizationPolicy", ofShop, []string{"escalate authorizationpolicies.usher.dev p shop"}, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			w := writer{}
			for _, what := range test.may {
				w[what] = true
			}
			kind := test.kind
			if kind == "" {
				kind = "ClusterAuthorizationPolicy"
			}
			d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: w.may}).Decide(t.Context(), write(t, kind, test.spec))
			if err != nil {
				t.Fatal(err)
			}
			if denied := d.Verdict == usher.Deny; denied != (test.refused != "") || !strings.Contains(d.Message, test.refused) {
				t.Errorf("%s: %q, want %q", d.Verdict, d.Message, test.refused)
			}
		})
	}
}

func TestWhatCannotBeAskedIsRefused(t *testing.T) {
	t.Parallel()
	down := func(context.Context, *usher.Request) (bool, error) { return false, errors.New("no route") }
	d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: down}).Decide(t.Context(), cluster(t, "{effect: Allow, "+everybody+", "+anything+"}"))
	if err != nil || d.Verdict != usher.Deny || !strings.Contains(d.Message, "could not check whether") {
		t.Errorf("%s %q, %v", d.Verdict, d.Message, err)
	}
}

func TestTooMuchToAskNeedsEscalate(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("n", i))
	}
	spec := "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods], names: [" + strings.Join(names, ", ") + "]}]}"
	asked := 0
	yes := func(_ context.Context, r *usher.Request) (bool, error) {
		asked++
		return r.Access.Verb != "escalate", nil
	}
	d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: yes}).Decide(t.Context(), cluster(t, spec))
	if err != nil || d.Verdict != usher.Deny || !strings.Contains(d.Message, "too many different things") || asked > 250 {
		t.Errorf("%s %q, %v, asked %d times", d.Verdict, d.Message, err, asked)
	}
}

func TestConfirmBeginsWhenThePolicyIsWritten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{Now: func() time.Time { return now }})
	r := cluster(t, "{effect: Deny, confirmWithin: 10m, "+everybody+", "+anything+"}")
	r.Phase = usher.Mutate
	d, err := g.Decide(t.Context(), r)
	if err != nil || len(d.Patch) != 1 || d.Patch[0].Path != "/metadata/annotations" {
		t.Fatalf("%v %+v", err, d)
	}
	tree, err := r.Object.Tree()
	if err != nil {
		t.Fatal(err)
	}
	tree["metadata"].(map[string]any)["annotations"] = map[string]any{"usher.dev/since": "2020-01-01T00:00:00Z"}
	r.Object = usher.TreeObject(tree)
	d, err = g.Decide(t.Context(), r)
	if err != nil || len(d.Patch) != 1 || d.Patch[0].Path != "/metadata/annotations/usher.dev~1since" || d.Patch[0].Value != "2026-01-02T03:04:05Z" {
		t.Errorf("%v %+v", err, d)
	}
	// Who confirms changes no more than an annotation: the time stays.
	r.Operation, r.OldObject = usher.Update, r.Object
	if d, err = g.Decide(t.Context(), r); err != nil || len(d.Patch) != 0 {
		t.Errorf("%v %+v", err, d)
	}
}
