package authz_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

func TestNear(t *testing.T) {
	t.Parallel()
	rule := func(groups, resources, verbs []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs, ResourceNames: names}
	}
	core, reads := []string{""}, []string{"get", "list"}
	role := func(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	binding := func(namespace, role, user string) rbacv1.RoleBinding {
		return rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		}
	}
	rbac, _ := authz.NewRBAC(authz.Objects{
		ClusterRoles: []rbacv1.ClusterRole{
			role("reader", rule(core, []string{"configmaps", "pods"}, reads)), role("keeper", rule(core, []string{"configmaps"}, []string{"delete"}, "a", "b")),
			role("editor", rule(core, []string{"configmaps"}, []string{"*"})), role("apps", rule([]string{"apps"}, []string{"configmaps"}, []string{"delete"})),
		},
		RoleBindings: []rbacv1.RoleBinding{
			binding("shop", "apps", "ann"), binding("bank", "editor", "ann"), binding("shop", "reader", "ann"), binding("shop", "keeper", "ann"), binding("shop", "editor", "bob"),
		},
	})
	for _, row := range []struct {
		reason, verb, resource, subresource string
		want                                []string
	}{
		{"the closest three come first", "delete", "configmaps", "", []string{
			`RoleBinding "keeper/shop" of ClusterRole "keeper" is for the names a, b`,
			`RoleBinding "reader/shop" of ClusterRole "reader" is for the verbs get, list`,
			`RoleBinding "editor/bank" of ClusterRole "editor" is for the namespace bank`,
		}},
		{"a subresource", "get", "pods", "log", []string{`RoleBinding "reader/shop" of ClusterRole "reader" is not for the subresource log`}},
		{"more than one thing differs", "delete", "secrets", "", nil},
	} {
		r := &usher.Request{
			Phase: usher.Authorize, Name: "c", Namespace: "shop", Subresource: row.subresource, User: usher.User{Name: "ann"},
			Resource: schema.GroupVersionResource{Resource: row.resource}, Access: &usher.Access{Verb: row.verb},
		}
		if got := rbac.Near(r); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q", row.reason, got)
		}
	}
}
