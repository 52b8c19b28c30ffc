package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// accessProblems warns of rules of authorization policies that match no request.
func (t *Trial) accessProblems(ctx context.Context, set *kind.Set, c compile.Compiled) []rule.Problem {
	a := access{set: set, overruns: t.options.Overruns}
	if len(c.Access) > 0 {
		a.policy(c.Access[0].Policy)
	}
	for _, r := range c.Access {
		a.allows = r.Policy.Effect == authz.Allow
		if r.URLs != nil {
			a.verbsOf(r, httpVerbs(), "paths are requested with get, post, put, patch, delete, head and options only")
			continue
		}
		verbs := map[string]bool{}
		for i := range r.Resources {
			a.resource(r, i, verbs)
		}
		a.verbs(r, verbs)
		a.namespaces(r)
	}
	if len(c.Access) > 0 {
		a.conditions(ctx, c.Access[0])
		a.wholes(ctx, c.Access)
	}
	return a.problems
}

// policy warns of what is wrong with all rules.
func (a *access) policy(p *authz.Policy) {
	if p.Message == "" && p.Effect == authz.Deny {
		a.warn("spec.message", "who is refused is not told why", "set message")
	}
	if !p.Until.IsZero() && p.Until.Before(time.Now()) {
		a.warn("spec.validity.notAfter", "the policy has ended: it matches no request", "set a later time, or delete the policy")
	}
	a.subjects(p)
	names := map[string]bool{}
	for _, condition := range slices.Concat(p.When, p.Unless) {
		if names[condition.Name] {
			a.warn("spec", fmt.Sprintf("two conditions have the name %s: what is told of a decision names both", condition.Name), "give each a name of its own")
		}
		names[condition.Name] = true
	}
	for _, labels := range [][]authz.Requirement{p.Labels, p.Fields} {
		for i := range labels {
			for _, value := range labels[i].Values {
				if text := value.String(); strings.Contains(text, "${") || strings.Contains(text, "{{") {
					a.warn("spec.selectors", text+" stays as it is", "write $(user), or another placeholder in $()")
				}
			}
		}
	}
}

// subjects warns of users that do not exist, and of those that nothing can be denied.
func (a *access) subjects(p *authz.Policy) {
	for i := range p.Subjects {
		for j, user := range p.Subjects[i].Users {
			name, account := strings.CutPrefix(user.Prefix, "system:serviceaccount:")
			if account && !user.Star && user.Template == nil && strings.Count(name, ":") != 1 {
				a.warn(fmt.Sprintf("spec.subjects[%d].users[%d]", i, j), "no service account is called "+user.Prefix+": the subject is nobody",
					"name it in serviceAccounts, as NAMESPACE/NAME")
			}
		}
		for j, group := range p.Subjects[i].Groups {
			if p.Effect != authz.Allow && group.Prefix == "system:masters" {
				a.warn(fmt.Sprintf("spec.subjects[%d].groups[%d]", i, j), "API servers do not ask about members of system:masters: they cannot be denied anything", "take the users out of the group")
			}
		}
	}
}

// An access checks one authorization policy.
type access struct {
	set      *kind.Set
	overruns *overrun.Watch
	allows   bool
	problems []rule.Problem
}

func (a *access) warn(field, what, do string) {
	a.problems = append(a.problems, rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do})
}

func httpVerbs() []string {
	return []string{"get", "post", "put", "patch", "delete", "head", "options"}
}

// specialVerbs returns the verbs that occur in authorization requests, but not in discovery.
func specialVerbs() []string {
	return []string{"use", "bind", "escalate", "impersonate", "approve", "sign", "attest", "proxy", "request-serviceaccounts-token-audience"}
}

func exact(set authz.Set) []string {
	var texts []string
	for i := range set.Patterns {
		if p := &set.Patterns[i]; !p.Star && p.Template == nil {
			texts = append(texts, p.Prefix)
		}
	}
	return texts
}

// resource warns of one resource that none of the groups has, and records the verbs of those that
// match.
func (a *access) resource(r *authz.Rule, i int, verbs map[string]bool) {
	at := &r.Resources[i]
	field := fmt.Sprintf("%s.resources[%d]", r.Name, i)
	if at.Every || at.Name == "*" {
		verbs["*"] = true
		return
	}
	known, foreign := a.groups(r)
	var subresources, names, elsewhere []string
	found := foreign
	for row := range a.set.Resources() {
		name, sub, _ := strings.Cut(row.Name, "/")
		inGroup := r.Groups.Any || slices.Contains(known, row.Under())
		switch {
		case !inGroup:
			if row.Name == at.Name {
				elsewhere = append(elsewhere, row.Under())
			}
			continue
		case name == at.Name && sub != "":
			subresources = append(subresources, sub)
		case sub == "" && isCalled(row, at.Name):
			names = append([]string{name}, names...)
		case sub == "":
			names = append(names, name)
		}
		if sub == at.Name && at.Subresource == "" {
			elsewhere = append(elsewhere, "/"+row.Name)
		}
		if name == at.Name && isFor(at, sub) {
			found = true
			for _, verb := range row.Verbs {
				verbs[verb] = true
			}
		}
	}
	if foreign {
		verbs["*"] = true
	}
	if found {
		return
	}
	if at.Name != strings.ToLower(at.Name) {
		return // Another warning says so already.
	}
	a.unknownResource(field, r, at, subresources, names, elsewhere)
}

func isFor(r *authz.Resource, subresource string) bool {
	return r.Subresource == subresource || r.Subresource == "*"
}

func (a *access) unknownResource(field string, r *authz.Rule, at *authz.Resource, subresources, names, elsewhere []string) {
	groups := strings.Join(exact(r.Groups), ", ")
	if groups == "" {
		groups = `""`
	}
	written := at.Name
	do := "see kubectl api-resources"
	if at.Subresource != "" {
		written += "/" + at.Subresource
		if near := rule.Nearest(at.Subresource, subresources); near != "" {
			do = "did you mean " + at.Name + "/" + near + "?"
		}
		if len(subresources) > 0 {
			a.warn(field, fmt.Sprintf("%s has no subresource %s: the rule matches no request", at.Name, at.Subresource), do)
			return
		}
	}
	switch {
	case len(elsewhere) > 0 && strings.HasPrefix(elsewhere[0], "/"):
		do = "did you mean " + strings.TrimPrefix(elsewhere[0], "/") + "?"
	case len(elsewhere) > 0:
		do = fmt.Sprintf("did you mean apiGroups: [%q]?", elsewhere[0])
	default:
		if near := a.nearest(at.Name, names); near != "" {
			do = "did you mean " + near + "?"
		}
	}
	a.warn(field, fmt.Sprintf("the API group %s has no resource %s: the rule matches no request", groups, written), do)
}

// isCalled reports whether people call a resource so: by its kind, or as kubectl abbreviates it.
func isCalled(row *kind.Resource, name string) bool {
	return slices.Contains(row.Short, name) || strings.EqualFold(row.Kind, name)
}

// nearest returns the resource that a name may mean. Kinds, singular and short names count, too, and
// come first.
func (a *access) nearest(name string, names []string) string {
	for row := range a.set.Resources() {
		if !strings.Contains(row.Name, "/") && slices.Contains(names, row.Name) && isCalled(row, name) {
			return row.Name
		}
	}
	return rule.Nearest(name, names)
}

// groups returns the groups of a rule that the set knows, and whether there may be others: by patterns,
// or because the set is not that of a cluster. It warns of groups that do not exist.
func (a *access) groups(r *authz.Rule) (known []string, foreign bool) {
	all := map[string]bool{}
	for row := range a.set.Resources() {
		all[row.Under()] = true
	}
	foreign = len(exact(r.Groups)) < len(r.Groups.Patterns)
	for i, group := range exact(r.Groups) {
		if all[group] {
			known = append(known, group)
			continue
		}
		do := "see kubectl api-resources"
		name, _, versioned := strings.Cut(group, "/")
		near := ""
		switch {
		case group == "core" || group == "v1":
			do = `write "" for the group of pods`
		case versioned && all[name]:
			do = "write " + name + ": the version does not belong there"
		default:
			names := make([]string, 0, len(all))
			for other := range all {
				if names = append(names, other); strings.HasPrefix(other, group+".") {
					near = other
				}
			}
			slices.Sort(names)
			if near == "" {
				near = rule.Nearest(group, names)
			}
			if near == "" && !a.set.Complete {
				foreign = true
				continue
			}
			if near != "" {
				do = "did you mean " + near + "?"
			}
		}
		p := rule.Problem{Severity: rule.Warning, Field: fmt.Sprintf("%s.apiGroups[%d]", r.Name, i), What: fmt.Sprintf("there is no API group %q: the rule matches none of its requests", group), Do: do}
		if !slices.Contains(a.problems, p) {
			a.problems = append(a.problems, p)
		}
		// One warning is enough.
		foreign = true
	}
	return known, foreign || r.Groups.Any && !a.set.Complete
}

// verbs warns of verbs that none of the resources has.
func (a *access) verbs(r *authz.Rule, of map[string]bool) {
	if of["*"] || len(of) == 0 {
		of = map[string]bool{}
		for row := range a.set.Resources() {
			for _, verb := range row.Verbs {
				of[verb] = true
			}
		}
	}
	var all []string
	for verb := range of {
		all = append(all, verb)
	}
	slices.Sort(all)
	a.verbsOf(r, all, "the resources have "+strings.Join(all, ", "))
}

func (a *access) verbsOf(r *authz.Rule, all []string, there string) {
	if r.Verbs.Any && len(r.Verbs.Patterns) > 0 {
		a.warn(r.Name+".verbs", "* means all verbs: the others do not count", "leave out * or the others")
	}
	for i, verb := range exact(r.Verbs) {
		if slices.Contains(all, verb) || slices.Contains(specialVerbs(), verb) && r.URLs == nil {
			continue
		}
		a.warn(fmt.Sprintf("%s.verbs[%d]", r.Name, i), fmt.Sprintf("no request for it has the verb %q", verb), cmp.Or(rule.Suggestion(verb, all), there))
	}
}

// namespaces warns of namespaces that cannot exist, and of rules with namespaces for cluster-scoped
// resources.
func (a *access) namespaces(r *authz.Rule) {
	for i, namespace := range exact(r.Namespaces) {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			a.warn(fmt.Sprintf("%s.namespaces[%d]", r.Name, i), fmt.Sprintf("no namespace has the name %q: the rule matches no request for it", namespace), "write the name, with one * for any text")
		}
	}
	if r.Namespaces.Any && r.Own == "" || r.Groups.Any {
		return
	}
	for i, at := range r.Resources {
		rows, namespaced := 0, false
		for row := range a.set.Resources() {
			if name, sub, _ := strings.Cut(row.Name, "/"); name == at.Name && sub == at.Subresource && slices.Contains(exact(r.Groups), row.Under()) {
				rows++
				namespaced = namespaced || row.Namespaced
			}
		}
		if rows > 0 && !namespaced && at.Name != "namespaces" {
			do := "remove namespaces"
			if r.Own != "" {
				do = "ask who administers the cluster for a ClusterAuthorizationPolicy"
			}
			a.warn(fmt.Sprintf("%s.resources[%d]", r.Name, i), at.Name+" are in no namespace: the rule does not match requests for them", do)
		}
	}
}
