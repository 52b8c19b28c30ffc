package authz

import (
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// An entry is a rule with what is prepared for it.
type entry struct {
	*authz.Rule

	// when and unless are indices of the engine's conditions.
	when, unless []int32
	// decision is that by this rule alone; its one finding is shared by all requests.
	decision usher.Decision
}

func (e *Engine) build(rules []*authz.Rule) {
	numbers := map[string]int32{}
	number := func(owner usher.PolicyRef, conditions []authz.Condition) []int32 {
		var places []int32
		for _, c := range conditions {
			n, known := numbers[c.Source]
			if !known {
				n = int32(e.numbered() + len(e.conditions))
				numbers[c.Source] = n
				e.conditions, e.owners = append(e.conditions, c), append(e.owners, owner)
			}
			places = append(places, n)
		}
		return places
	}
	e.entries = make([]entry, len(rules))
	for i, r := range rules {
		e.entries[i] = entry{
			Rule: r, when: number(r.Policy.Ref, r.Policy.When), unless: number(r.Policy.Ref, r.Policy.Unless),
			decision: decisionBy(r),
		}
	}
}

// decisionBy is the decision if r is the one rule that decides.
func decisionBy(r *authz.Rule) usher.Decision {
	finding := usher.Finding{Policy: r.Policy.Ref, Rule: r.Name, Outcome: usher.Passed, Message: r.Policy.Message}
	d := usher.Decision{Message: sentence(r.Policy)}
	switch r.Policy.Effect {
	case authz.Deny:
		d.Verdict, finding.Outcome = usher.Deny, usher.Rejected
	case authz.Allow:
		d.Verdict = usher.Allow
	case authz.Abstain:
	}
	d.Findings = []usher.Finding{finding}
	return d
}

// sentence is the message for the user: which policy decided, without its subjects and conditions.
func sentence(p *authz.Policy) string {
	text := map[authz.Effect]string{
		authz.Deny:    "denied by policy ",
		authz.Abstain: "left to other authorizers by policy ",
		authz.Allow:   "allowed by policy ",
	}[p.Effect] + p.Place()
	if p.Message != "" && p.Effect != authz.Allow {
		text += ": " + p.Message
	}
	// Pages show it, too.
	return strings.NewReplacer("<", "'", ">", "'").Replace(printable.Blank(text))
}
