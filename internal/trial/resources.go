package trial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// A match is a match of resources, as it is written.
type match struct {
	*rule.ResourceMatch

	// field is where it is written, and effect what follows from a resource that does not exist.
	field, effect string
	// namespaced says that it belongs to a namespace, and is for no other requests: who has written it
	// may have rights there only.
	namespaced bool
	// excluded are the kinds that it is not for, whatever it says, of which the compiler tells.
	excluded *rule.Excluded
}

// constraintsField is the field of what a policy is for.
const constraintsField = "spec.matchConstraints"

// constraints is the match of a policy whose expressions have types.
func constraints(c *compile.Compiled) match {
	m := match{c.Typed().Matches(), constraintsField, "nothing is matched by it", c.Ref.Namespace != "", nil}
	if len(c.Rules) > 0 {
		m.excluded = c.Rules[0].Match.Excluded
	}
	return m
}

// narrowing returns the matches of bindings, and that of an exemption.
func narrowing(c *compile.Compiled) []match {
	var all []match
	for field, m := range c.Narrowed() {
		all = append(all, match{m, field, "no request is for it", c.Ref.Namespace != "", nil})
	}
	return all
}

// resourceProblems says which resources that a match names do not exist: with a suggestion where it
// is known what is meant, which is a mistake, and else as a warning, since the resource may come with
// a CustomResourceDefinition. Nothing says why the match is for nothing else; it is empty if it is for
// something.
func resourceProblems(set *kind.Set, m match) (problems []rule.Problem, nothing string) {
	var whys []string
	some := false
	for i := range m.Rules {
		found, why, wrong := ruleProblems(named{set: set, rule: &m.Rules[i], match: m}, fmt.Sprintf("%s.resourceRules[%d]", m.field, i), m.effect)
		problems, whys, some = append(problems, wrong...), append(whys, why), some || found
	}
	if !some {
		nothing = cmp.Or(whys...)
		m.mistaken(problems)
	}
	for i := range m.Excluded {
		_, _, wrong := ruleProblems(named{set: set, rule: &m.Excluded[i], match: m}, fmt.Sprintf("%s.excludeResourceRules[%d]", m.field, i), "nothing is left out by it")
		// What may come can be left out before it comes, and what no request is for as well.
		problems = append(problems, slices.DeleteFunc(wrong, func(p rule.Problem) bool {
			return p.Severity != rule.Mistake || strings.HasSuffix(p.Field, ".operations")
		})...)
	}
	return problems, nothing
}

// mistaken makes mistakes of the problems of a policy of a namespace that is for nothing, if all of its resources exist. A
// binding that is for nothing may be one of several.
func (m match) mistaken(problems []rule.Problem) {
	if m.namespaced && m.field == constraintsField && !slices.ContainsFunc(problems, func(p rule.Problem) bool { return !strings.HasSuffix(p.Field, ".resources") }) {
		for i := range problems {
			problems[i].Severity = rule.Mistake
		}
	}
}

// exists reports whether a resource that the match names exists.
func (m match) exists(set *kind.Set) bool {
	return slices.ContainsFunc(m.Rules, func(r rule.ResourceRule) bool {
		return slices.ContainsFunc(r.Resources, func(pattern string) bool {
			n := named{set: set, rule: &r, pattern: pattern, match: m}
			return n.exists()
		})
	})
}

// ruleProblems says what is wrong with the resources of the rule of n. Found reports whether the rule is for
// one of them, and else nothing says why it is for none, if that is known.
func ruleProblems(n named, field, effect string) (found bool, nothing string, problems []rule.Problem) {
	for j, pattern := range n.rule.Resources {
		n.pattern = pattern
		if n.exists() {
			why, where := n.unasked()
			if found = found || why == ""; where == "" {
				nothing = why
				continue
			}
			p := rule.Problem{Severity: rule.Warning, Field: field + "." + where, What: why, Do: n.remedy(where)}
			if where == "operations" {
				p.Severity = rule.Mistake
			}
			problems = append(problems, p)
			continue
		}
		at, do, known := n.meant()
		if at == "" {
			continue
		}
		p := rule.Problem{Severity: rule.Warning, Field: field + "." + at, Do: do, What: fmt.Sprintf("%s has no resource %s in %s: %s", owner(n.set), pattern, n.where(), effect)}
		if at == "resources" {
			p.Field += fmt.Sprintf("[%d]", j)
		}
		switch {
		case known:
			p.Severity = rule.Mistake
		case !n.set.Complete && !n.isOwn():
			p.What = fmt.Sprintf("the resource %s in %s is not known: unless it exists, %s", pattern, n.where(), effect)
		}
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		nothing = problems[0].What + "; " + problems[0].Do
	}
	return found, nothing, problems
}

// owner names what has the kinds of a set.
func owner(set *kind.Set) string {
	if set.Complete {
		return "the cluster"
	}
	return "Kubernetes"
}

// A named is a resource as a rule names it: a name, and a subresource behind a slash, each of which may
// be "*".
type named struct {
	set     *kind.Set
	rule    *rule.ResourceRule
	pattern string
	match   match
}

// oneIs reports whether one of words is "*" or word.
func oneIs(words []string, word string) bool {
	return slices.Contains(words, "*") || slices.Contains(words, word)
}

// in returns the group and version of a resource.
func in(r *kind.Resource) schema.GroupVersion {
	if r.In != nil {
		return *r.In
	}
	return r.Of().GroupVersion()
}

// exists reports whether the rule is for a resource that exists.
func (n *named) exists() bool {
	for r := range n.set.Resources() {
		if at := in(r); oneIs(n.rule.Groups, at.Group) && oneIs(n.rule.Versions, at.Version) && n.is(r) {
			return true
		}
	}
	return false
}

// unasked says why no request for the resources that exist is one that the rule is for, and which of its
// fields says so; empty if some request is. The field alone is empty if the compiler warns of it.
func (n *named) unasked() (why, field string) {
	alone := *n.rule
	alone.Resources = []string{n.pattern}
	for r := range n.set.Resources() {
		at := in(r)
		if !oneIs(n.rule.Groups, at.Group) || !oneIs(n.rule.Versions, at.Version) || !n.is(r) {
			continue
		}
		_, ok := targetOf(r, &rule.ResourceMatch{Rules: []rule.ResourceRule{alone}})
		switch {
		case ok && n.match.namespaced && !r.Namespaced:
			why, field = fmt.Sprintf("%s are in no namespace, so that no request for them is one of this namespace", r.Name), "resources"
			continue
		case ok && n.match.excluded.HasResource(at.Group, r.Name):
			why, field = rule.NoAction(strings.TrimSuffix(n.pattern+"."+at.Group, ".")), ""
			continue
		case ok:
			return "", ""
		}
		operations := operationsOf(r)
		switch {
		case len(n.rule.Operations) > 0 && !slices.ContainsFunc(n.rule.Operations, func(o usher.Operation) bool { return slices.Contains(operations, o) }):
			why, field = fmt.Sprintf("no request for %s has the operation %s", n.pattern, n.rule.Operations[0]), "operations"
		case n.rule.Scope != "":
			why, field = fmt.Sprintf("no request for %s is in scope %s", n.pattern, n.rule.Scope), "scope"
		default:
			why, field = fmt.Sprintf("API servers ask no policy about %s", n.pattern), "resources"
		}
	}
	return why, field
}

// remedy returns what to do about a field because of which no request is one that the rule is for.
func (n *named) remedy(field string) string {
	if field == "resources" && n.match.namespaced {
		return "remove the resource, or ask who administers the cluster for what is for all namespaces"
	}
	if field != "operations" {
		return "correct it, or remove it"
	}
	var operations []string
	for r := range n.set.Resources() {
		if !n.is(r) || !oneIs(n.rule.Groups, in(r).Group) {
			continue
		}
		for _, o := range operationsOf(r) {
			if !slices.Contains(operations, string(o)) {
				operations = append(operations, string(o))
			}
		}
	}
	if len(operations) == 0 {
		return "remove the resource"
	}
	slices.Sort(operations)
	return "write " + strings.Join(operations, " or ")
}

// is reports whether the pattern is for a resource, whatever its group and version.
func (n *named) is(r *kind.Resource) bool {
	name, sub, _ := strings.Cut(n.pattern, "/")
	of, below, _ := strings.Cut(r.Name, "/")
	return (name == "*" || name == of) && (sub == below || sub == "*")
}

// where returns the groups and versions that the rule names.
func (n *named) where() string {
	var all []string
	for _, group := range n.rule.Groups {
		for _, version := range n.rule.Versions {
			if group == "" && version == "*" {
				group = `""`
			}
			all = append(all, schema.GroupVersion{Group: group, Version: version}.String())
		}
	}
	return strings.Join(all[:min(len(all), 4)], " or ")
}

// isOwn reports whether the rule names a group of which all resources are known, or that no
// CustomResourceDefinition can have, since it has no dot.
func (n *named) isOwn() bool {
	return slices.ContainsFunc(n.rule.Groups, func(group string) bool {
		if !strings.Contains(group, ".") {
			return true
		}
		for r := range n.set.Resources() {
			if in(r).Group == group && (n.set.Complete || strings.HasSuffix(group, ".k8s.io")) {
				return true
			}
		}
		return false
	})
}

// meant returns which list of the rule is wrong and what may be meant; nothing if none is. Known says that
// nothing else can be.
func (n *named) meant() (list, do string, known bool) {
	name, _, _ := strings.Cut(n.pattern, "/")
	own := n.isOwn()
	if found, called := n.similar(); found != "" {
		return "resources", "did you mean " + found + "?", own || called
	}
	versions, groups, similar := n.elsewhere(name)
	switch {
	case len(versions) > 0:
		// Versions that were not yet stable may be served by other versions of Kubernetes.
		grown := !slices.ContainsFunc(n.rule.Versions, func(version string) bool { return unstable.MatchString(version + " ") })
		if name == "*" && !grown {
			return "", "", false
		}
		return "apiVersions", fmt.Sprintf("did you mean apiVersions: [%s]?", stable(versions)[0]), own && grown
	case len(groups) > 0 && (own || n.isNear(groups)):
		slices.Sort(groups)
		return "apiGroups", fmt.Sprintf("did you mean apiGroups: [%s]?", quoted(groups[0])), !slices.ContainsFunc(n.rule.Groups, retired)
	case len(similar) > 0 && own:
		slices.Sort(similar)
		return "resources", fmt.Sprintf("did you mean %s?", similar[0]), true
	case name != "*" && len(validation.IsDNS1035Label(name)) > 0:
		return "resources", "resources are named in the plural and in lower case, such as pods", true
	case name == "*" && own:
		return "apiGroups", `see kubectl api-resources; the core group is ""`, true
	case name == "*":
		return "apiGroups", "see kubectl api-resources", false
	}
	return "resources", n.create(), false
}

// elsewhere returns in which versions of the groups of the rule, and in which other groups, there is such a
// resource, and which resources of other groups are called so.
func (n *named) elsewhere(name string) (versions, groups, similar []string) {
	for r := range n.set.Resources() {
		at := in(r)
		switch {
		case n.is(r) && oneIs(n.rule.Groups, at.Group):
			versions = append(versions, at.Version)
		case n.is(r) && name != "*":
			groups = append(groups, at.Group)
		case n.isCalled(r) && name == n.pattern && name != "*":
			similar = append(similar, fmt.Sprintf("%s in apiGroups: [%s]", r.Name, quoted(at.Group)))
		}
	}
	return versions, groups, similar
}

// create says how there may be such a resource.
func (n *named) create() string {
	switch {
	case n.set.Complete && n.match.namespaced:
		return "correct it, or ask who administers the cluster to create its CustomResourceDefinition"
	case n.set.Complete:
		return "correct it, or create its CustomResourceDefinition"
	}
	return "correct it, or give its CustomResourceDefinition; see kubectl api-resources"
}

// isNear reports whether the rule names a group that looks like one of groups.
func (n *named) isNear(groups []string) bool {
	return slices.ContainsFunc(n.rule.Groups, func(group string) bool { return rule.Nearest(group, groups) != "" })
}

// isCalled reports whether a resource is called so by people: by its kind, or as kubectl abbreviates it.
func (n *named) isCalled(r *kind.Resource) bool {
	return !strings.Contains(r.Name, "/") && (strings.EqualFold(r.Kind, n.pattern) || strings.EqualFold(r.Name, n.pattern) || slices.Contains(r.Short, strings.ToLower(n.pattern)))
}

// similar returns the resource of the groups and versions of the rule that may be meant, and whether
// people call it so; empty if there is none.
func (n *named) similar() (found string, isCalled bool) {
	name, sub, _ := strings.Cut(n.pattern, "/")
	var called, names, subs []string
	for r := range n.set.Resources() {
		at := in(r)
		if !oneIs(n.rule.Groups, at.Group) || !oneIs(n.rule.Versions, at.Version) {
			continue
		}
		of, below, _ := strings.Cut(r.Name, "/")
		whole := &named{set: n.set, rule: n.rule, pattern: name}
		switch {
		case whole.isCalled(r) && name != of:
			called = append(called, of)
		case name == of && below != "":
			subs = append(subs, below)
		case below == "" && !slices.Contains(names, of):
			names = append(names, of)
		}
	}
	suffix := ""
	if sub != "" {
		suffix = "/" + sub
	}
	switch near := rule.Nearest(name, names); {
	case len(called) > 0:
		return slices.Min(called) + suffix, !slices.Contains(n.rule.Groups, "*")
	case len(subs) > 0 && sub != "":
		if near := rule.Nearest(sub, subs); near != "" {
			return name + "/" + near, false
		}
	case near != "" && near != name && name != "*":
		return near + suffix, false
	}
	return "", false
}

// quoted returns the name of a group as it is written in YAML.
func quoted(group string) string { return cmp.Or(group, `""`) }
