package engine

import (
	"net/http"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// Limits of what rules say besides their answer: they can be thousands, and have thousands of
// objects of params.
const (
	// maxWarnings is more than an API server passes on, which is 4,096 characters.
	maxWarnings = 1000
	// maxJoined limits the values of one annotation, in bytes.
	maxJoined = 16 << 10
)

// A findings is what rules have said, folded into one decision.
type findings struct {
	decision usher.Decision
	// expected is how many findings there may be.
	expected int
	// each, unless nil, gets the findings in place of the decision: the last one is in last.
	each func(*usher.Finding)
	last *usher.Finding
	// annotated are the values that rules have for the audit log.
	annotated map[rule.Annotation]bool
	// again is on while rules run once more, and repeated when some have.
	again, repeated bool
}

// tells reports whether a finding is of interest. That of a built-in rule is only when the rule made a
// difference, and so is that of a rule that runs once more.
func (d *findings) tells(f *usher.Finding) bool {
	if d.again {
		return f.Outcome != usher.Passed && f.Outcome != usher.Skipped
	}
	return f.Outcome != usher.Passed || !builtIn(f.Policy)
}

// add adds what a rule has said, with its finding if that is told.
func (d *findings) add(f *usher.Finding, told bool, res *result) {
	if told {
		*d.another() = *f
	}
	for _, w := range res.warnings {
		if len(d.decision.Warnings) < maxWarnings && !slices.Contains(d.decision.Warnings, w) {
			d.decision.Warnings = append(d.decision.Warnings, w)
		}
	}
	for _, a := range res.audit {
		d.annotate(a)
	}
}

// another adds a finding, which is to be filled in.
func (d *findings) another() *usher.Finding {
	all := d.decision.Findings
	if all == nil {
		all = make([]usher.Finding, 0, d.expected)
	}
	if len(all) < cap(all) {
		// Nothing has been there before, and to write that costs time.
		all = all[:len(all)+1]
	} else {
		all = append(all, usher.Finding{})
	}
	d.decision.Findings = all
	return &all[len(all)-1]
}

// annotate adds an audit annotation. Values that are joined are left out when they are too long
// together.
func (d *findings) annotate(a rule.Annotation) {
	if d.decision.Audit == nil {
		d.decision.Audit, d.annotated = map[string]string{}, map[rule.Annotation]bool{}
	}
	joined, present := d.decision.Audit[a.Key]
	switch {
	case !present:
		joined = a.Value
	case !a.Joined || d.annotated[a] || len(joined)+len(a.Value) > maxJoined:
		return
	default:
		joined += ", " + a.Value
	}
	d.decision.Audit[a.Key], d.annotated[a] = joined, true
}

// end returns the decision if a rule has ended the run, or nil.
func (d *findings) end(res *result, finding *usher.Finding, err error) *usher.Decision {
	switch {
	case err != nil:
		return new(d.allow(nil))
	case finding.Outcome == usher.Rejected:
		return new(d.deny(status{code: res.code, reason: res.reason}, res.message))
	case finding.Outcome == usher.Failed && !finding.Ignored:
		return new(d.deny(status{code: http.StatusInternalServerError}, failure(finding)))
	}
	return nil
}

func (d *findings) allow(patch usher.Patch) usher.Decision {
	d.decision.Verdict, d.decision.Patch = usher.Allow, patch
	d.audit()
	return d.decision
}

// A status is what a denial says to programs.
type status struct {
	code   int32
	reason string
}

func (d *findings) deny(s status, message string) usher.Decision {
	d.decision.Verdict, d.decision.Code, d.decision.Reason, d.decision.Message = usher.Deny, s.code, s.reason, message
	d.audit()
	return d.decision
}

func builtIn(p usher.PolicyRef) bool { return p == usher.PolicyRef{} }
