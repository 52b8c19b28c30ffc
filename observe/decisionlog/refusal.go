package decisionlog

import (
	"cmp"
	"errors"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/withhold"
)

// mostRefusals is how many refusals a line has, and how many warnings.
const mostRefusals = 10

// warnings returns what the user is warned of, the first warnings if there are many.
func warnings(r *usher.Request, d *usher.Decision) []string {
	secret := confidential(d.Findings)
	all := make([]string, 0, mostRefusals)
	for _, warning := range d.Warnings[:min(len(d.Warnings), mostRefusals)] {
		all = append(all, withhold.Message(r, warning, secret))
	}
	return all
}

// A refusal is why a request was denied: what a rule said, or one of its parts.
type refusal struct {
	Policy string `json:"policy,omitempty"`
	// Rule is the place of the rule, or of the part of it, in the policy, and Validation its name.
	Rule       string `json:"rule,omitempty"`
	Validation string `json:"validation,omitempty"`
	Field      string `json:"field,omitempty"`
	// PodOf is the workload, if that is about the pod that it would make.
	PodOf   string `json:"podOf,omitempty"`
	Message string `json:"message,omitempty"`
	// Failed says that the rule or its part has no result, and Message is the error.
	Failed bool `json:"failed,omitempty"`
}

// String implements [fmt.Stringer].
func (r refusal) String() string {
	message := r.Message
	if r.Failed {
		message = "failed: " + message
	}
	if r.PodOf != "" {
		message += " (pod of " + r.PodOf + ")"
	}
	return inWords(r.Policy, r.Rule, r.Validation, r.Field, message)
}

// refusals returns why a request was denied, the first reasons if there are many; none if it was not.
func refusals(r *usher.Request, d *usher.Decision) []refusal {
	if d.Verdict != usher.Deny {
		return nil
	}
	var all []refusal
	secret := false
	for i := range d.Findings {
		f := &d.Findings[i]
		secret = secret || f.Confidential
		if f.Outcome != usher.Rejected && (f.Outcome != usher.Failed || f.Ignored) {
			continue
		}
		for _, one := range reasons(f) {
			if len(all) == mostRefusals {
				return all
			}
			if one.Failed {
				one.Message = withhold.Error(r, errors.New(one.Message), secret)
			} else {
				one.Message = withhold.Message(r, one.Message, secret)
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 && d.Message != "" {
		// A decider that is no policy.
		all = append(all, refusal{Message: withhold.Message(r, d.Message, secret)})
	}
	return all
}

// reasons returns why a rule has denied a request: that of its parts that deny or fail, or its own.
func reasons(f *usher.Finding) []refusal {
	of := refusal{Rule: f.Rule, PodOf: f.PodOf}
	if f.Policy != (usher.PolicyRef{}) {
		of.Policy = f.Policy.String()
	}
	var all []refusal
	for i := range f.Checks {
		c := &f.Checks[i]
		denies := slices.Contains(c.Actions, usher.ActDeny)
		if !denies && (c.Failed && f.Outcome != usher.Failed || len(c.Actions) > 0) {
			continue
		}
		one := of
		one.Failed = c.Failed
		one.Rule, one.Validation, one.Field, one.Message = cmp.Or(c.Name, f.Rule), c.Validation, c.Field, c.Message
		all = append(all, one)
	}
	if len(all) == 0 {
		of.Message = f.Message
		if f.Err != nil {
			of.Failed, of.Message = true, f.Err.Error()
		}
		all = append(all, of)
	}
	return all
}
