package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// An exemptions has the exemptions of all policies, by the policies to which they refer.
type exemptions struct {
	// named are those from policies whose names they write out, by kind and name; patterns has the
	// others, by kind.
	named    map[usher.PolicyRef][]*rule.Exemption
	patterns map[string][]*rule.Exemption
	// open are the policies of the whole cluster that permit exemptions of namespaces.
	open map[usher.PolicyRef]bool
	// elsewhere are the policies that API servers enforce.
	elsewhere map[usher.PolicyRef]bool
	// some says that there may be other policies than these.
	some bool
}

func exemptionsOf(cs []Compiled) *exemptions {
	x := &exemptions{named: map[usher.PolicyRef][]*rule.Exemption{}, patterns: map[string][]*rule.Exemption{}, open: map[usher.PolicyRef]bool{}, elsewhere: map[usher.PolicyRef]bool{}}
	for i := range cs {
		if permitsNamespaces(cs[i].Policy.Object) {
			x.open[cs[i].Ref] = true
		}
		if cs[i].Elsewhere {
			x.elsewhere[cs[i].Ref] = true
		}
		if cs[i].Exemption == nil {
			continue
		}
		for _, p := range cs[i].Exemption.Policies {
			if p.Name.Literal() {
				key := usher.PolicyRef{Kind: p.Kind, Name: string(p.Name)}
				x.named[key] = append(x.named[key], cs[i].Exemption)
				continue
			}
			x.patterns[p.Kind] = append(x.patterns[p.Kind], cs[i].Exemption)
		}
	}
	return x
}

func permitsNamespaces(policy api.Object) bool {
	p, ok := policy.(*usherv1alpha1.ClusterObjectPolicy)
	return ok && p.Spec.NamespaceExemptions == usherv1alpha1.NamespaceExemptionsAllow
}

// from returns the exemptions from a rule, sorted by kind, namespace and name.
func (x *exemptions) from(r *rule.Rule) []rule.Exempting {
	if x.elsewhere[r.Policy] {
		return nil
	}
	var all []rule.Exempting
	kind, _ := api.KindCalled(r.Policy.Kind)
	whole := kind.IsValidation(r.Name)
	candidates := slices.Concat(x.named[usher.PolicyRef{Kind: r.Policy.Kind, Name: r.Policy.Name}], x.patterns[r.Policy.Kind])
	for i, candidate := range candidates {
		validations, ok := candidate.For(r.Policy)
		if !ok || slices.Contains(candidates[:i], candidate) || !x.permitted(candidate, r.Policy) {
			continue
		}
		switch {
		case len(validations) == 0:
		case r.Phase != usher.Validate || whole && !validations.Has("", r.Name):
			continue
		case whole:
			validations = nil
		}
		all = append(all, rule.Exempting{Exemption: candidate, Validations: validations})
	}
	slices.SortFunc(all, func(a, b rule.Exempting) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Namespace, b.Ref.Namespace), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return all
}

// permitted reports whether a policy permits an exemption: that of a namespace, only if the policy
// says so, or belongs to the same namespace.
func (x *exemptions) permitted(e *rule.Exemption, policy usher.PolicyRef) bool {
	switch {
	case e.Ref.Namespace == "":
		return true
	case policy.Namespace != "":
		return e.Ref.Namespace == policy.Namespace
	}
	return x.open[policy]
}

// Ineffective returns a warning for everything because of which an exemption or a candidate does not do at a time
// what it seems to do: it is expired, or refers to a policy or a validation that does not exist, or
// to a policy that does not permit it, or that is one of elsewhere: API servers enforce those.
func Ineffective(cs []Compiled, elsewhere []api.Policy, now time.Time) []rule.Problem {
	return ineffective(cs, exemptionsOf(cs), elsewhere, now)
}

// ineffectiveAmong is [Ineffective] for some of the policies of a cluster, such as those of a file.
func ineffectiveAmong(cs []Compiled) []rule.Problem {
	index := exemptionsOf(cs)
	index.some = true
	return ineffective(cs, index, nil, time.Now())
}

func ineffective(cs []Compiled, index *exemptions, elsewhere []api.Policy, now time.Time) []rule.Problem {
	var problems []rule.Problem
	policies := map[string][]*Compiled{}
	for i := range cs {
		policies[cs[i].Ref.Kind] = append(policies[cs[i].Ref.Kind], &cs[i])
	}
	for i := range cs {
		c := &cs[i]
		if c.Exemption == nil {
			problems = append(problems, c.replacesNothing(policies, elsewhere, index.some)...)
			continue
		}
		warn := func(field, what, do string) {
			problems = append(problems, c.Place(rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do}))
		}
		if ended := c.Exemption.Expires; !now.Before(ended) {
			warn("spec.expiresAt", fmt.Sprintf("it expired at %s: no request is exempt", ended.UTC().Format(time.RFC3339)), "delete the exemption, or extend it")
		}
		var absent []string
		first := ""
		for j := range c.Exemption.Policies {
			ref := &c.Exemption.Policies[j]
			what, do, field := index.dangling(c.Exemption, ref, policies[ref.Kind])
			if field == ".name" && slices.ContainsFunc(elsewhere, func(p api.Policy) bool { return refersTo(ref, Ref(p.Object)) }) {
				what = fmt.Sprintf("API servers enforce the %s %s: they know no exemptions", ref.Kind, ref.Name)
				do = "have Usher enforce it, or exclude the requests in the policy or its bindings"
			}
			at := fmt.Sprintf("spec.policyRefs[%d]%s", j, field)
			switch {
			case what == notGiven:
				absent, first = append(absent, fmt.Sprintf("%s %s", ref.Kind, ref.Name)), cmp.Or(first, at)
			case what != "":
				warn(at, what, do)
			}
		}
		if len(absent) > 0 {
			warn(first, noneOf(absent)+notGiven, "check it together with the policy (usher check -p FILE), or read the status of the exemption in the cluster")
		}
	}
	return problems
}

// notGiven is what is said of an exemption from policies that may exist, but are not among the files that are checked.
const notGiven = " is among the policies given: it is not known whether the exemption has an effect"

// noneOf names policies that are not there: one warning is for all of them.
func noneOf(names []string) string {
	const most = 3
	more := ""
	switch {
	case len(names) == 1:
		return "no " + names[0]
	case len(names) > most:
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return "none of " + strings.Join(names, ", ") + more
}

// replacesNothing returns a warning if c is a candidate that replaces or removes a policy that is not in force, or, where some
// of the policies of a cluster are known, not among these.
func (c *Compiled) replacesNothing(policies map[string][]*Compiled, elsewhere []api.Policy, some bool) []rule.Problem {
	if c.Candidate == nil || c.Candidate.Replaces.Name == "" {
		return nil
	}
	replaced := c.Candidate.Replaces
	if slices.ContainsFunc(policies[replaced.Kind], func(p *Compiled) bool { return p.Ref == replaced }) ||
		slices.ContainsFunc(elsewhere, func(p api.Policy) bool { return Ref(p.Object) == replaced }) {
		return nil
	}
	p := rule.Problem{
		Severity: rule.Warning, Field: "spec.replaces.name",
		What: fmt.Sprintf("there is no %s in force here: the candidate replaces nothing, and is not evaluated", replaced), Do: "correct the name, or remove the candidate",
	}
	if some {
		p.What = fmt.Sprintf("no %s is among the policies given: it is not known whether the candidate replaces anything", replaced)
		p.Do = "check it together with the policy in force (usher check -p FILE), or correct the name"
	}
	return []rule.Problem{c.Place(p)}
}

func refersTo(ref *rule.ExemptPolicy, policy usher.PolicyRef) bool {
	return ref.Kind == policy.Kind && ref.Name.Matches(policy.Name)
}

// dangling returns what is wrong with a reference of an exemption, empty if nothing is. The policies
// are those of its kind.
func (x *exemptions) dangling(e *rule.Exemption, ref *rule.ExemptPolicy, policies []*Compiled) (what, do, field string) {
	named := slices.DeleteFunc(slices.Clone(policies), func(c *Compiled) bool {
		elsewhere := e.Ref.Namespace != "" && c.Ref.Namespace != "" && c.Ref.Namespace != e.Ref.Namespace
		return elsewhere || !ref.Name.Matches(c.Ref.Name)
	})
	if len(named) == 0 && ref.Name == "*" && len(e.Policies) > 1 {
		// Of all kinds, some may have no policies.
		return "", "", ".name"
	}
	if len(named) == 0 && x.some {
		return notGiven, "", ".name"
	}
	if len(named) == 0 {
		return fmt.Sprintf("there is no %s %s in force here: no request is exempt from it", ref.Kind, ref.Name), "correct the name, or remove the reference", ".name"
	}
	permitting := slices.DeleteFunc(slices.Clone(named), func(c *Compiled) bool { return !x.permitted(e, c.Ref) })
	if len(permitting) == 0 {
		return fmt.Sprintf("%s does not permit exemptions of namespaces: no request is exempt from it", named[0].Ref),
			"ask who administers the cluster for namespaceExemptions: Allow in the policy, or for a ClusterPolicyExemption", ".name"
	}
	for i, v := range ref.Validations {
		if !slices.ContainsFunc(permitting, func(c *Compiled) bool { return c.validations().Has("", v) }) {
			return fmt.Sprintf("%s has no validation %q", permitting[0].Ref, v), "write the name of a validation, or its place such as spec.validations[0]", fmt.Sprintf(".validations[%d]", i)
		}
	}
	return "", "", ""
}

// validations returns the names and places of the validations of the policy.
func (c *Compiled) validations() rule.Validations {
	var all rule.Validations
	count := 0
	switch p := c.Policy.Object.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		count = len(p.Spec.Validations)
	case *v1alpha1.ClusterValidatePolicy:
		count = len(p.Spec.ValidateRules)
	default:
		if spec := c.ObjectSpec(); spec != nil {
			count = len(spec.Validations)
			for i := range spec.Validations {
				if name := spec.Validations[i].Name; name != "" {
					all = append(all, name)
				}
			}
		}
	}
	kind, _ := api.KindOf(c.Policy.Object)
	for i := range count {
		all = append(all, fmt.Sprintf("%s[%d]", kind.Validations, i))
	}
	return all
}
