package live

import (
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// Candidates configures how policy candidates are evaluated. The zero value works.
type Candidates struct {
	// Foreign says that API servers enforce the admission policies of Kubernetes.
	Foreign bool
	// Hold takes memory for requests that wait. See [candidate.Options].
	Hold func(bytes int64) (release func(), ok bool)
}

// newCandidates returns what evaluates candidates; nil if they are not evaluated.
func newCandidates(o *Options) *candidate.Evaluator {
	if o.Candidates == nil {
		return nil
	}
	return candidate.New(candidate.Options{Facts: o.Facts, Engine: o.Engine, Foreign: o.Candidates.Foreign, Hold: o.Candidates.Hold})
}

// updateCandidates has the candidates compared with the policies that come into force.
func updateCandidates(l *Live, enforced []compile.Compiled) {
	if l.candidates == nil {
		return
	}
	l.candidates.Update(enforced, func() []compile.Compiled { return l.others.compiled(l.elsewhere, enforced, l.options.Compile) })
}

// Candidates returns what was counted of each candidate that is evaluated.
func (f *inForce) Candidates() []rule.CandidateState {
	if f.candidates == nil {
		return nil
	}
	return f.candidates.States()
}

// unevaluated returns a problem of a candidate where candidates are not evaluated.
func unevaluated(l *Live, v *version) []rule.Problem {
	if l.candidates != nil || v.newest.Candidate == nil {
		return nil
	}
	return []rule.Problem{v.newest.Place(rule.Problem{
		Severity: rule.Warning, Field: "kind", What: "this program does not evaluate candidates, so that nothing is counted", Do: "have a server evaluate it, with 'usher serve'",
	})}
}
