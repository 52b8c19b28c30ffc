package live

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// Candidates configures how policy candidates are evaluated. The zero value works.
type Candidates struct {
	// Foreign says that API servers enforce the admission policies of Kubernetes.
	Foreign bool
	// Access says that requests are authorized, by [Live.Authorizer].
	Access bool
	// Differs gets each decision that differs. See [candidate.Options].
	Differs func(*rule.CandidateDifference)
	// Hold takes memory for requests that wait. See [candidate.Options].
	Hold func(bytes int64) (release func(), ok bool)
}

// newCandidates returns what evaluates candidates; nil if they are not evaluated.
func newCandidates(o *Options) *candidate.Evaluator {
	if o.Candidates == nil {
		return nil
	}
	options := candidate.Options{Facts: o.Facts, Engine: o.Engine, Foreign: o.Candidates.Foreign, Hold: o.Candidates.Hold, Differs: o.Candidates.Differs, Log: o.Log}
	if o.Candidates.Access {
		options.Access = &o.Access
	}
	return candidate.New(options)
}

// Authorizer returns a Decider that decides as f does, and then has candidates for authorization policies
// evaluated. only is the verdict that the answers can have besides no opinion; empty for every one.
func (f *inForce) Authorizer(only usher.Verdict) usher.Decider {
	if f.candidates == nil {
		return f
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		d, err := f.Decide(ctx, r)
		if err == nil && r.Phase == usher.Authorize {
			f.candidates.OfferAccess(r, only)
		}
		return d, err
	})
}

// updateCandidates has the candidates compared with the policies that come into force, whose decisions are to be passed
// to offer.
func updateCandidates(l *Live, enforced []compile.Compiled) (offer candidate.Offer) {
	if l.candidates == nil {
		return func(*usher.Request, *usher.Decision) {}
	}
	return l.candidates.Update(enforced, func() []compile.Compiled { return l.others.compiled(l.elsewhere, enforced, l.options.Compile) })
}

// Candidates returns what was counted of each candidate that is evaluated.
func (f *inForce) Candidates() []rule.CandidateState {
	if f.candidates == nil {
		return nil
	}
	return f.candidates.States()
}

// CandidateOverruns returns the evaluations of candidates that have not ended in time.
func (f *inForce) CandidateOverruns() overrun.State {
	if f.candidates == nil {
		return overrun.State{}
	}
	return f.candidates.Overruns()
}

// unevaluated returns a problem of a candidate that is not evaluated here.
func unevaluated(l *Live, v *version) []rule.Problem {
	p := rule.Problem{Severity: rule.Warning, Field: "kind"}
	switch of := v.newest.Candidate; {
	case of == nil:
		return nil
	case l.candidates == nil:
		p.What, p.Do = "this program does not evaluate candidates, so that nothing is counted", "have a server evaluate it, with 'usher serve'"
	case of.Authorizes() && !l.options.Candidates.Access:
		p.What, p.Do = candidate.Unauthorizing, "have a server evaluate it that authorizes requests"
	default:
		return nil
	}
	return []rule.Problem{v.newest.Place(p)}
}
