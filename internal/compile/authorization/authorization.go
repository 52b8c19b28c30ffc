// Package authorization compiles the authorization policies of usher.dev/v1alpha1.
//
// A policy with an error has no rules: half a policy could allow, or refuse, more than its
// author meant.
package authorization

import (
	"context"
	"fmt"
	"strconv"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// Cluster compiles a policy for the whole cluster. Only one from a file
// can be in the tier safeguard. Problems have no Policy and no File.
func Cluster(ctx context.Context, p *v1alpha1.ClusterAuthorizationPolicy, fromFile bool) ([]*authz.Rule, []rule.Problem) {
	c := compilation{budget: cel.Budget{Context: ctx}, policy: &authz.Policy{Ref: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: p.Name}}}
	c.policy.Tier = c.tier(p.Spec.Tier)
	if c.policy.Tier == authz.Safeguard && p.UID != "" && !fromFile {
		c.problems = append(c.problems, NotSafeguard())
	}
	c.spec(&p.Spec.AuthorizationPolicySpec)
	c.confirm(p)
	return c.result()
}

// NotSafeguard returns the problem of a policy in the tier safeguard that is not from a file.
func NotSafeguard() rule.Problem {
	return rule.Problem{
		Severity: rule.Error, Field: "spec.tier", What: "policies of a cluster cannot be in the tier safeguard",
		Do: "use platform, or put the policy into a file on the server",
	}
}

// Namespaced compiles a policy for its own namespace; one without namespace has no
// rules. Problems have no Policy and no File.
func Namespaced(ctx context.Context, p *v1alpha1.AuthorizationPolicy) ([]*authz.Rule, []rule.Problem) {
	c := compilation{
		budget: cel.Budget{Context: ctx, Namespace: p.Namespace},
		own:    p.Namespace,
		policy: &authz.Policy{Ref: usher.PolicyRef{Kind: "AuthorizationPolicy", Namespace: p.Namespace, Name: p.Name}, Tier: authz.Namespace},
	}
	c.spec(&p.Spec)
	if c.policy.Effect == authz.Deny && p.Spec.Effect == v1alpha1.EffectDeny {
		c.fail("spec.effect", "an AuthorizationPolicy refuses nothing", "write an ObjectPolicy, which can deny writes such as DELETE, with excludeSubjects for those who may; to deny reads, ask who administers the cluster for a ClusterAuthorizationPolicy")
	}
	if p.Namespace == "" {
		return nil, c.problems
	}
	return c.result()
}

// A compilation collects what one policy compiles to.
type compilation struct {
	policy *authz.Policy
	// own is the namespace of the policy, empty for a cluster-scoped one.
	own      string
	rules    []*authz.Rule
	problems []rule.Problem
	// budget is that of all conditions.
	budget cel.Budget
}

func (c *compilation) result() ([]*authz.Rule, []rule.Problem) {
	if len(rule.Errors(c.problems)) > 0 {
		return nil, c.problems
	}
	return c.rules, c.problems
}

func (c *compilation) fail(field, what, do string) {
	c.problems = append(c.problems, rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do})
}

func (c *compilation) warn(field, what, do string) {
	c.problems = append(c.problems, rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do})
}

func (c *compilation) spec(s *v1alpha1.AuthorizationPolicySpec) {
	p := c.policy
	p.Effect, p.Message = c.effect(s.Effect), s.Message
	switch s.Enforcement {
	case "", v1alpha1.EnforcementEnforce:
	case v1alpha1.EnforcementAudit:
		p.Audit = true
	default:
		c.fail("spec.enforcement", fmt.Sprintf("%q is no enforcement", s.Enforcement), "use Audit or Enforce")
	}
	c.onError(s.OnError)
	if s.Validity != nil {
		p.Until = s.Validity.NotAfter.Time
		if p.Until.IsZero() {
			c.fail("spec.validity.notAfter", "no time", "write one such as 2030-01-31T12:00:00Z, or remove validity")
		}
	}
	p.Subjects = c.subjects("spec.subjects", s.Subjects)
	p.Excluded = c.subjects("spec.excludeSubjects", s.ExcludeSubjects)
	if len(s.Subjects) == 0 {
		c.fail("spec.subjects", "the policy is for nobody", "name users, groups or service accounts")
	}
	if s.Selectors != nil {
		p.Labels = c.requirements("spec.selectors.labels", s.Selectors.Labels)
		p.Fields = c.requirements("spec.selectors.fields", s.Selectors.Fields)
	}
	p.When = c.conditions("spec.when", s.When)
	p.Unless = c.conditions("spec.unless", s.Unless)
	if len(s.Rules) == 0 {
		c.fail("spec.rules", "the policy is for no request", "add a rule")
	}
	for i := range s.Rules {
		c.rule(fmt.Sprintf("spec.rules[%d]", i), &s.Rules[i])
	}
	linter{c, s, p.Effect == authz.Allow}.lint()
}

func (c *compilation) effect(e v1alpha1.Effect) authz.Effect {
	for _, effect := range []authz.Effect{authz.Deny, authz.Abstain, authz.Allow} {
		if string(e) == effect.String() {
			return effect
		}
	}
	c.fail("spec.effect", fmt.Sprintf("%q is no effect", e), "use Allow, Deny or NoOpinion")
	return authz.Abstain
}

func (c *compilation) tier(t v1alpha1.Tier) authz.Tier {
	if t == "" {
		return authz.Cluster
	}
	for _, tier := range authz.Tiers() {
		if string(t) == tier.String() {
			return tier
		}
	}
	c.fail("spec.tier", fmt.Sprintf("%q is no tier", t), "use platform, cluster or namespace; safeguard is for files on the server")
	return authz.Cluster
}

// onError defines the effect of a failed condition. It never allows anything.
func (c *compilation) onError(e v1alpha1.OnError) {
	allow := c.policy.Effect == authz.Allow
	c.policy.SkipErrors = allow
	switch e {
	case "":
	case v1alpha1.OnErrorMatch:
		if allow {
			c.fail("spec.onError", "nothing is allowed because a condition fails", "remove onError")
		}
	case v1alpha1.OnErrorSkip:
		c.policy.SkipErrors = true
	default:
		c.fail("spec.onError", fmt.Sprintf("%q is not known", e), "use Match or Skip")
	}
}

// confirm finds out until when the policy has to be confirmed, if it has to be.
func (c *compilation) confirm(p *v1alpha1.ClusterAuthorizationPolicy) {
	within := p.Spec.ConfirmWithin
	switch {
	case within == nil:
		return
	case c.policy.Effect != authz.Deny:
		c.fail("spec.confirmWithin", "only a Deny needs to be confirmed", "remove it")
		return
	case within.Duration <= 0:
		c.fail("spec.confirmWithin", "not a time to wait for", "write one such as 10m")
		return
	}
	if p.Annotations[v1alpha1.AnnotationConfirmed] == strconv.FormatInt(p.Generation, 10) {
		return
	}
	c.policy.Confirm = since(p).Add(within.Duration)
}

// since is when the policy was last changed. If that is not recorded, it is now: the time at which
// the policy is first read.
func since(p *v1alpha1.ClusterAuthorizationPolicy) time.Time {
	if at, err := time.Parse(time.RFC3339, p.Annotations[v1alpha1.AnnotationSince]); err == nil {
		return at
	}
	if p.Generation <= 1 && !p.CreationTimestamp.IsZero() {
		return p.CreationTimestamp.Time
	}
	return time.Now()
}

// Subjects compiles users that stand elsewhere than in a policy, under field.
func Subjects(field string, written []v1alpha1.Subject) ([]authz.Subject, []rule.Problem) {
	var c compilation
	return c.subjects(field, written), c.problems
}
