package interpret

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Bindings returns objects that give the user the roles that it has.
func (u User) Bindings() []map[string]any {
	var all []map[string]any
	add := func(kind, namespace, role, name string) {
		metadata := map[string]any{"name": strings.ReplaceAll(u.Name+":"+name, ":", "-")}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		all = append(all, map[string]any{
			"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": kind, "metadata": metadata,
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": role, "name": name},
			"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": u.Name}},
		})
	}
	for _, name := range u.ClusterRoles {
		add("ClusterRoleBinding", "", "ClusterRole", name)
	}
	for _, role := range u.Roles {
		namespace, name, _ := strings.Cut(role, ":")
		add("RoleBinding", namespace, "Role", name)
	}
	return all
}

// Authenticated returns the user as an API server does.
func (u User) Authenticated() User {
	u.Name = cmp.Or(u.Name, "somebody")
	if !slices.Contains(u.Groups, "system:authenticated") {
		u.Groups = append([]string{"system:authenticated"}, u.Groups...)
	}
	return u
}

// user returns the user of a request with the roles that the bindings among the data give, too.
func (r *Request) user() User {
	u := r.User.Authenticated()
	u.Roles, u.ClusterRoles = slices.Clone(u.Roles), slices.Clone(u.ClusterRoles)
	in := metadataText(r.subject(), "namespace")
	if kindOfObject(r.subject()).kind == "Namespace" {
		in = metadataText(r.subject(), "name")
	}
	for _, o := range r.Data {
		of := kindOfObject(o)
		if of.group != rbacv1.GroupName || of.kind != "RoleBinding" && of.kind != "ClusterRoleBinding" {
			continue
		}
		var b rbacv1.RoleBinding
		if raw, err := json.Marshal(o); err != nil || json.Unmarshal(raw, &b) != nil || !u.in(b.Subjects, b.Namespace) {
			continue
		}
		switch {
		case b.RoleRef.Kind == "Role" && of.kind == "RoleBinding":
			u.Roles = append(u.Roles, b.Namespace+":"+b.RoleRef.Name)
		case b.RoleRef.Kind == "ClusterRole" && (of.kind == "ClusterRoleBinding" || b.Namespace == in):
			u.ClusterRoles = append(u.ClusterRoles, b.RoleRef.Name)
		}
	}
	return u
}

// in reports whether the user is one of the subjects of a binding, in whose namespace service accounts without one are.
func (u User) in(subjects []rbacv1.Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.UserKind:
			return s.Name == u.Name
		case rbacv1.GroupKind:
			return slices.Contains(u.Groups, s.Name)
		case rbacv1.ServiceAccountKind:
			if s.Namespace == "" {
				s.Namespace = namespace
			}
			return s.Namespace != "" && u.Name == "system:serviceaccount:"+s.Namespace+":"+s.Name
		}
		return false
	})
}
