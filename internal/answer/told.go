package answer

import (
	"cmp"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// noReason is told of a policy that rejects without a reason.
const noReason = "no reason given"

// told is the message of a denial as clients get it: that of the decision, with the policy
// behind each reason, as in "label team is required (ClusterValidatePolicy require-team)".
// Reasons that are too long in all are cut, so that the policies remain.
func told(d *usher.Decision) string {
	reasons := reasonsOf(d.Findings)
	if len(reasons) == 0 {
		return cut(d.Message, maxMessage)
	}
	if !composed(d.Message, reasons) {
		// The decider has a message of its own.
		var by []string
		for _, r := range reasons {
			by = append(by, r.by)
		}
		reasons = []reason{{text: d.Message, by: strings.Join(by, " ")}}
	}
	total := 0
	for _, r := range reasons {
		total += len(r.text) + len(r.by) + len(noReason)
	}
	limit := maxMessage
	if total > maxMessage {
		limit = maxMessage / len(reasons)
	}
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		parts[i] = r.told(limit)
	}
	return cut(strings.Join(parts, "; "), maxMessage)
}

// A reason is what one policy said against a request.
type reason struct {
	text string
	// by names the policy in parentheses; empty for built-in rules.
	by string
	// bare is how the message of a decision tells it.
	bare string
}

// told returns the reason in about limit bytes.
func (r reason) told(limit int) string {
	text := cut(cmp.Or(strings.TrimSpace(r.text), noReason), max(limit-len(r.by)-len("; "), len(noReason)))
	if r.by == "" {
		return text
	}
	return text + " " + r.by
}

// reasonsOf returns what stands against a request; nothing if no policy does. That a policy may
// not be written is no reason of that policy.
func reasonsOf(findings []usher.Finding) []reason {
	var reasons []reason
	named := false
	for i := range findings {
		f := &findings[i]
		r := reason{text: f.Message, bare: f.Message}
		place := f.Policy.String()
		switch {
		case f.Outcome == usher.Rejected:
		case f.Outcome == usher.Failed && !f.Ignored:
			place += " " + f.Rule
			r.text = failureOf(f)
			r.bare = r.text + " (" + place + ")"
		default:
			continue
		}
		if f.Policy != (usher.PolicyRef{}) && !f.Written {
			r.by, named = "("+place+")", true
		}
		if r.text == "" && slices.ContainsFunc(reasons, func(other reason) bool { return other.by == r.by }) {
			continue
		}
		if reasons = append(reasons, r); len(reasons) == maxCauses {
			break
		}
	}
	if !named {
		return nil
	}
	return reasons
}

// composed reports whether message is made of reasons, as that of an engine is. Some may be
// missing in it.
func composed(message string, reasons []reason) bool {
	for _, r := range reasons {
		rest, ok := strings.CutPrefix(message, r.bare)
		if ok && (rest == "" || strings.HasPrefix(rest, "; ")) {
			message = strings.TrimPrefix(rest, "; ")
		}
	}
	return message == ""
}
