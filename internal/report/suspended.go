package report

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// suspendedCondition completes the condition of a policy that is suspended.
func suspendedCondition(c *metav1.Condition, p *rule.State, o outlook) (*metav1.Condition, bool) {
	c.Reason, c.Message = v1alpha1.ReasonSuspended, short(p.Suspended)
	if len(o.lagging) == 0 {
		return c, true
	}
	// Users see at once that not every replica enforces it.
	c.Message = short(p.Suspended + "; not yet at " + names(o.lagging))
	return c, false
}

// suspension returns the condition to announce when a status is written: that a policy is suspended,
// or no longer is, if the status did not say so before. The condition is Enforced, or Valid of an
// exemption.
func suspension(known v1alpha1.PolicyStatus, p *rule.State, c *metav1.Condition) *metav1.Condition {
	old := meta.FindStatusCondition(known.Conditions, c.Type)
	before, now := old != nil && old.Reason == v1alpha1.ReasonSuspended, p.Suspended != ""
	switch {
	case before == now:
		return nil
	case now:
		return c
	}
	return &metav1.Condition{Reason: v1alpha1.ReasonResumed, Message: "it is no longer suspended: see its status for whether it is in force"}
}

// suspendedWorking returns the condition Working of a policy that is suspended, and failed before; nil if it need not
// change.
func suspendedWorking(old *metav1.Condition, p *rule.State) *metav1.Condition {
	if p.Suspended == "" || old == nil || old.Status != metav1.ConditionFalse {
		return nil
	}
	return &metav1.Condition{
		Type: v1alpha1.ConditionWorking, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonSuspended, ObservedGeneration: p.Generation,
		Message: "an older version has failed; the policy is suspended, and no request meets it",
	}
}
