package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	week = 7 * 24 * time.Hour
	day  = 24 * time.Hour
	// An exemption is Unused after unusedFor without a use.
	unusedFor = 30 * day
)

// exemption returns the write of the status of an exemption; nil if nothing has changed. Without a
// new snapshot, it may change after again.
func (l *leader) exemption(known status, p *rule.State, o outlook, now time.Time) (w *write, again time.Duration) {
	x := l.exempting[p.UID]
	valid, again := validCondition(known, p, o, x, now)
	if valid == nil {
		return nil, again
	}
	next := status{
		PolicyStatus: v1alpha1.PolicyStatus{
			ObservedGeneration: p.Generation,
			Conditions:         slices.Clone(known.Conditions),
			Problems:           problems(allProblems(p, x)),
		},
		LastUsed: known.LastUsed, Uses: known.Uses,
	}
	due := l.uses.apply(&next, p.UID, now)
	setConditions(&next.Conditions, now, valid, provenCondition(p))
	inForce := valid.Status == metav1.ConditionTrue
	soon := expiresSoon(p, x, inForce, now)
	optional(&next.Conditions, usherv1alpha1.ConditionExpiresSoon, soon, now)
	optional(&next.Conditions, usherv1alpha1.ConditionUnused, unused(&next, p, inForce, now), now)
	next.LastError = exemptionError(p, valid, next.Problems)
	if !due && same(known.PolicyStatus, next.PolicyStatus) {
		return nil, again
	}
	told := cmp.Or(suspension(known.PolicyStatus, p, valid), expiry(known, p, valid, soon))
	return &write{policy: p, status: next, told: told}, again
}

// allProblems returns the problems of an exemption. Those that it has because of other policies are
// known only if it is in the snapshot.
func allProblems(p *rule.State, x *rule.ExemptionState) []rule.Problem {
	if x == nil || x.Generation != p.InForce() {
		return p.Problems
	}
	return x.Problems
}

// optional sets a condition that is there only while it is true.
func optional(all *[]metav1.Condition, condition string, c *metav1.Condition, now time.Time) {
	if c == nil {
		meta.RemoveStatusCondition(all, condition)
		return
	}
	setConditions(all, now, c)
}

// validCondition returns nil if it is too early to tell. The condition may change after again.
func validCondition(known status, p *rule.State, o outlook, x *rule.ExemptionState, now time.Time) (c *metav1.Condition, again time.Duration) {
	o.confirmed = false
	if old := meta.FindStatusCondition(known.Conditions, usherv1alpha1.ConditionValid); old != nil && old.ObservedGeneration == p.Generation {
		o.confirmed = old.Status == metav1.ConditionTrue || old.Reason == usherv1alpha1.ReasonNotEffective
	}
	again = idleEvery
	ends := time.Time{}
	if x != nil && p.Enforced {
		ends = x.Expires
	}
	expired := !ends.IsZero() && !now.Before(ends)
	c, settled := replicasCondition(p, o)
	if !settled {
		again = pollInterval(o.known)
	}
	if !expired && !ends.IsZero() {
		again = min(again, ends.Sub(now))
	}
	switch {
	case expired:
		c = &metav1.Condition{Status: metav1.ConditionFalse, Reason: usherv1alpha1.ReasonExpired, ObservedGeneration: p.Generation}
		c.Message = fmt.Sprintf("it expired at %s: delete it, or set a later spec.expiresAt", text(ends))
	case c == nil:
		return nil, again
	case c.Reason == v1alpha1.ReasonEnforced:
		c.Reason, c.Message = usherv1alpha1.ReasonValid, "it is in force"
		if !ends.IsZero() {
			c.Message += " until " + text(ends)
		}
		if x != nil && x.NotEffective != "" {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, usherv1alpha1.ReasonNotEffective, short(x.NotEffective)
		}
	}
	c.Type = usherv1alpha1.ConditionValid
	return c, again
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// expiresSoon returns the condition, or nil if the exemption is not in force or does not expire soon: in its last
// week, if it is for more than two weeks, in its last day, if it is for more than two days, or else in the last tenth
// of its time.
func expiresSoon(p *rule.State, x *rule.ExemptionState, inForce bool, now time.Time) *metav1.Condition {
	if !inForce || x == nil {
		return nil
	}
	soon := week
	switch all := x.Expires.Sub(x.Created); {
	case all <= 2*day:
		soon = all / 10
	case all <= 2*week:
		soon = day
	}
	if x.Expires.Sub(now) > soon {
		return nil
	}
	c := &metav1.Condition{
		Type: usherv1alpha1.ConditionExpiresSoon, Status: metav1.ConditionTrue, Reason: usherv1alpha1.ReasonExpiresWithinAWeek,
		ObservedGeneration: p.Generation, Message: "it expires at " + text(x.Expires),
	}
	if x.Expires.Sub(now) <= day {
		c.Reason = usherv1alpha1.ReasonExpiresWithinADay
	}
	return c
}

// unused returns the condition, or nil if the exemption is not in force or has been used.
func unused(s *status, p *rule.State, inForce bool, now time.Time) *metav1.Condition {
	valid := meta.FindStatusCondition(s.Conditions, usherv1alpha1.ConditionValid)
	if !inForce || valid == nil {
		return nil
	}
	since := valid.LastTransitionTime.Time
	if s.LastUsed != nil && s.LastUsed.After(since) {
		since = s.LastUsed.Time
	}
	if now.Sub(since) < unusedFor {
		return nil
	}
	return &metav1.Condition{
		Type: usherv1alpha1.ConditionUnused, Status: metav1.ConditionTrue, Reason: usherv1alpha1.ReasonNotUsed,
		ObservedGeneration: p.Generation, Message: fmt.Sprintf("no request has been exempt since %s: delete it if it is not needed", text(since)),
	}
}

// expiry returns the condition to announce when the status is written: that the exemption has
// expired, or will soon, if the status did not say so before. Its author has just written when one
// expires that no status knows.
func expiry(known status, p *rule.State, valid, soon *metav1.Condition) *metav1.Condition {
	if known.ObservedGeneration != p.Generation {
		return nil
	}
	announced := func(c *metav1.Condition) bool {
		old := meta.FindStatusCondition(known.Conditions, c.Type)
		return old != nil && old.Reason == c.Reason
	}
	switch {
	case valid.Reason == usherv1alpha1.ReasonExpired && !announced(valid):
		return valid
	case soon != nil && !announced(soon):
		return soon
	}
	return nil
}

// exemptionError returns what is wrong with an exemption, in one line.
func exemptionError(p *rule.State, valid *metav1.Condition, problems []v1alpha1.PolicyProblem) string {
	switch {
	case p.Suspended != "":
		return short(p.Suspended)
	case !p.Compiled || !p.Enforced:
		return firstError(p.Problems)
	case valid.Reason == usherv1alpha1.ReasonExpired || valid.Reason == usherv1alpha1.ReasonNotEffective:
		return valid.Message
	case len(problems) > 0:
		return short(problems[0].Severity + ": " + problems[0].What)
	}
	return ""
}
