package authorization

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule/authz"
)

func (c *compilation) rule(field string, r *v1alpha1.Rule) {
	compiled := &authz.Rule{Policy: c.policy, Name: field, Own: c.own, Verbs: c.set(field+".verbs", r.Verbs)}
	if len(r.Verbs) == 0 {
		c.fail(field+".verbs", "the rule is for no verb", "name verbs, or * for all")
	}
	if len(r.NonResourceURLs) > 0 {
		c.urls(field, r, compiled)
		return
	}
	if len(r.Resources) == 0 {
		c.fail(field+".resources", "the rule is for nothing", "name resources, or nonResourceURLs")
	}
	if len(r.APIGroups) == 0 {
		c.fail(field+".apiGroups", "the rule is for no API group", `name groups, "" for that of pods, or * for all`)
	}
	compiled.Groups = c.set(field+".apiGroups", r.APIGroups)
	compiled.Versions = c.optional(c.set(field+".apiVersions", r.APIVersions), r.APIVersions)
	compiled.Names = c.optional(c.templates(field+".names", r.Names), r.Names)
	compiled.Namespaces = c.optional(c.templates(field+".namespaces", r.Namespaces), r.Namespaces)
	compiled.Whole = r.CollectionOverlap != nil && !*r.CollectionOverlap
	for i, resource := range r.Resources {
		compiled.Resources = append(compiled.Resources, c.resource(fmt.Sprintf("%s.resources[%d]", field, i), resource))
	}
	c.rules = append(c.rules, compiled)
}

// urls completes a rule for paths. In a namespace there are none.
func (c *compilation) urls(field string, r *v1alpha1.Rule, compiled *authz.Rule) {
	if len(r.Resources)+len(r.APIGroups)+len(r.APIVersions)+len(r.Names)+len(r.Namespaces) > 0 || r.CollectionOverlap != nil {
		c.fail(field+".nonResourceURLs", "the rule is for resources too", "make two rules of it")
	}
	for i, url := range r.NonResourceURLs {
		if !strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "*") {
			c.fail(fmt.Sprintf("%s.nonResourceURLs[%d]", field, i), fmt.Sprintf("%q is no path: it has to begin with /", url), "write /"+url)
		}
	}
	urls := c.set(field+".nonResourceURLs", r.NonResourceURLs)
	compiled.URLs = &urls
	if c.own != "" {
		c.warn(field+".nonResourceURLs", "paths are in no namespace: the rule matches nothing", "ask who administers the cluster for a ClusterAuthorizationPolicy")
		return
	}
	c.rules = append(c.rules, compiled)
}

// optional is a set that is everything if it is not written down.
func (c *compilation) optional(s authz.Set, written []string) authz.Set {
	if len(written) == 0 {
		return authz.Set{Any: true}
	}
	return s
}

// set compiles texts with at most one * each.
func (c *compilation) set(field string, written []string) authz.Set {
	var s authz.Set
	for i, text := range written {
		if text == "*" {
			s.Any = true
			continue
		}
		s.Patterns = append(s.Patterns, c.pattern(fmt.Sprintf("%s[%d]", field, i), text))
	}
	return s
}

// templates compiles texts that may have placeholders instead of *.
func (c *compilation) templates(field string, written []string) authz.Set {
	var s authz.Set
	for i, text := range written {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case text == "*":
			s.Any = true
		case text == "":
			c.fail(at, "the empty text is the name of nothing", "remove it")
		case strings.Contains(text, "$("):
			if strings.Contains(text, "*") {
				c.fail(at, "* and placeholders do not go together", "use one of them")
			}
			t := c.template(at, text)
			s.Patterns = append(s.Patterns, authz.Pattern{Template: &t})
		default:
			s.Patterns = append(s.Patterns, c.pattern(at, text))
		}
	}
	return s
}

func (c *compilation) template(field, text string) authz.Template {
	t, err := authz.ParseTemplate(text)
	if err != nil {
		c.fail(field, err.Error(), "correct it")
	}
	return t
}

func (c *compilation) pattern(field, text string) authz.Pattern {
	if strings.Contains(text, "$(") {
		c.fail(field, "there are no placeholders here", "they are for names, namespaces and selectors; use a condition")
	}
	prefix, suffix, star := strings.Cut(text, "*")
	if strings.Contains(suffix, "*") {
		c.fail(field, fmt.Sprintf("%q has more than one *", text), "write several patterns, or a condition")
	}
	return authz.Pattern{Prefix: prefix, Suffix: suffix, Star: star}
}

func (c *compilation) resource(field, text string) authz.Resource {
	if text == "*" {
		return authz.Resource{Every: true}
	}
	name, subresource, divided := strings.Cut(text, "/")
	for _, part := range []string{name, subresource} {
		if part != "*" && strings.Contains(part, "*") {
			c.fail(field, fmt.Sprintf("in %q, * replaces a part of a name", text), "write names out: * is for all of them, as in pods/* and */scale")
			return authz.Resource{}
		}
	}
	switch {
	case name == "", divided && subresource == "":
		c.fail(field, fmt.Sprintf("%q is no resource", text), "write one such as pods or pods/log")
	case name == "*" && !divided:
		c.fail(field, fmt.Sprintf("%q is no resource", text), "write *")
	case strings.ToLower(text) != text:
		c.warn(field, fmt.Sprintf("%q is no resource: these are plural and in lower case", text), "write "+strings.ToLower(text)+", or the plural of that")
	}
	return authz.Resource{Name: name, Subresource: subresource}
}

func (c *compilation) subjects(field string, written []v1alpha1.Subject) []authz.Subject {
	var subjects []authz.Subject
	for i, w := range written {
		at := fmt.Sprintf("%s[%d]", field, i)
		s := authz.Subject{Users: c.patterns(at+".users", w.Users), Groups: c.patterns(at+".groups", w.Groups)}
		for j, account := range w.ServiceAccounts {
			s.ServiceAccounts = append(s.ServiceAccounts, c.account(fmt.Sprintf("%s.serviceAccounts[%d]", at, j), account))
		}
		if len(s.Users)+len(s.Groups)+len(s.ServiceAccounts) == 0 {
			c.fail(at, "nobody is named", "name users, groups or serviceAccounts")
		}
		subjects = append(subjects, s)
	}
	return subjects
}

func (c *compilation) patterns(field string, written []string) []authz.Pattern {
	var patterns []authz.Pattern
	for i, text := range written {
		patterns = append(patterns, c.pattern(fmt.Sprintf("%s[%d]", field, i), text))
	}
	return patterns
}

func (c *compilation) account(field, text string) authz.ServiceAccount {
	namespace, name, divided := strings.Cut(text, "/")
	if !divided || namespace == "" || name == "" || strings.Contains(name, "/") {
		c.fail(field, fmt.Sprintf("%q is no service account", text), "write NAMESPACE/NAME")
		return authz.ServiceAccount{}
	}
	return authz.ServiceAccount{Namespace: c.pattern(field, namespace), Name: c.pattern(field, name)}
}

func (c *compilation) requirements(field string, written []v1alpha1.Requirement) []authz.Requirement {
	var all []authz.Requirement
	for i, w := range written {
		at := fmt.Sprintf("%s[%d]", field, i)
		r := authz.Requirement{Key: w.Key, Operator: w.Operator}
		for j, value := range w.Values {
			r.Values = append(r.Values, c.template(fmt.Sprintf("%s.values[%d]", at, j), value))
		}
		takesValues := slices.Contains([]string{authz.In, authz.NotIn}, w.Operator)
		switch {
		case w.Key == "":
			c.fail(at+".key", "the requirement has no key", "name a label or a field")
		case !takesValues && w.Operator != authz.Exists && w.Operator != authz.DoesNotExist:
			c.fail(at+".operator", fmt.Sprintf("%q is no operator", w.Operator), "use In, NotIn, Exists or DoesNotExist")
		case takesValues && len(w.Values) == 0:
			c.fail(at+".values", w.Operator+" needs values", "add one")
		case !takesValues && len(w.Values) > 0:
			c.fail(at+".values", w.Operator+" takes no values", "remove them, or use In")
		}
		all = append(all, r)
	}
	return all
}
