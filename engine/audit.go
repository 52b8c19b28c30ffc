package engine

import (
	"slices"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
)

// The keys of audit annotations. An API server prefixes them with the webhook's name, and requires
// them to be the name part of a qualified name.
const (
	changedBy = "changed-by"
	deniedBy  = "denied-by"
	failedBy  = "failed-by"
)

// maxAudit limits the list of rules in one annotation, in bytes.
const maxAudit = 1024

// audit adds annotations that name the rules that changed or denied the request and those that
// failed, also when that was ignored. It adds nothing when all passed.
func (d *evaluation) audit() {
	findings := d.decision.Findings
	if !slices.ContainsFunc(findings, func(f usher.Finding) bool { return f.Outcome != usher.Passed && f.Outcome != usher.Skipped }) {
		return
	}
	if d.decision.Audit == nil {
		d.decision.Audit = map[string]string{}
	}
	for _, a := range []struct {
		key     string
		applies func(*usher.Finding) bool
	}{
		{changedBy, func(f *usher.Finding) bool { return f.Outcome == usher.Changed }},
		{deniedBy, func(f *usher.Finding) bool {
			return f.Outcome == usher.Rejected || f.Outcome == usher.Failed && !f.Ignored
		}},
		{failedBy, func(f *usher.Finding) bool { return f.Outcome == usher.Failed }},
	} {
		if value := d.places(a.applies); value != "" {
			d.decision.Audit[a.key] = value
		}
	}
}

// places lists the rules of the findings that apply, each once. Above the limit it counts them.
func (d *evaluation) places(applies func(*usher.Finding) bool) string {
	type ran struct {
		policy usher.PolicyRef
		rule   string
	}
	var b strings.Builder
	more := 0
	var said map[ran]bool
	if d.repeated {
		said = map[ran]bool{}
	}
	for i := range d.decision.Findings {
		f := &d.decision.Findings[i]
		r := ran{f.Policy, f.Rule}
		if !applies(f) || !builtIn(f.Policy) && said[r] {
			continue
		}
		if said != nil {
			said[r] = true
		}
		if more > 0 {
			more++
			continue
		}
		p := place(f.Policy, f.Rule)
		switch {
		case b.Len() > 0 && b.Len()+len(p) > maxAudit:
			more++
			continue
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(p)
	}
	if more > 0 {
		b.WriteString("; and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}
