package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A clause is a condition of a policy, which matches if it holds as wanted.
type clause struct {
	field     string
	condition *authz.Condition
	wanted    bool
}

func clausesOf(p *authz.Policy) []clause {
	var all []clause
	for i := range p.When {
		all = append(all, clause{fmt.Sprintf("spec.when[%d].cel", i), &p.When[i], true})
	}
	for i := range p.Unless {
		all = append(all, clause{fmt.Sprintf("spec.unless[%d].cel", i), &p.Unless[i], false})
	}
	return all
}

func (c *clause) uses() []rule.Use {
	if compared, ok := c.condition.Predicate.(interface{ Uses() []rule.Use }); ok {
		return compared.Uses()
	}
	return nil
}

// constants are those with which the condition compares a field of the request.
func (c *clause) constants(field string) []rule.Comparison {
	var all []rule.Comparison
	for _, use := range c.uses() {
		if len(use.Paths) > 0 && slices.Equal(use.Paths[0], []string{field}) {
			all = append(all, use.Compared...)
		}
	}
	return all
}

// A dimension is a field of requests that is empty in requests for more than one of its values.
type dimension struct {
	field, whole, part string
	set                func(*authz.Query, authz.Value)
}

func dimensions() []dimension {
	return []dimension{
		{"namespace", "a %s of all namespaces", "what is in %s", func(q *authz.Query, v authz.Value) { q.Namespace = v }},
		{"name", "a %s without a name", "%s", func(q *authz.Query, v authz.Value) { q.Name = v }},
	}
}

// wholes warns of conditions that sort out names or namespaces, but not requests for all of them, which have
// an empty text in their place: an Allow must not match these, and a Deny or NoOpinion must.
func (a *access) wholes(ctx context.Context, rules []*authz.Rule) {
	for _, c := range clausesOf(rules[0].Policy) {
		for _, d := range dimensions() {
			for _, r := range rules {
				verb := wholeVerb(r, &d)
				if verb == "" {
					continue
				}
				if part := a.evaded(ctx, r, &c, &d, verb); part != "" {
					a.warnWhole(r.Policy.Effect, &c, &d, verb, part)
					break
				}
			}
		}
	}
}

func (a *access) warnWhole(effect authz.Effect, c *clause, d *dimension, verb, part string) {
	whole, part := fmt.Sprintf(d.whole, verb), fmt.Sprintf(d.part, part)
	if effect == authz.Allow {
		a.warn(c.field, fmt.Sprintf("%s passes the condition, since its request.%s is empty: the policy allows it, with %s", whole, d.field, part),
			fmt.Sprintf(`add to spec.unless: {cel: "request.%s == ''"}`, d.field))
		return
	}
	does := "does not deny it"
	if effect == authz.Abstain {
		does = "is not for it"
	}
	a.warn(c.field, fmt.Sprintf("%s does not pass the condition, since its request.%s is empty: the policy %s, with %s", whole, d.field, does, part),
		fmt.Sprintf("write %ss in the rules, in place of the condition: these are for requests with more, too", d.field))
}

// wholeVerb returns a verb of requests that the rule matches for every value of a dimension; empty if there is
// none.
func wholeVerb(r *authz.Rule, d *dimension) string {
	set, verbs := &r.Names, []string{"list", "watch", "deletecollection"}
	allows := r.Policy.Effect == authz.Allow
	if d.field == "namespace" {
		set = &r.Namespaces
		if r.Own != "" || !slices.ContainsFunc(r.Resources, func(at authz.Resource) bool { return inNamespaces(r, at.Name) }) {
			return ""
		}
	} else if allows && slices.ContainsFunc(r.Resources, func(at authz.Resource) bool { return at.Subresource == "" }) {
		verbs = append(verbs, "create")
	}
	if r.URLs != nil || r.Whole || allows && !set.Any {
		return ""
	}
	for _, verb := range verbs {
		if r.Verbs.Any || slices.ContainsFunc(r.Verbs.Patterns, func(p authz.Pattern) bool { return p.Matches(verb) }) {
			return verb
		}
	}
	return ""
}

// inNamespaces reports whether objects of the resource may be in namespaces. A Namespace is in itself.
func inNamespaces(r *authz.Rule, resource string) bool {
	groups := exact(r.Groups)
	return r.Groups.Any || len(groups) < len(r.Groups.Patterns) || resource == "namespaces" ||
		slices.ContainsFunc(groups, func(group string) bool { return authz.ScopeOf(group, resource) != authz.ScopeCluster })
}

// evaded returns a value that a condition sorts out, but not in a request for every value; empty if there is
// none.
func (a *access) evaded(ctx context.Context, r *authz.Rule, c *clause, d *dimension, verb string) string {
	constants := c.constants(d.field)
	allows := r.Policy.Effect == authz.Allow
	for _, sample := range queries(r) {
		if len(constants) == 0 {
			break
		}
		q, user := *sample.query, *sample.query.User
		for _, other := range clausesOf(r.Policy) {
			for _, group := range other.constants("groups") {
				text, _ := group.With.(string)
				user.Groups = append(slices.Clip(user.Groups), text)
			}
		}
		q.User = &user
		q.Verb = authz.Value{Text: verb}
		passes := func(c *clause, v authz.Value) bool {
			d.set(&q, v)
			holds, err := a.holds(ctx, r, c.condition, &q)
			return err == nil && holds == c.wanted || err != nil && !r.Policy.SkipErrors
		}
		every := authz.Value{Extent: authz.All}
		if passes(c, every) != allows {
			continue
		}
		// Another condition may be about requests for more than one.
		if allows && slices.ContainsFunc(clausesOf(r.Policy), func(other clause) bool {
			return other.field != c.field && !passes(&other, every) && passes(&other, authz.Value{Text: "x"})
		}) {
			continue
		}
		for _, constant := range constants {
			text, ok := constant.With.(string)
			if ok && text != "" && passes(c, authz.Value{Text: text}) != allows && ctx.Err() == nil {
				return pattern(constant.Op, text)
			}
		}
	}
	return ""
}

// pattern is a text that is compared with an operator, as rules write it.
func pattern(op, text string) string {
	before := map[string]string{"HasSuffix": "*", "Contains": "*"}
	after := map[string]string{"HasPrefix": "*", "Contains": "*"}
	return strings.Join([]string{before[op], text, after[op]}, "")
}
