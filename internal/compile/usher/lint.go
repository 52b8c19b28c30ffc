package usher

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// lint warns of what is valid but rarely intended.
func (c *compilation) lint(s *v1alpha1.AuthorizationPolicySpec) {
	allow := c.policy.Effect == authz.Allow
	for i := range s.Rules {
		field, r := fmt.Sprintf("spec.rules[%d]", i), &s.Rules[i]
		if !allow {
			c.lintSubresources(field, r)
		}
		c.lintNames(field, r, allow)
		c.lintNamespaces(field, r)
		c.lintOverlap(field, r, allow)
	}
	if allow {
		c.lintEverybody(s.Subjects)
	}
	c.lintSelectors(s, allow)
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

func (c *compilation) lintSubresources(field string, r *v1alpha1.Rule) {
	if slices.Contains(r.Resources, "*") {
		return
	}
	for i, resource := range r.Resources {
		at := fmt.Sprintf("%s.resources[%d]", field, i)
		named := slices.ContainsFunc(r.Resources, func(other string) bool {
			return strings.HasPrefix(other, resource+"/") || strings.HasPrefix(other, "*/")
		})
		if what := strong[resource]; what != "" && !named {
			c.warn(at, fmt.Sprintf("%s does not include its subresources, such as %s", resource, what), "add "+resource+"/*")
		}
		if slices.Contains(streaming, resource) && slices.Contains(r.Verbs, "create") && !has(r.Verbs, "get") {
			c.warn(field+".verbs", "clients that use websockets ask for "+resource+" with the verb get", "add get")
		}
	}
}

// lintNames warns of verbs for which a name is not known, or none.
func (c *compilation) lintNames(field string, r *v1alpha1.Rule, allow bool) {
	if len(r.Names) == 0 || slices.Contains(r.Names, "*") {
		return
	}
	if slices.Contains(r.Verbs, "create") && slices.ContainsFunc(r.Resources, func(resource string) bool { return !strings.Contains(resource, "/") }) {
		c.warn(field+".names", "the name of what is created is not known yet: the rule is for no create", "make a rule without names for create, or use an admission policy")
	}
	if allow && slices.Contains(r.Verbs, "deletecollection") {
		c.warn(field+".verbs", "a deletecollection names nothing: a rule with names does not allow it", "remove deletecollection, or names")
	}
}

func (c *compilation) lintNamespaces(field string, r *v1alpha1.Rule) {
	if c.own == "" || len(r.Namespaces) == 0 {
		return
	}
	c.warn(field+".namespaces", "an AuthorizationPolicy is for requests in its own namespace, whatever stands here", "remove namespaces, or ask who administers the cluster for a ClusterAuthorizationPolicy")
}

func (c *compilation) lintOverlap(field string, r *v1alpha1.Rule, allow bool) {
	switch {
	case r.CollectionOverlap == nil:
	case allow:
		c.warn(field+".collectionOverlap", "it is for Deny and NoOpinion: an Allow has to cover what is asked for in any case", "remove it")
	case !*r.CollectionOverlap:
		c.warn(field+".collectionOverlap", "what the rule names can be read in a list of more", "remove it, or deny lists and watches in a rule of their own")
	}
}

func (c *compilation) lintEverybody(subjects []v1alpha1.Subject) {
	for i, s := range subjects {
		switch {
		case slices.Contains(s.Users, "*"):
			c.warn(fmt.Sprintf("spec.subjects[%d].users", i), "* is everybody, with users who have not said who they are", "name the group system:authenticated instead")
		case slices.Contains(s.Groups, "*"):
			c.warn(fmt.Sprintf("spec.subjects[%d].groups", i), "* is everybody, with users who have not said who they are", "name system:authenticated instead")
		}
	}
}

// lintSelectors warns of selectors that requests cannot have.
func (c *compilation) lintSelectors(s *v1alpha1.AuthorizationPolicySpec, allow bool) {
	if s.Selectors == nil || !allow {
		return
	}
	for i := range s.Rules {
		verbs := s.Rules[i].Verbs
		if !has(verbs, "list") && !has(verbs, "watch") && !has(verbs, "deletecollection") {
			c.warn(fmt.Sprintf("spec.rules[%d].verbs", i), "requests with these verbs have no selector, so that the rule allows none", "use list, watch or deletecollection, or remove spec.selectors")
		}
	}
}

// has reports whether one of patterns matches verb.
func has(patterns []string, verb string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, suffix, star := strings.Cut(pattern, "*")
		p := authz.Pattern{Prefix: prefix, Suffix: suffix, Star: star}
		return p.Matches(verb)
	})
}
