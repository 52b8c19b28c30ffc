package authorize

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	simulate "github.com/usher-dev/usher/internal/simulate/authz"
)

// list calls list for all namespaces. A user who may not list these is asked about one namespace: they get what is in it,
// and what they may not list there either is left out.
func (w *World) list(resource string, namespaced bool, list func(namespace string) error) error {
	err := list("")
	if !apierrors.IsForbidden(err) {
		return listError(resource, err)
	}
	if w.namespace == "" {
		return fmt.Errorf("%w; -n NAMESPACE asks about one namespace, by what you may list there", listError(resource, err))
	}
	if namespaced {
		if err = list(w.namespace); err == nil {
			w.within = append(w.within, resource)
			return nil
		}
	}
	if apierrors.IsForbidden(err) {
		w.leftOut = append(w.leftOut, resource)
		return nil
	}
	return listError(resource, err)
}

func listError(resource string, err error) error {
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return nil
}

// warnLeftOut says what was not read because the user may not.
func (w *World) warnLeftOut() {
	if len(w.leftOut) > 0 {
		w.warnings = append(w.warnings, fmt.Sprintf("you may not list %s: the answer is without them", strings.Join(w.leftOut, ", ")))
	}
	if len(w.within) > 0 {
		w.warnings = append(w.warnings, fmt.Sprintf("you may list %s in namespace %s only: the answer is without those elsewhere", strings.Join(w.within, ", "), w.namespace))
	}
}

// unlisted returns the kinds that were not read although the answer to a request may depend on them.
func (w *World) unlisted(r *usher.Request) []string {
	kinds := w.leftOut
	if r.Namespace != w.namespace && (r.Namespace != "" || ofNamespaces(r)) {
		kinds = slices.Concat(kinds, w.within)
	}
	return kinds
}

// unknown says why the answer of a stage that has no opinion is not known; empty if it is.
func (w *World) unknown(r *usher.Request, stage, reason string) string {
	var why []string
	if stage == rbacStage && len(w.RBAC.Unread(r, &r.User)) > 0 {
		why = append(why, reason)
	}
	kinds := slices.DeleteFunc(slices.Clone(w.unlisted(r)), func(kind string) bool {
		// Roles that could not be read matter if something binds them.
		bindings, roles := strings.HasSuffix(kind, "bindings"), strings.HasSuffix(kind, "roles")
		return roles || bindings != (stage == rbacStage) || stage != rbacStage && stage != denyStage && stage != allowStage
	})
	if len(kinds) > 0 {
		why = append(why, "you may not list "+strings.Join(kinds, ", "))
	}
	return strings.Join(why, "; ")
}

// clusterRBAC reads the roles and bindings of the cluster.
func (w *World) clusterRBAC(ctx context.Context) (simulate.Objects, error) {
	rbac := w.clients.Kube.RbacV1()
	var o simulate.Objects
	for _, kind := range []struct {
		resource   string
		namespaced bool
		list       func(namespace string) error
	}{
		{"clusterroles", false, func(string) error {
			list, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
			if err == nil {
				o.ClusterRoles = list.Items
			}
			return err
		}},
		{"roles", true, func(namespace string) error {
			list, err := rbac.Roles(namespace).List(ctx, metav1.ListOptions{})
			if err == nil {
				o.Roles = list.Items
			}
			return err
		}},
		{"clusterrolebindings", false, func(string) error {
			list, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
			if err == nil {
				o.ClusterRoleBindings = list.Items
			}
			return err
		}},
		{"rolebindings", true, func(namespace string) error {
			list, err := rbac.RoleBindings(namespace).List(ctx, metav1.ListOptions{})
			if err == nil {
				o.RoleBindings = list.Items
			}
			return err
		}},
	} {
		if err := w.list(kind.resource, kind.namespaced, kind.list); err != nil {
			return o, err
		}
	}
	o.Unread = w.leftOut
	return o, nil
}
