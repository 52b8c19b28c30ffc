package report

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// unseen is what no candidate sees, whatever it selects.
const unseen = "it sees what API servers send: never leases, events, nodes, reviews, certificate requests, policies of Kubernetes, or what the control plane writes in kube-system; dry runs are not counted"

// candidate returns the write of the status of a candidate; nil if nothing has changed. Without a new
// snapshot, it may change after again.
func (l *leader) candidate(known status, p *rule.State, o outlook, now time.Time) (w *write, again time.Duration) {
	x := l.evaluating[p.UID]
	evaluated, settled := evaluatedCondition(known, p, o, x)
	if again = idleEvery; !settled {
		again = pollInterval(o.known)
	}
	if evaluated == nil {
		return nil, again
	}
	next := status{PolicyStatus: v1alpha1.PolicyStatus{
		ObservedGeneration: p.Generation, Conditions: slices.Clone(known.Conditions), Problems: problems(p.Problems),
	}, Candidate: &usherv1alpha1.PolicyCandidateStatus{}}
	setConditions(&next.Conditions, now, evaluated, provenCondition(p))
	next.LastError = exemptionError(p, evaluated, next.Problems)
	due, soon := l.counts.apply(&known, &next, x, p.UID, now)
	if !due && same(known.PolicyStatus, next.PolicyStatus) {
		return nil, min(again, soon)
	}
	return &write{policy: p, status: next}, again
}

// evaluatedCondition returns nil if it is too early to tell.
func evaluatedCondition(known status, p *rule.State, o outlook, x *rule.CandidateState) (c *metav1.Condition, settled bool) {
	old := meta.FindStatusCondition(known.Conditions, usherv1alpha1.ConditionEvaluated)
	o.confirmed = old != nil && old.ObservedGeneration == p.Generation && (old.Status == metav1.ConditionTrue || old.Reason == usherv1alpha1.ReasonNotEffective)
	c, settled = enforcedCondition(p, o)
	if c == nil {
		return nil, settled
	}
	c.Type = usherv1alpha1.ConditionEvaluated
	switch {
	case p.Enforced && x != nil && x.NotEffective != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, usherv1alpha1.ReasonNotEffective, short(x.NotEffective)
	case c.Reason == v1alpha1.ReasonEnforced && x == nil:
		return nil, false
	case c.Reason == v1alpha1.ReasonEnforced:
		c.Reason, c.Message = usherv1alpha1.ReasonEvaluated, "every replica evaluates it; "+unseen
	}
	return c, settled
}

// statusOf returns what writes the status of policies of a kind that have one of their own; nil for others.
func (l *leader) statusOf(kind string) func(status, *rule.State, outlook, time.Time) (*write, time.Duration) {
	switch of := l.kinds[kind]; {
	case of.Exempts:
		return l.exemption
	case of.Candidate:
		return l.candidate
	}
	return nil
}

// value returns what is written.
func (s *status) value() any {
	if s.Candidate == nil {
		return s
	}
	value := *s.Candidate
	value.ObservedGeneration, value.Conditions, value.Problems, value.LastError = s.ObservedGeneration, s.Conditions, s.Problems, s.LastError
	return value
}

// ofCandidate returns the status of a candidate.
func ofCandidate(read usherv1alpha1.PolicyCandidateStatus) status {
	return status{PolicyStatus: v1alpha1.PolicyStatus{
		ObservedGeneration: read.ObservedGeneration, Conditions: read.Conditions, Problems: read.Problems, LastError: read.LastError,
	}, Candidate: &read}
}
