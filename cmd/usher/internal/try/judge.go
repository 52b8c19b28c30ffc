package try

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/rule"
)

// A Judgement is the result for one object.
type Judgement struct {
	File      string          `json:"file"`
	Name      result.Identity `json:"object"`
	Operation usher.Operation `json:"operation"`
	Allowed   bool            `json:"allowed"`
	// Phase, Code, Reason and Message are those of the denial.
	Phase       usher.Phase  `json:"phase,omitempty"`
	Code        int32        `json:"code,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Message     string       `json:"message,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
	Rules       []ruleResult `json:"rules"`
	NearMatches []nearMatch  `json:"nearMatches,omitempty"`
	Patch       usher.Patch  `json:"patch,omitempty"`
	// Result is the object with the patch applied, as it was validated.
	Result map[string]any `json:"result,omitempty"`
	// Pods is what policies do with the pods that a workload makes, nil for nothing.
	Pods *podChange `json:"pods,omitempty"`
	caveats

	before map[string]any
	asked  []asked
	// read are other objects of the input that policies have read.
	read []map[string]any
}

// Caveats are why an API server may do something else than is said here.
type caveats struct {
	// Unsent is why API servers do not send the request to Usher, whose policies have no effect on it then.
	Unsent string `json:"unsent,omitempty"`
	// LeftOut are the kinds of policies that could not be read, and that may refuse what is allowed here.
	LeftOut []string `json:"leftOut,omitempty"`
	// MissingFacts are objects that policies read and that --facts does not have.
	MissingFacts []string `json:"missingFacts,omitempty"`
	// Presets are fields of the patch that policies do not change in a cluster: API servers set them first.
	Presets []string `json:"presets,omitempty"`
	// Invalid is why API servers refuse what policies make of the object.
	Invalid []string `json:"invalid,omitempty"`
}

// fails reports whether a rule has no result, or a part of one.
func (j *Judgement) fails() bool {
	return slices.ContainsFunc(j.Rules, func(r ruleResult) bool { return r.Failure() != nil })
}

// lacks reports whether a rule fails because the object, as somebody has written it, has no such field.
func (j *Judgement) lacks() bool {
	return slices.ContainsFunc(j.Rules, func(r ruleResult) bool {
		return r.Failure() != nil && isWritten(j.asked[0].request, j.before) && objects.LacksDefault(j.before, r.Failure().Error())
	})
}

// An asked is the request to one phase and its decision.
type asked struct {
	request  *usher.Request
	decision usher.Decision
}

// A ruleResult is the result of one rule.
type ruleResult struct {
	Phase usher.Phase `json:"phase"`
	usher.Finding

	Error string `json:"error,omitempty"`
}

// fillsIn reports whether the rule is that of API servers, which fill in the namespace of the request.
func (r *ruleResult) fillsIn() bool {
	return r.Policy == (usher.PolicyRef{}) && r.Outcome == usher.Changed
}

// A nearMatch is a rule that would match except for its most specific clauses.
type nearMatch struct {
	Phase    usher.Phase     `json:"phase"`
	Policy   usher.PolicyRef `json:"policy"`
	Rule     string          `json:"rule"`
	Mismatch string          `json:"mismatch"`
}

// Judge sends one request to both phases, as an API server does: the second phase gets the object
// as the first has changed it.
func Judge(ctx context.Context, d usher.Decider, rules []rule.Rule, q Question) Judgement {
	j := Judgement{File: q.File, Operation: q.Request.Operation, Rules: []ruleResult{}}
	subject, err := q.Request.Target().Tree()
	if err != nil {
		j.deny(usher.Mutate, undecided(err))
		return j
	}
	j.Name, j.before = result.ToBe(subject), subject
	if j.Name.Name == "" {
		j.Name.Name = q.Request.Name
	}
	if j.Name.Namespace == "" && inNamespace(q.Request) {
		j.Name.Namespace = q.Request.Namespace
	}
	outcome := subject
	both, err := admission.Decide(ctx, usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		tree, err := r.Target().Tree()
		if err != nil {
			return usher.Decision{}, err
		}
		outcome = tree
		j.look(rules, r, tree)
		return j.ask(ctx, d, r), nil
	}), q.Request)
	if err != nil {
		j.deny(usher.Mutate, undecided(err))
		return j
	}
	if both.Mutation.Verdict == usher.Deny {
		return j
	}
	j.Allowed = both.Denial() == nil
	if both.Object != nil {
		// Without the name that was generated in between.
		if outcome, err = both.Object.Tree(); err != nil {
			j.deny(usher.Mutate, undecided(err))
			return j
		}
		j.Patch, j.Result = both.Mutation.Patch, outcome
		if slices.ContainsFunc(j.Rules, func(r ruleResult) bool { return r.fillsIn() }) {
			j.before = filledIn(subject, outcome)
			j.Name = result.ToBe(j.before)
		}
	}
	if q.written && (both.Object != nil || q.raw != nil) {
		j.lookForPresets(ctx, d, q)
	}
	if len(j.Rules) == 0 && len(j.NearMatches) == 0 {
		j.lookForOtherOperations(rules, q.Request, outcome)
	}
	return j
}

// judgeWithin is [Judge], on no rule of which it spends more than a timeout.
func judgeWithin(ctx context.Context, timeout time.Duration, d usher.Decider, rules []rule.Rule, q Question) (Judgement, error) {
	return policies.Within(ctx, timeout, "decide "+aboutRequest(q.Request), func(ctx context.Context) (Judgement, error) {
		return Judge(ctx, d, rules, q), nil
	})
}

// ask sends the request to one phase and records the result.
func (j *Judgement) ask(ctx context.Context, d usher.Decider, r *usher.Request) usher.Decision {
	decision, err := d.Decide(ctx, r)
	if err != nil {
		decision = undecided(err)
	}
	j.asked = append(j.asked, asked{r, decision})
	j.Warnings = append(j.Warnings, decision.Warnings...)
	for _, f := range decision.Findings {
		result := ruleResult{Phase: r.Phase, Finding: f}
		if f.Err != nil {
			result.Error = f.Err.Error()
		}
		j.Rules = append(j.Rules, result)
	}
	if decision.Verdict == usher.Deny {
		j.deny(r.Phase, decision)
	}
	return decision
}

// look records the rules of a phase that almost match.
func (j *Judgement) look(rules []rule.Rule, r *usher.Request, object map[string]any) {
	subject := targetOf(r, object)
	for i := range rules {
		if rules[i].Phase == r.Phase && rules[i].Match.NearlyMatches(&subject) {
			j.noteNearMatch(&rules[i], &subject)
		}
	}
}

// lookForOtherOperations records the rules that match the object, but for another operation. There
// are too many of them to show if other rules matched.
func (j *Judgement) lookForOtherOperations(rules []rule.Rule, r *usher.Request, object map[string]any) {
	subject := targetOf(r, object)
	for i := range rules {
		anyOperation := rules[i].Match
		anyOperation.Operations = nil
		if len(rules[i].Match.Selectors) > 0 && anyOperation.Matches(&subject) {
			j.noteNearMatch(&rules[i], &subject)
		}
	}
}

// targetOf returns the object as selectors see it: with the namespace of the request, if it has
// none.
func targetOf(r *usher.Request, object map[string]any) rule.Target {
	target := rule.TargetOf(r, object)
	if target.Namespace == "" && target.Kind != "Namespace" {
		target.Namespace = r.Namespace
	}
	return target
}

func (j *Judgement) noteNearMatch(r *rule.Rule, subject *rule.Target) {
	mismatch := r.Match.Mismatch(subject)
	j.NearMatches = append(j.NearMatches, nearMatch{
		Phase: r.Phase, Policy: r.Policy, Rule: r.Name, Mismatch: mismatch,
	})
}

func (j *Judgement) deny(phase usher.Phase, d usher.Decision) {
	j.Allowed = false
	j.Phase, j.Code, j.Reason, j.Message = phase, d.Code, d.Reason, d.Message
}

// changed reports whether policies have changed the object. The namespace that the request fills in
// is no change.
func (j *Judgement) changed() bool {
	return j.Result != nil && !reflect.DeepEqual(j.before, j.Result)
}

// filledIn returns an object with the namespace that the result has, if the object has none.
func filledIn(object, result map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	filled, _ := result["metadata"].(map[string]any)
	if namespace, ok := filled["namespace"]; ok && metadata["namespace"] == nil {
		object, metadata = maps.Clone(object), maps.Clone(metadata)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["namespace"], object["metadata"] = namespace, metadata
	}
	return object
}

func undecided(err error) usher.Decision {
	d := usher.Denied("no decision: %v", err)
	d.Code = http.StatusInternalServerError
	return d
}
