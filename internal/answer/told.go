package answer

import (
	"cmp"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
)

// noReason is the reason of a policy that gives none.
const noReason = "no reason given"

// told returns the message of a denial for clients: that of the decision, with the policy behind
// each reason, as in "label team is required (ClusterValidatePolicy require-team)". Reasons that
// are too long in total are cut, so that the policies remain.
func told(d *usher.Decision) string {
	reasons := reasonsOf(d.Findings)
	if len(reasons) == 0 {
		return printable.Excerpt(d.Message, maxMessage)
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
	return printable.Excerpt(strings.Join(parts, "; "), maxMessage)
}

// A reason is why one policy denies a request.
type reason struct {
	text string
	// by names the policy in parentheses; empty for built-in rules.
	by string
	// bare is the reason as it occurs in the message of a decision.
	bare string
}

// told returns the reason, cut to about limit bytes.
func (r reason) told(limit int) string {
	text := printable.Excerpt(cmp.Or(strings.TrimSpace(r.text), noReason), max(limit-len(r.by)-len("; "), len(noReason)))
	if r.by == "" {
		return text
	}
	return text + " " + r.by
}

// reasonsOf returns the reasons of the policies that deny a request. A refusal to write a policy is
// not a reason of that policy. Of Kubernetes' own policies users are told the first, as by an API
// server; its reason names it.
func reasonsOf(findings []usher.Finding) []reason {
	var reasons []reason
	named, native := false, false
	for i := range findings {
		f := &findings[i]
		r := reason{text: f.Message, bare: f.Message}
		place := f.Policy.String()
		switch {
		case rejectedByNative(f):
			if !native {
				native, reasons = true, append(reasons, r)
			}
			continue
		case f.Outcome == usher.Rejected:
		case f.Outcome == usher.Failed && !f.Ignored:
			place += " " + f.Rule
			r.text = failureOf(f)
			r.bare = r.text + " (" + place + ")"
		default:
			continue
		}
		if f.PodOf != "" {
			place += "; its pods would be denied"
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

// Native reports whether only Kubernetes' own policies deny the request: the message of the decision
// is then that of an API server.
func Native(d *usher.Decision) bool {
	native := false
	for i := range d.Findings {
		f := &d.Findings[i]
		switch {
		case rejectedByNative(f):
			native = true
		case f.Denies():
			return false
		}
	}
	return native
}

// rejectedByNative reports whether a policy of Kubernetes' own kinds denies the request.
func rejectedByNative(f *usher.Finding) bool {
	if f.Outcome != usher.Rejected || f.Written {
		return false
	}
	return f.Policy.Kind == "ValidatingAdmissionPolicy" || f.Policy.Kind == "MutatingAdmissionPolicy"
}

// composed reports whether message consists of reasons, like that of an engine. It may omit some.
func composed(message string, reasons []reason) bool {
	for _, r := range reasons {
		rest, ok := strings.CutPrefix(message, r.bare)
		if ok && (rest == "" || strings.HasPrefix(rest, "; ")) {
			message = strings.TrimPrefix(rest, "; ")
		}
	}
	return message == ""
}
