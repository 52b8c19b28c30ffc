package authorization

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A linter warns of what is valid but rarely intended.
type linter struct {
	*compilation

	spec *v1alpha1.AuthorizationPolicySpec
	// allow says that the policy allows requests.
	allow bool
}

func (l linter) lint() {
	for i := range l.spec.Rules {
		field, r := fmt.Sprintf("spec.rules[%d]", i), &l.spec.Rules[i]
		if !l.allow {
			l.subresources(field, r)
		}
		l.names(field, r)
		l.namespaces(field, r)
		l.overlap(field, r)
	}
	if l.allow {
		l.everybody()
	}
	l.selectors()
}

// strong are subresources that give more access than their resource.
var strong = map[string]string{
	"pods":            "pods/exec and pods/ephemeralcontainers",
	"nodes":           "nodes/proxy",
	"services":        "services/proxy",
	"serviceaccounts": "serviceaccounts/token",
}

// streaming are subresources that are created over SPDY, and got over websockets.
var streaming = []string{"pods/exec", "pods/attach", "pods/portforward"}

func (l linter) subresources(field string, r *v1alpha1.Rule) {
	if slices.Contains(r.Resources, "*") {
		return
	}
	for i, resource := range r.Resources {
		at := fmt.Sprintf("%s.resources[%d]", field, i)
		named := slices.ContainsFunc(r.Resources, func(other string) bool {
			return strings.HasPrefix(other, resource+"/") || strings.HasPrefix(other, "*/")
		})
		if what := strong[resource]; what != "" && !named {
			l.warn(at, fmt.Sprintf("%s does not include its subresources, such as %s", resource, what), "add "+resource+"/*")
		}
		if slices.Contains(streaming, resource) && slices.Contains(r.Verbs, "create") && !has(r.Verbs, "get") {
			l.warn(field+".verbs", "clients that use websockets ask for "+resource+" with the verb get", "add get")
		}
	}
}

// names warns of verbs for which a name is not known, or none.
func (l linter) names(field string, r *v1alpha1.Rule) {
	if len(r.Names) == 0 || slices.Contains(r.Names, "*") {
		return
	}
	if slices.Contains(r.Verbs, "create") && slices.ContainsFunc(r.Resources, func(resource string) bool { return !strings.Contains(resource, "/") }) {
		l.warn(field+".names", "the name of what is created is not known yet: the rule is for no create", "make a rule without names for create, or use an admission policy")
	}
	if l.allow && slices.Contains(r.Verbs, "deletecollection") {
		l.warn(field+".verbs", "a deletecollection names nothing: a rule with names does not allow it", "remove deletecollection, or names")
	}
}

// namespaces tells of namespaces in a policy of one: an error if its own is not among them.
func (l linter) namespaces(field string, r *v1alpha1.Rule) {
	if l.own == "" || len(r.Namespaces) == 0 {
		return
	}
	depends := slices.ContainsFunc(r.Namespaces, func(text string) bool { return strings.Contains(text, "$(") })
	if !depends && !has(r.Namespaces, l.own) {
		l.fail(field+".namespaces", fmt.Sprintf("an AuthorizationPolicy is for requests in its own namespace, %s, which is not one of these: the rule matches nothing", l.own),
			"remove namespaces, write the policy in the namespace that it is for, or ask who administers the cluster for a ClusterAuthorizationPolicy")
		return
	}
	l.warn(field+".namespaces", "an AuthorizationPolicy is for requests in its own namespace, and for no other of these", "remove namespaces, or ask who administers the cluster for a ClusterAuthorizationPolicy")
}

func (l linter) overlap(field string, r *v1alpha1.Rule) {
	switch {
	case r.CollectionOverlap == nil:
	case l.allow:
		l.warn(field+".collectionOverlap", "it is for Deny and NoOpinion: an Allow has to cover what is asked for in any case", "remove it")
	case !*r.CollectionOverlap:
		l.warn(field+".collectionOverlap", "what the rule names can be read in a list of more", "remove it, or deny lists and watches in a rule of their own")
	}
}

func (l linter) everybody() {
	for i, s := range l.spec.Subjects {
		switch {
		case slices.Contains(s.Users, "*"):
			l.warn(fmt.Sprintf("spec.subjects[%d].users", i), "* is everybody, with users who have not said who they are", "name the group system:authenticated instead")
		case slices.Contains(s.Groups, "*"):
			l.warn(fmt.Sprintf("spec.subjects[%d].groups", i), "* is everybody, with users who have not said who they are", "name system:authenticated instead")
		}
	}
}

// selectors warns of verbs whose requests have no selectors.
func (l linter) selectors() {
	if l.spec.Selectors == nil {
		return
	}
	effect := "denies all others, whatever labels the objects have"
	switch {
	case l.allow:
		effect = "allows no others"
	case l.spec.Effect == v1alpha1.EffectNoOpinion:
		effect = "is for all others, whatever labels the objects have"
	}
	for i := range l.spec.Rules {
		others := slices.ContainsFunc(l.spec.Rules[i].Verbs, func(verb string) bool {
			return !authz.HasSelectors(verb) && (!l.allow || !strings.Contains(verb, "*"))
		})
		if others {
			l.warn(fmt.Sprintf("spec.rules[%d].verbs", i), "only requests with the verbs list, watch and deletecollection have selectors: the rule "+effect,
				"use these verbs, or remove spec.selectors. What depends on the labels of objects is for a ClusterObjectPolicy, with excludeSubjects for those who may")
		}
	}
}

// has reports whether one of patterns matches text.
func has(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, suffix, star := strings.Cut(pattern, "*")
		p := authz.Pattern{Prefix: prefix, Suffix: suffix, Star: star}
		return p.Matches(text)
	})
}
