package access

import (
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule/access"
)

// An entry is a rule with what can be prepared for it.
type entry struct {
	*access.Rule

	// when and unless are places in the engine's conditions.
	when, unless []int32
	// decision is that by this rule alone; its one finding is shared by all requests.
	decision usher.Decision
}

func (e *Engine) build(rules []*access.Rule) {
	numbers := map[string]int32{}
	number := func(conditions []access.Condition) []int32 {
		var places []int32
		for _, c := range conditions {
			n, known := numbers[c.Source]
			if !known {
				n = int32(len(e.conditions))
				numbers[c.Source] = n
				e.conditions = append(e.conditions, c)
			}
			places = append(places, n)
		}
		return places
	}
	e.entries = make([]entry, len(rules))
	for i, r := range rules {
		e.entries[i] = entry{
			Rule: r, when: number(r.Policy.When), unless: number(r.Policy.Unless),
			decision: decisionBy(r),
		}
	}
}

// decisionBy is the decision if r is the one rule that decides.
func decisionBy(r *access.Rule) usher.Decision {
	finding := usher.Finding{Policy: r.Policy.Ref, Rule: r.Name, Outcome: usher.Passed, Message: r.Policy.Message}
	d := usher.Decision{Message: sentence(r.Policy)}
	switch r.Policy.Effect {
	case access.Deny:
		d.Verdict, finding.Outcome = usher.Deny, usher.Rejected
	case access.Allow:
		d.Verdict = usher.Allow
	case access.Abstain:
	}
	d.Findings = []usher.Finding{finding}
	return d
}

// sentence tells whoever made the request which policy decided, and nothing about its
// subjects and conditions.
func sentence(p *access.Policy) string {
	text := map[access.Effect]string{
		access.Deny:    "denied by policy ",
		access.Abstain: "left to other authorizers by policy ",
		access.Allow:   "allowed by policy ",
	}[p.Effect] + p.Place()
	if p.Message != "" && p.Effect != access.Allow {
		text += ": " + p.Message
	}
	return strings.Map(printable, text)
}

// printable replaces what a terminal or a web page might take for more than text.
func printable(r rune) rune {
	switch {
	case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
		return ' '
	case r == '<' || r == '>':
		return '\''
	}
	return r
}
