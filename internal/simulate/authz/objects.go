package authz

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// Objects are what RBAC is made of.
type Objects struct {
	ClusterRoles        []rbacv1.ClusterRole
	Roles               []rbacv1.Role
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	RoleBindings        []rbacv1.RoleBinding
	// Unread are the resources of those that could not be read, such as clusterroles.
	Unread []string
}

// FromTrees picks out the objects of RBAC among decoded objects.
func FromTrees(trees []map[string]any) (Objects, error) {
	var o Objects
	for _, tree := range trees {
		apiVersion, _ := tree["apiVersion"].(string)
		if apiVersion != "" && !strings.HasPrefix(apiVersion, rbacv1.GroupName+"/") {
			continue
		}
		kind, _ := tree["kind"].(string)
		var err error
		switch kind {
		case "ClusterRole":
			err = decode(tree, &o.ClusterRoles)
		case "Role":
			err = decode(tree, &o.Roles)
		case "ClusterRoleBinding":
			err = decode(tree, &o.ClusterRoleBindings)
		case "RoleBinding":
			err = decode(tree, &o.RoleBindings)
		}
		if err != nil {
			return Objects{}, fmt.Errorf("decode %s %s: %w", kind, NameOf(tree), err)
		}
	}
	return o, nil
}

// Empty reports whether there are none.
func (o Objects) Empty() bool {
	return len(o.ClusterRoles)+len(o.Roles)+len(o.ClusterRoleBindings)+len(o.RoleBindings) == 0
}

func decode[T any](tree map[string]any, into *[]T) error {
	var object T
	// API servers drop fields that they do not know; in a file they are a mistake.
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, &object, true)
	*into = append(*into, object)
	return err
}

// NameOf returns the name of an object, after its namespace if it has one.
func NameOf(tree map[string]any) string {
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// aggregated are the rules that a controller would write into a role. Aggregated roles may
// aggregate, too; above are the roles that this one is part of.
func aggregated(role *rbacv1.ClusterRole, all []rbacv1.ClusterRole, above ...string) []rbacv1.PolicyRule {
	if role.AggregationRule == nil || len(role.Rules) > 0 || slices.Contains(above, role.Name) {
		return role.Rules
	}
	var rules []rbacv1.PolicyRule
	for i := range all {
		if !aggregates(role, &all[i]) {
			continue
		}
		for _, rule := range aggregated(&all[i], all, append(above, role.Name)...) {
			if !slices.ContainsFunc(rules, func(known rbacv1.PolicyRule) bool { return reflect.DeepEqual(known, rule) }) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

func aggregates(role, other *rbacv1.ClusterRole) bool {
	return role.Name != other.Name && slices.ContainsFunc(role.AggregationRule.ClusterRoleSelectors, func(clause metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&clause)
		return err == nil && selector.Matches(labels.Set(other.Labels))
	})
}
