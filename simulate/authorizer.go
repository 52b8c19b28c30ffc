package simulate

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// rbac is who may do what by the roles and bindings of a cluster made of files. It is for
// conditions that ask an authorizer; whether the request itself is authorized is not
// simulated.
type rbac struct {
	// roles are by namespace and name; cluster roles have no namespace.
	roles    map[string][]rbacv1.PolicyRule
	bindings []roleBinding
}

type roleBinding struct {
	namespace string
	role      string
	subjects  []rbacv1.Subject
}

func newRBAC(objects []map[string]any) *rbac {
	r := &rbac{roles: map[string][]rbacv1.PolicyRule{}}
	for _, tree := range objects {
		kind := kindOfTree(tree)
		if kind.Group != rbacv1.GroupName {
			continue
		}
		// What is not a role or binding as the API has it grants nothing.
		switch kind.Kind {
		case "Role", "ClusterRole":
			role := &rbacv1.Role{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(tree, role) == nil {
				r.roles[role.Namespace+"/"+role.Name] = role.Rules
			}
		case "RoleBinding", "ClusterRoleBinding":
			b := &rbacv1.RoleBinding{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(tree, b) != nil {
				continue
			}
			role := "/" + b.RoleRef.Name
			if b.RoleRef.Kind == "Role" {
				role = b.Namespace + role
			}
			r.bindings = append(r.bindings, roleBinding{namespace: b.Namespace, role: role, subjects: b.Subjects})
		}
	}
	return r
}

// Authorize implements [authorizer.Authorizer].
func (r *rbac) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	who := a.GetUser()
	if who == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	for _, b := range r.bindings {
		if b.namespace != "" && b.namespace != a.GetNamespace() || !slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool { return isSubject(s, b.namespace, who) }) {
			continue
		}
		if slices.ContainsFunc(r.roles[b.role], func(rule rbacv1.PolicyRule) bool { return allows(rule, a) }) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func isSubject(s rbacv1.Subject, namespace string, who user.Info) bool {
	switch s.Kind {
	case rbacv1.UserKind:
		return s.Name == who.GetName()
	case rbacv1.GroupKind:
		return slices.Contains(who.GetGroups(), s.Name)
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return who.GetName() == "system:serviceaccount:"+namespace+":"+s.Name
	}
	return false
}

func allows(rule rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !has(rule.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			prefix, all := cutStar(url)
			return url == a.GetPath() || all && len(a.GetPath()) >= len(prefix) && a.GetPath()[:len(prefix)] == prefix
		})
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	named := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName())
	return named && has(rule.APIGroups, a.GetAPIGroup()) &&
		(has(rule.Resources, resource) || a.GetSubresource() != "" && slices.Contains(rule.Resources, "*/"+a.GetSubresource()))
}

func cutStar(url string) (string, bool) {
	if n := len(url); n > 0 && url[n-1] == '*' {
		return url[:n-1], true
	}
	return url, false
}

func has(list []string, word string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, word)
}

// reviews asks a live API server.
type reviews struct{ client kubernetes.Interface }

func newReviews(config *rest.Config) (authorizer.Authorizer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	return &reviews{client}, nil
}

// Authorize implements [authorizer.Authorizer].
func (r *reviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{}
	if who := a.GetUser(); who != nil {
		review.Spec.User, review.Spec.UID, review.Spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
	}
	if a.IsResourceRequest() {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: a.GetNamespace(), Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(),
			Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(),
		}
	} else {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.GetPath(), Verb: a.GetVerb()}
	}
	answer, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return authorizer.DecisionNoOpinion, "", err
	case answer.Status.Allowed:
		return authorizer.DecisionAllow, answer.Status.Reason, nil
	case answer.Status.Denied:
		return authorizer.DecisionDeny, answer.Status.Reason, nil
	}
	return authorizer.DecisionNoOpinion, answer.Status.Reason, nil
}
