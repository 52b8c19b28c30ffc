// Package authz holds the one form that authorization policies compile to.
//
// A request is a set: list secrets in a namespace is every secret there. A [Rule] that
// allows has to cover the whole set, one that denies or abstains matches if it overlaps it.
package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
)

// An Effect is what a policy does with the requests that it matches. Within a tier the lower one
// wins.
type Effect uint8

// The effects.
const (
	// Deny refuses.
	Deny Effect = iota
	// Abstain withdraws what policies of the same tier, and of later ones, allow.
	Abstain
	// Allow allows.
	Allow
)

// String is the effect as policies spell it.
func (e Effect) String() string { return [...]string{"Deny", "NoOpinion", "Allow"}[e] }

// A Tier orders policies: the first one in which a policy matches decides.
type Tier uint8

// The tiers, in order.
const (
	Safeguard Tier = iota
	Platform
	Cluster
	Namespace
)

// Tiers lists every [Tier].
func Tiers() []Tier { return []Tier{Safeguard, Platform, Cluster, Namespace} }

// String is the tier as policies spell it.
func (t Tier) String() string {
	return [...]string{"safeguard", "platform", "cluster", "namespace"}[t]
}

// A Policy is what all rules of one policy share. It is immutable.
type Policy struct {
	Ref    usher.PolicyRef
	Tier   Tier
	Effect Effect
	// Subjects are alternatives; Excluded wins over them.
	Subjects, Excluded []Subject
	// Labels and Fields are what the selectors of a request must require for an Allow to match, and
	// what keeps a Deny or Abstain from matching if they require it.
	Labels, Fields []Requirement
	// When has to hold and Unless must not, every one of them.
	When, Unless []Condition
	// SkipErrors means that the policy does not match if a condition fails. Otherwise it matches.
	SkipErrors bool
	// Audit means that the policy is reported but has no effect.
	Audit bool
	// Until, unless it is zero, is when the policy expires. Confirm, unless it is zero, is when it
	// changes to Audit mode unless it is confirmed.
	Until, Confirm time.Time
	Message        string
}

// A Rule is one rule of a policy. It is immutable, and either for resources or for URLs.
type Rule struct {
	Policy *Policy
	// Name is the rule's path in its policy, such as spec.rules[0].
	Name  string
	Verbs Set

	Groups     Set
	Versions   Set
	Resources  []Resource
	Names      Set
	Namespaces Set
	// Own, if set, is the only namespace of the rule: that of its policy.
	Own string
	// Whole means that a list, watch or deletecollection matches only if the rule covers all of it.
	Whole bool

	// URLs are the paths of a rule for URLs; nil in a rule for resources.
	URLs *Set
}

// A Condition is one clause of when or unless. Conditions with the same source mean the same.
type Condition struct {
	Name      string
	Source    string
	Predicate Predicate
}

// A Predicate is a condition on requests. It is safe for concurrent use and does no I/O. When the context
// is done, it returns an error.
type Predicate interface {
	Holds(context.Context, *Query) (bool, error)
}

// An AbsentError is the error of a [Predicate] that reads a part which the request does not have.
type AbsentError struct {
	// What says what the request lacks, and Do what to do.
	What, Do string
}

func (e *AbsentError) Error() string { return e.What + ": " + e.Do }

// Matches reports whether the rule matches q, regardless of selectors, conditions and time. It
// allocates nothing.
func (r *Rule) Matches(q *Query) bool {
	return r.matchesTarget(q) && r.Policy.concerns(q)
}

func (r *Rule) matchesTarget(q *Query) bool {
	if (r.URLs != nil) != q.NonResource || !r.Verbs.meets(q.Verb, r.Policy.Effect, q) {
		return false
	}
	if q.NonResource {
		return r.URLs.meets(q.Path, r.Policy.Effect, q)
	}
	return r.Names.meets(q.Name, r.reach(q), q) && r.meetsResource(q) &&
		r.Groups.meets(q.Group, r.Policy.Effect, q) && r.Versions.meets(q.Version, r.Policy.Effect, q) && r.meetsNamespace(q)
}

// reach is the effect by which names and namespaces are compared: a rule that does not match parts
// of collections must cover them, like an Allow.
func (r *Rule) reach(q *Query) Effect {
	if r.Whole && q.collection() {
		return Allow
	}
	return r.Policy.Effect
}

func (r *Rule) meetsNamespace(q *Query) bool {
	if r.Own != "" && (q.Namespace.Extent != One || q.Namespace.Text != r.Own) {
		return false
	}
	return r.Namespaces.meets(q.Namespace, r.reach(q), q)
}

func (r *Rule) meetsResource(q *Query) bool {
	for i := range r.Resources {
		if r.Resources[i].meets(q, r.Policy.Effect) {
			return true
		}
	}
	return false
}

// concerns reports whether the policy applies to the user.
func (p *Policy) concerns(q *Query) bool {
	return AnySubject(p.Subjects, q) && !AnySubject(p.Excluded, q)
}

// Selects reports whether the selectors of q let the policy match.
func (p *Policy) Selects(q *Query) bool {
	if len(p.Labels) == 0 && len(p.Fields) == 0 {
		return true
	}
	implied := Implied(p.Labels, q.Labels, q) && Implied(p.Fields, q.Fields, q)
	return implied == (p.Effect == Allow)
}

// Compare orders policies as they are evaluated: by tier, effect, namespace and name.
func (p *Policy) Compare(o *Policy) int {
	if d := int(p.Tier) - int(o.Tier); d != 0 {
		return d
	}
	if d := int(p.Effect) - int(o.Effect); d != 0 {
		return d
	}
	if d := strings.Compare(p.Ref.Namespace, o.Ref.Namespace); d != 0 {
		return d
	}
	return strings.Compare(p.Ref.Name, o.Ref.Name)
}

// Sort sorts rules in evaluation order. The rules of one policy stay together.
func Sort(rules []*Rule) {
	slices.SortStableFunc(rules, func(a, b *Rule) int { return a.Policy.Compare(b.Policy) })
}

// Place names the policy and its tier for the user who made a request: hide-db (cluster).
func (p *Policy) Place() string {
	name := p.Ref.Name
	if p.Ref.Namespace != "" {
		name = p.Ref.Namespace + "/" + name
	}
	return fmt.Sprintf("%s (%s)", name, p.Tier)
}
