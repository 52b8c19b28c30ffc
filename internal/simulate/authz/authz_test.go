package authz_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// A chain answers as the union of the same authorizers in Kubernetes does.
func TestChainIsTheUnionOfKubernetes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	theirs := map[usher.Verdict]authorizer.Decision{
		usher.Allow: authorizer.DecisionAllow, usher.Deny: authorizer.DecisionDeny, usher.NoOpinion: authorizer.DecisionNoOpinion,
	}
	verdicts := []usher.Verdict{usher.NoOpinion, usher.NoOpinion, usher.NoOpinion, usher.Allow, usher.Deny}
	for range 500 {
		var chain authz.Chain
		var members []authorizer.Authorizer
		for i := range random.IntN(5) {
			answer := authz.Answer{Verdict: verdicts[random.IntN(len(verdicts))]}
			if random.IntN(2) == 0 {
				answer.Reason = fmt.Sprintf("reason %d", i)
			}
			if random.IntN(3) == 0 {
				answer.Err = fmt.Errorf("error %d", i)
			}
			chain = append(chain, authz.Stage{Name: fmt.Sprint(i), Authorizer: authz.Always(answer)})
			members = append(members, authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return theirs[answer.Verdict], answer.Reason, answer.Err
			}))
		}
		decision, reason, err := union.New(members...).Authorize(t.Context(), authorizer.AttributesRecord{})
		got, steps := chain.Explain(t.Context(), &usher.Request{})
		if theirs[got.Verdict] != decision || got.Reason != reason || fmt.Sprint(got.Err) != fmt.Sprint(err) {
			t.Errorf("%+v: got %+v, the union says %v %q %v", steps, got, decision, reason, err)
		}
		open := true
		for _, step := range steps {
			if step.Asked != open {
				t.Errorf("%+v: asked is wrong", steps)
			}
			open = open && step.Answer.Verdict == usher.NoOpinion
		}
	}
}

func request(user string, groups []string, verb, resource string) *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: user, Groups: groups},
		Resource: schema.GroupVersionResource{Resource: resource}, Access: &usher.Access{Verb: verb},
	}
}

func TestFixedStages(t *testing.T) {
	t.Parallel()
	path := &usher.Request{Access: &usher.Access{Verb: "get", Path: "/healthz", NonResource: true}}
	node := request("system:node:n1", []string{"system:nodes"}, "get", "pods")
	decide := func(d usher.Decision, err error) usher.Decider {
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, err })
	}
	broken := errors.New("broken")
	jane := request("jane", nil, "get", "pods")
	for _, row := range []struct {
		reason     string
		authorizer authz.Authorizer
		request    *usher.Request
		want       authz.Answer
	}{
		{"masters", authz.Privileged(), request("root", []string{"a", "system:masters"}, "get", "pods"), authz.Answer{Verdict: usher.Allow}},
		{"no master", authz.Privileged(), request("system:masters", nil, "get", "pods"), authz.Answer{}},
		{"alive?", authz.AlwaysAllowedPaths(), path, authz.Answer{Verdict: usher.Allow}},
		{"no path", authz.AlwaysAllowedPaths(), jane, authz.Answer{}},
		{"a node", authz.Node(), node, authz.Answer{Reason: authz.ErrNode.Error()}},
		{"no node", authz.Node(), request("system:node:n1", nil, "get", "pods"), authz.Answer{}},
		{"a webhook", authz.Webhook(decide(usher.Denied("no"), nil), ""), jane, authz.Answer{Verdict: usher.Deny, Reason: "no"}},
		{"one that only allows", authz.Webhook(decide(usher.Denied("no"), nil), usher.Allow), jane, authz.Answer{}},
		{"one that only denies", authz.Webhook(decide(usher.Denied("no"), nil), usher.Deny), jane, authz.Answer{Verdict: usher.Deny, Reason: "no"}},
		{"one that is broken", authz.Webhook(decide(usher.Allowed(), broken), ""), jane, authz.Answer{Err: broken}},
	} {
		got := row.authorizer.Authorize(t.Context(), row.request)
		if got != row.want {
			t.Errorf("%s: got %+v, want %+v", row.reason, got, row.want)
		}
	}
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	labels, err := authz.Labels("a=b,c!=d,e,!f,g in (y,x),h notin (z),i>5")
	want := []usher.Requirement{
		{Key: "a", Operator: "In", Values: []string{"b"}},
		{Key: "c", Operator: "NotIn", Values: []string{"d"}},
		{Key: "e", Operator: "Exists"},
		{Key: "f", Operator: "DoesNotExist"},
		{Key: "g", Operator: "In", Values: []string{"x", "y"}},
		{Key: "h", Operator: "NotIn", Values: []string{"z"}},
	}
	if diff := cmp.Diff(want, labels); diff != "" || err != nil {
		t.Errorf("labels: %v (-want +got):\n%s", err, diff)
	}
	fields, err := authz.Fields("metadata.name=x,spec.nodeName!=n")
	want = []usher.Requirement{
		{Key: "metadata.name", Operator: "In", Values: []string{"x"}},
		{Key: "spec.nodeName", Operator: "NotIn", Values: []string{"n"}},
	}
	if diff := cmp.Diff(want, fields); diff != "" || err != nil {
		t.Errorf("fields: %v (-want +got):\n%s", err, diff)
	}
	if _, err := authz.Labels("a=b=c"); err == nil {
		t.Error("a label selector that is none has no error")
	}
	if _, err := authz.Fields("a"); err == nil {
		t.Error("a field selector that is none has no error")
	}
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "api/v1/pods", "http://x y/", "://"} {
		if _, err := authz.ParseLine("GET", bad); err == nil {
			t.Errorf("%q is taken for a URL", bad)
		}
	}
	line, err := authz.ParseLine("get", "https://host/apis/apps/v1/namespaces/shop/deployments?labelSelector=app%3Dcart,bad==&fieldSelector=metadata.name%3Dcart")
	if err != nil {
		t.Fatal(err)
	}
	got := line.Request(usher.User{Name: "jane"})
	want := &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "jane"}, Namespace: "shop", Name: "cart",
		Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Access: &usher.Access{
			Verb:   "list",
			Labels: []usher.Requirement{{Key: "app", Operator: "In", Values: []string{"cart"}}, {Key: "bad", Operator: "In", Values: []string{""}}},
			Fields: []usher.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"cart"}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func rules(resources ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: resources}}
}

// Roles that aggregate roles get their rules from a controller. Where there is none, they
// get them nevertheless.
func TestAggregation(t *testing.T) {
	t.Parallel()
	by := func(label string) *rbacv1.AggregationRule {
		return &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{label: "true"}}}}
	}
	objects := authz.Objects{
		ClusterRoles: []rbacv1.ClusterRole{
			{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, AggregationRule: by("to-admin")},
			{ObjectMeta: metav1.ObjectMeta{Name: "edit", Labels: map[string]string{"to-admin": "true"}}, AggregationRule: by("to-edit")},
			{ObjectMeta: metav1.ObjectMeta{Name: "pods", Labels: map[string]string{"to-edit": "true"}}, Rules: rules("pods")},
			{ObjectMeta: metav1.ObjectMeta{Name: "loop", Labels: map[string]string{"to-loop": "true", "to-admin": "true"}}, AggregationRule: by("to-admin")},
			{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Rules: rules("nodes"), AggregationRule: by("to-edit")},
		},
	}
	for _, name := range []string{"admin", "full"} {
		objects.ClusterRoleBindings = append(objects.ClusterRoleBindings, rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: name}},
		})
	}
	rbac, warnings := authz.NewRBAC(objects)
	if len(warnings) != 3 {
		t.Errorf("warnings: %q", warnings)
	}
	for _, row := range []struct {
		user, resource string
		want           usher.Verdict
	}{
		{"admin", "pods", usher.Allow},
		{"admin", "nodes", usher.NoOpinion},
		{"full", "nodes", usher.Allow},
		{"full", "pods", usher.NoOpinion},
	} {
		if got := rbac.Authorize(t.Context(), request(row.user, nil, "get", row.resource)); got.Verdict != row.want {
			t.Errorf("%s of %s: got %+v", row.user, row.resource, got)
		}
	}
}

func TestWhoAndWhat(t *testing.T) {
	t.Parallel()
	objects, err := authz.FromTrees([]map[string]any{
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "read"}, "rules": []any{
			map[string]any{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"pods"}},
			map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}},
		}},
		{"kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "all"}, "roleRef": map[string]any{"kind": "ClusterRole", "name": "read"}, "subjects": []any{map[string]any{"kind": "Group", "name": "readers"}}},
		{"kind": "RoleBinding", "metadata": map[string]any{"name": "some", "namespace": "shop"}, "roleRef": map[string]any{"kind": "ClusterRole", "name": "read"}, "subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "robot"}}},
		{"kind": "RoleBinding", "metadata": map[string]any{"name": "none", "namespace": "shop"}, "roleRef": map[string]any{"kind": "Role", "name": "gone"}, "subjects": []any{map[string]any{"kind": "User", "name": "jane"}}},
		{"apiVersion": "v1", "kind": "Role"},
	})
	if err != nil {
		t.Fatal(err)
	}
	rbac, _ := authz.NewRBAC(objects)
	names := func(grants []authz.Grant) (all []string) {
		for _, g := range grants {
			all = append(all, g.Binding.Name+" "+g.Rule.Verbs[0])
		}
		return all
	}
	in := request("", nil, "get", "pods")
	in.Namespace = "shop"
	for _, row := range []struct {
		reason    string
		got, want []string
	}{
		{"in a namespace", names(rbac.Granting(in)), []string{"all get", "some get"}},
		{"everywhere", names(rbac.Granting(request("", nil, "get", "pods"))), []string{"all get"}},
		{"by another rule", names(rbac.Granting(request("", nil, "delete", "pods"))), []string{"all *"}},
		{"held by an account", names(rbac.Held(&usher.User{Name: "system:serviceaccount:shop:robot"}, "shop")), []string{"some get", "some *"}},
		{"held elsewhere", names(rbac.Held(&usher.User{Name: "system:serviceaccount:shop:robot"}, "")), nil},
		{"held by a group", names(rbac.Held(&usher.User{Groups: []string{"readers"}}, "")), []string{"all get", "all *"}},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.reason, diff)
		}
	}
	jane := request("jane", nil, "get", "pods")
	jane.Namespace = "shop"
	if got := rbac.Authorize(t.Context(), jane); got.Reason != `RBAC: role.rbac.authorization.k8s.io "gone" not found` {
		t.Errorf("a binding to nothing: %+v", got)
	}
	if _, err := authz.FromTrees([]map[string]any{{"kind": "Role", "metadata": map[string]any{"name": "x", "namespace": "y"}, "rule": []any{}}}); err == nil {
		t.Error("a mistyped field goes unnoticed")
	}
}
