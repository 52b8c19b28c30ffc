package interpret

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

type groupVersionKind struct{ group, version, kind string }

func kindOfObject(object map[string]any) groupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	return groupVersionKind{group, version, kind}
}

func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

func metadataText(object map[string]any, field string) string {
	text, _ := metadataOf(object)[field].(string)
	return text
}

func metadataTexts(object map[string]any, field string) map[string]string {
	all := map[string]string{}
	fields, _ := metadataOf(object)[field].(map[string]any)
	for k, v := range fields {
		if text, ok := v.(string); ok {
			all[k] = text
		}
	}
	return all
}

// leftOut are kinds that Kyverno's default configuration leaves out; after a slash, all their subresources.
var leftOut = []string{
	"Event", "Node", "Node/?*", "APIService", "APIService/?*", "TokenReview", "SubjectAccessReview", "SelfSubjectAccessReview", "Binding",
	"Pod/binding", "ReplicaSet", "ReplicaSet/?*",
}

// LeftOut reports whether Kyverno's default configuration leaves out a kind.
func LeftOut(kind string) bool { return slices.Contains(leftOut, kind) }

// Unasked reports whether Kyverno's webhooks are not asked about a namespace.
func Unasked(namespace string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease"}, namespace)
}

// concerns says that a policy is asked at all: in its namespace, and not about what the configuration leaves out.
func (p *Policy) concerns(r *Request) bool {
	gvk := kindOfObject(r.subject())
	for _, object := range []map[string]any{r.Object, r.OldObject} {
		if object == nil {
			continue
		}
		namespace := metadataText(object, "namespace")
		if p.of.Kind == "Policy" && (namespace == "" || namespace != p.of.Namespace) {
			return false
		}
		if gvk.kind == "Namespace" && gvk.group == "" {
			namespace = metadataText(object, "name")
		}
		if Unasked(namespace) {
			return false
		}
	}
	excluded := slices.Contains(r.User.Groups, "system:nodes")
	return !excluded && !slices.ContainsFunc(leftOut, func(kind string) bool {
		kind, sub, _ := strings.Cut(kind, "/")
		return kind == gvk.kind && wildcard(sub, r.Subresource)
	})
}

// asked is what a match is evaluated on.
type asked struct {
	request      *Request
	user         User
	operation    string
	object       map[string]any
	namespace    string
	subresource  *string
	anyOperation bool
}

// matches says that a rule is for a request.
func (q *asked) matches(rule *syntax.Rule) bool {
	if q.object == nil || q.namespace != "" && q.namespace != metadataText(q.object, "namespace") {
		return false
	}
	if !q.any(&rule.Match) {
		return false
	}
	return rule.Exclude == nil || !q.any(rule.Exclude)
}

// any evaluates blocks: one of any, else all of all, else the block itself.
func (q *asked) any(m *syntax.Match) bool {
	holds := func(b syntax.Block) bool { return q.block(&b) }
	switch {
	case len(m.Any) > 0:
		return slices.ContainsFunc(m.Any, holds)
	case len(m.All) > 0:
		return !slices.ContainsFunc(m.All, func(b syntax.Block) bool { return !holds(b) })
	default:
		return q.block(&m.Block)
	}
}

func anyFits(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return wildcard(p, text) })
}

// block evaluates one block. An empty one is for nothing.
func (q *asked) block(b *syntax.Block) bool {
	r := &b.Resources
	if len(b.Roles)+len(b.ClusterRoles)+len(b.Subjects) == 0 && r.Name == "" && r.Selector == nil && r.NamespaceSelector == nil &&
		len(r.Kinds)+len(r.Names)+len(r.Namespaces)+len(r.Annotations)+len(r.Operations) == 0 {
		return false
	}
	return q.resources(r) && q.selectors(r) &&
		(len(b.Roles) == 0 || overlap(b.Roles, q.user.Roles)) &&
		(len(b.ClusterRoles) == 0 || overlap(b.ClusterRoles, q.user.ClusterRoles)) &&
		(len(b.Subjects) == 0 || slices.ContainsFunc(b.Subjects, q.subject))
}

func (q *asked) resources(r *syntax.Resources) bool {
	name := metadataText(q.object, "name")
	if name == "" {
		name = metadataText(q.object, "generateName")
	}
	return (len(r.Operations) == 0 || q.anyOperation || slices.Contains(r.Operations, q.operation)) &&
		(len(r.Kinds) == 0 || slices.ContainsFunc(r.Kinds, q.kind)) &&
		(r.Name == "" || wildcard(r.Name, name)) &&
		(len(r.Names) == 0 || anyFits(r.Names, name)) &&
		(len(r.Namespaces) == 0 || anyFits(r.Namespaces, q.ownNamespace()))
}

func (q *asked) selectors(r *syntax.Resources) bool {
	return annotated(r.Annotations, metadataTexts(q.object, "annotations")) &&
		(r.Selector == nil || selects(r.Selector, metadataTexts(q.object, "labels"))) &&
		(r.NamespaceSelector == nil || kindOfObject(q.object).kind != "Namespace" && selects(r.NamespaceSelector, q.request.NamespaceLabels))
}

// ownNamespace is the namespace of the object, and of a Namespace its name.
func (q *asked) ownNamespace() string {
	if kindOfObject(q.object).kind == "Namespace" {
		return metadataText(q.object, "name")
	}
	return metadataText(q.object, "namespace")
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(text string) bool { return slices.Contains(b, text) })
}

func (q *asked) subject(s rbacv1.Subject) bool {
	switch s.Kind {
	case rbacv1.UserKind:
		return wildcard(s.Name, q.user.Name)
	case rbacv1.GroupKind:
		return slices.ContainsFunc(q.user.Groups, func(g string) bool { return wildcard(s.Name, g) })
	case rbacv1.ServiceAccountKind:
		return wildcard("system:serviceaccount:"+s.Namespace+":"+s.Name, q.user.Name)
	default:
		return false
	}
}

var version = regexp.MustCompile(`^(v\d((alpha|beta)\d)?|\*)$`)

// selectorOf splits a kind of a block into group, version, kind and subresource.
func selectorOf(text string) [4]string {
	parts := strings.Split(text, "/")
	last := len(parts) - 1
	parts = append(parts[:last], strings.Split(parts[last], ".")...)
	switch {
	case len(parts) == 1:
		return [4]string{"*", "*", parts[0], ""}
	case len(parts) == 2 && parts[0] == "*" && parts[1] == "*":
		return [4]string{"*", "*", "*", "*"}
	case len(parts) == 2 && version.MatchString(parts[0]) && (parts[0] != "*" || strings.ToLower(parts[1]) != parts[1]):
		return [4]string{"*", parts[0], parts[1], ""}
	case len(parts) == 2:
		return [4]string{"*", "*", parts[0], parts[1]}
	case len(parts) == 3 && version.MatchString(parts[0]):
		return [4]string{"*", parts[0], parts[1], parts[2]}
	case len(parts) == 3:
		return [4]string{parts[0], parts[1], parts[2], ""}
	case len(parts) == 4:
		return [4]string(parts)
	default:
		return [4]string{}
	}
}

func (q *asked) kind(text string) bool {
	of, sub := kindOfObject(q.object), q.request.Subresource
	if q.subresource != nil {
		sub = *q.subresource
	}
	s := selectorOf(text)
	ephemeral := of == groupVersionKind{"", "v1", "Pod"} && sub == "ephemeralcontainers"
	return wildcard(s[0], of.group) && wildcard(s[1], of.version) && wildcard(s[2], of.kind) && (wildcard(s[3], sub) || ephemeral)
}

func annotated(patterns, annotations map[string]string) bool {
	for k, v := range patterns {
		found := false
		for key, value := range annotations {
			found = found || wildcard(k, key) && wildcard(v, value)
		}
		if !found {
			return false
		}
	}
	return true
}

// selects evaluates a selector whose labels may have wildcards, each for one label that fits.
func selects(selector *metav1.LabelSelector, on map[string]string) bool {
	exact := selector.DeepCopy()
	exact.MatchLabels = map[string]string{}
	for k, v := range selector.MatchLabels {
		if hasWildcard(k) || hasWildcard(v) {
			key, value := k, v
			k, v = strings.NewReplacer("*", "0", "?", "0").Replace(k), strings.NewReplacer("*", "0", "?", "0").Replace(v)
			for _, label := range slices.Sorted(maps.Keys(on)) {
				if wildcard(key, label) && wildcard(value, on[label]) {
					k, v = label, on[label]
					break
				}
			}
		}
		exact.MatchLabels[k] = v
	}
	s, err := metav1.LabelSelectorAsSelector(exact)
	return err == nil && s.Matches(labels.Set(on))
}
