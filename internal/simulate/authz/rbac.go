package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	usher "github.com/usher-dev/usher"
)

// An RBAC answers as the authorizer RBAC of an API server with these objects. It is
// immutable.
type RBAC struct {
	roles map[roleKey][]rbacv1.PolicyRule
	// bindings are those of the cluster, then those of namespaces.
	bindings []Binding
	// unread are the resources of roles that could not be read.
	unread []string
}

// A roleKey names a role; those of the cluster have no namespace.
type roleKey struct{ namespace, name string }

// A Binding is a ClusterRoleBinding, or with a namespace a RoleBinding.
type Binding struct {
	Namespace, Name string
	Role            rbacv1.RoleRef
	Subjects        []rbacv1.Subject
}

// NewRBAC prepares objects for requests. It returns what cannot be simulated exactly.
func NewRBAC(o Objects) (*RBAC, []string) {
	b := &RBAC{roles: map[roleKey][]rbacv1.PolicyRule{}, unread: o.Unread}
	var warnings []string
	for i := range o.ClusterRoles {
		role := &o.ClusterRoles[i]
		rules := role.Rules
		if role.AggregationRule != nil && len(rules) == 0 {
			rules = aggregated(role, o.ClusterRoles)
			warnings = append(warnings, fmt.Sprintf(
				"ClusterRole %s has no rules of its own: those of the roles that it aggregates are used, as far as they are known", role.Name))
		}
		b.roles[roleKey{name: role.Name}] = rules
	}
	for i := range o.Roles {
		role := &o.Roles[i]
		b.roles[roleKey{role.Namespace, role.Name}] = role.Rules
	}
	for i := range o.ClusterRoleBindings {
		binding := &o.ClusterRoleBindings[i]
		b.bindings = append(b.bindings, Binding{Name: binding.Name, Role: binding.RoleRef, Subjects: binding.Subjects})
	}
	for i := range o.RoleBindings {
		binding := &o.RoleBindings[i]
		b.bindings = append(b.bindings, Binding{Namespace: binding.Namespace, Name: binding.Name, Role: binding.RoleRef, Subjects: binding.Subjects})
	}
	return b, warnings
}

// Authorize implements [Authorizer]. RBAC never denies.
func (b *RBAC) Authorize(_ context.Context, r *usher.Request) Answer {
	var errs []error
	for i := range b.bindings {
		binding := &b.bindings[i]
		if !binding.covers(r) {
			continue
		}
		subject := binding.subject(&r.User)
		if subject == nil {
			continue
		}
		rules, err := b.rules(binding)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return allows(&rule, r) }) {
			return Answer{Verdict: usher.Allow, Reason: fmt.Sprintf("RBAC: allowed by %s to %s", binding, binding.describe(subject))}
		}
	}
	if len(errs) > 0 {
		return Answer{Reason: "RBAC: " + utilerrors.NewAggregate(errs).Error()}
	}
	return Answer{}
}

// A Grant is one rule of a role, bound to subjects.
type Grant struct {
	Binding *Binding
	Rule    rbacv1.PolicyRule
}

// Granting returns the bindings that allow a request to their subjects, each once. They are shared:
// do not change them.
func (b *RBAC) Granting(r *usher.Request) []Grant {
	return b.grants(func(binding *Binding) bool { return binding.covers(r) }, func(rule *rbacv1.PolicyRule) bool { return allows(rule, r) }, true)
}

// Namespaces returns the namespaces of the bindings, as often as they have one.
func (b *RBAC) Namespaces() []string {
	var all []string
	for i := range b.bindings {
		if b.bindings[i].Namespace != "" {
			all = append(all, b.bindings[i].Namespace)
		}
	}
	return all
}

// Held returns all rules that a user has, in a namespace if that is not empty.
func (b *RBAC) Held(user *usher.User, namespace string) []Grant {
	return b.grants(func(binding *Binding) bool {
		return (binding.Namespace == "" || binding.Namespace == namespace) && binding.subject(user) != nil
	}, func(*rbacv1.PolicyRule) bool { return true }, false)
}

func (b *RBAC) grants(bound func(*Binding) bool, wanted func(*rbacv1.PolicyRule) bool, once bool) []Grant {
	var all []Grant
	for i := range b.bindings {
		binding := &b.bindings[i]
		if !bound(binding) {
			continue
		}
		// A missing role allows nothing.
		rules, _ := b.rules(binding)
		for j := range rules {
			if !wanted(&rules[j]) {
				continue
			}
			all = append(all, Grant{Binding: binding, Rule: rules[j]})
			if once {
				break
			}
		}
	}
	return all
}

// errUnread says that a role may exist, but could not be read.
var errUnread = errors.New("could not be read")

// Unread returns the bindings that cover a request, and whose role could not be read: those to a user, or all if that is
// nil. They are shared: do not change them.
func (b *RBAC) Unread(r *usher.Request, user *usher.User) []*Binding {
	var all []*Binding
	for i := range b.bindings {
		binding := &b.bindings[i]
		if !binding.covers(r) || user != nil && binding.subject(user) == nil {
			continue
		}
		if _, err := b.rules(binding); errors.Is(err, errUnread) {
			all = append(all, binding)
		}
	}
	return all
}

// rules are those of the role that a binding refers to.
func (b *RBAC) rules(binding *Binding) ([]rbacv1.PolicyRule, error) {
	key := roleKey{name: binding.Role.Name}
	resource := "clusterrole"
	switch binding.Role.Kind {
	case "ClusterRole":
	case "Role":
		if binding.Namespace == "" {
			return nil, errors.New("must provide namespace when getting role")
		}
		key.namespace, resource = binding.Namespace, "role"
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", binding.Role.Kind)
	}
	rules, ok := b.roles[key]
	switch {
	case !ok && slices.Contains(b.unread, resource+"s"):
		return nil, fmt.Errorf("%s %q %w", resource, binding.Role.Name, errUnread)
	case !ok:
		return nil, apierrors.NewNotFound(rbacv1.Resource(resource), binding.Role.Name)
	}
	return rules, nil
}

// covers reports whether the binding applies in the namespace of a request.
func (b *Binding) covers(r *usher.Request) bool {
	return b.Namespace == "" || b.Namespace == r.Namespace && !r.Access.NonResource
}

// subject is the first subject that a user is, nil if there is none.
func (b *Binding) subject(user *usher.User) *rbacv1.Subject {
	i := slices.IndexFunc(b.Subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.UserKind:
			return user.Name == s.Name
		case rbacv1.GroupKind:
			return slices.Contains(user.Groups, s.Name)
		case rbacv1.ServiceAccountKind:
			namespace := b.namespaceOf(&s)
			return namespace != "" && user.Name == "system:serviceaccount:"+namespace+":"+s.Name
		}
		return false
	})
	if i < 0 {
		return nil
	}
	return &b.Subjects[i]
}

func (b *Binding) namespaceOf(s *rbacv1.Subject) string {
	if s.Namespace != "" {
		return s.Namespace
	}
	return b.Namespace
}

// describe formats a subject as API servers do.
func (b *Binding) describe(s *rbacv1.Subject) string {
	name := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		name += "/" + b.namespaceOf(s)
	}
	return fmt.Sprintf("%s %q", s.Kind, name)
}

// String formats the binding as API servers do.
func (b *Binding) String() string {
	kind, name := "ClusterRoleBinding", b.Name
	if b.Namespace != "" {
		kind, name = "RoleBinding", b.Name+"/"+b.Namespace
	}
	return fmt.Sprintf("%s %q of %s %q", kind, name, b.Role.Kind, b.Role.Name)
}

// allows reports whether a rule allows a request. Everything is compared as text: a "*" in the
// request needs a "*" in the rule.
func allows(rule *rbacv1.PolicyRule, r *usher.Request) bool {
	if !has(rule.Verbs, r.Access.Verb) {
		return false
	}
	if r.Access.NonResource {
		return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool {
			return pattern == "*" || pattern == r.Access.Path ||
				strings.HasSuffix(pattern, "*") && strings.HasPrefix(r.Access.Path, strings.TrimRight(pattern, "*"))
		})
	}
	return has(rule.APIGroups, r.Resource.Group) && allowsResource(rule, r.Resource.Resource, r.Subresource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.Name))
}

func allowsResource(rule *rbacv1.PolicyRule, resource, subresource string) bool {
	if subresource == "" {
		return has(rule.Resources, resource)
	}
	return has(rule.Resources, resource+"/"+subresource) || slices.Contains(rule.Resources, "*/"+subresource)
}

func has(list []string, text string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, text)
}
