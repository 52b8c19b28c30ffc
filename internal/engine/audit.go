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
	// exemptedBy names exemptions; exempted is what the rules would have said.
	exemptedBy = "exempted-by"
	exempted   = "exempted"
)

// maxAudit limits the list of rules in one annotation, in bytes.
const maxAudit = 1024

// audit adds annotations that name the rules that changed or denied the request and those that
// failed, also when that was ignored. It adds nothing when all passed.
func (d *findings) audit() {
	findings := d.decision.Findings
	if !slices.ContainsFunc(findings, func(f usher.Finding) bool {
		return f.Outcome != usher.Passed && f.Outcome != usher.Skipped || len(f.Exemptions) > 0
	}) {
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
		{deniedBy, (*usher.Finding).Denies},
		{failedBy, func(f *usher.Finding) bool { return f.Outcome == usher.Failed }},
		{exemptedBy, func(f *usher.Finding) bool { return len(f.Exemptions) > 0 }},
	} {
		if value := d.places(a.key, a.applies); value != "" {
			d.decision.Audit[a.key] = value
		}
	}
}

// places lists the rules of the findings that apply, each once. Above the limit it counts them.
func (d *findings) places(key string, applies func(*usher.Finding) bool) string {
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
		if key == exemptedBy {
			p = exemption(f) + ": " + p
		}
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

// exemption names the exemptions of a finding.
func exemption(f *usher.Finding) string {
	refs := make([]string, len(f.Exemptions))
	for i := range f.Exemptions {
		refs[i] = f.Exemptions[i].PolicyRef.String()
	}
	return strings.Join(refs, ", ")
}
