package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// A version has the time settle to reach all replicas before its status says that it has not:
	// so one write is nearly always enough.
	settle = 3 * time.Second
	// Replicas that differ in a policy that does not compile, because one of them never
	// saw its last good version, differ for longer than tolerance.
	tolerance = 30 * time.Second

	// A version has the time trying to be tried before its status says that it has not been.
	trying = 10 * time.Second

	mostProblems = 20
	mostText     = 1000
)

// An outlook is what the leader knows about a policy in addition to its own snapshot.
type outlook struct {
	// lagging are the live replicas that do not confirm it, sorted.
	lagging []string
	// known is how long the leader has known the version, and apart how long there have been
	// replicas that do not confirm it.
	known, apart time.Duration
	// unregistered is why API servers may not send what it needs.
	unregistered string
	// calls says whether API servers send anything.
	calls Calls
	// served says that another replica answers what this one does not.
	served bool
	// working is the condition Working, if it changes.
	working *metav1.Condition
	// confirmed reports whether every replica has been seen to enforce the version already.
	confirmed bool
}

// next returns the new status of policy p; nil if it is not to be written. It is not settled if it
// may change without a new snapshot.
func next(known v1alpha1.PolicyStatus, p *rule.State, o outlook, now time.Time) (status *v1alpha1.PolicyStatus, settled bool) {
	o.confirmed = confirmed(known, p)
	enforced, settled := enforcedCondition(p, o)
	if enforced == nil {
		return nil, false
	}
	compiled := compiledCondition(p)
	next := v1alpha1.PolicyStatus{
		ObservedGeneration: p.Generation,
		Action:             short(p.Action), Kinds: short(p.Kinds),
		Conditions: slices.Clone(known.Conditions),
		Problems:   problems(p.Problems),
	}
	setConditions(&next.Conditions, now, compiled, enforced, o.working, provenCondition(p))
	next.LastError = lastError(p, next.Conditions)
	if same(known, next) {
		return nil, settled
	}
	return &next, settled
}

// setConditions sets those conditions that are not nil. A condition keeps its time while its status
// stays the same.
func setConditions(all *[]metav1.Condition, now time.Time, conditions ...*metav1.Condition) {
	for _, c := range conditions {
		if c == nil {
			continue
		}
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old := meta.FindStatusCondition(*all, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		meta.SetStatusCondition(all, *c)
	}
}

// lastError returns what is wrong with a policy, in one line.
func lastError(p *rule.State, conditions []metav1.Condition) string {
	working, enforced := meta.FindStatusCondition(conditions, v1alpha1.ConditionWorking), meta.FindStatusCondition(conditions, v1alpha1.ConditionEnforced)
	switch {
	case p.Suspended != "":
		return short(p.Suspended)
	case !p.Compiled || !p.Enforced:
		return firstError(p.Problems)
	case enforced != nil && enforced.Reason == v1alpha1.ReasonNotServed:
		return enforced.Message
	case working != nil && working.Status == metav1.ConditionFalse:
		return working.Message
	case len(p.Problems) > 0:
		first := slices.MinFunc(p.Problems, func(a, b rule.Problem) int { return cmp.Compare(a.Severity, b.Severity) })
		return short(string(first.Severity) + ": " + inOneLine(first))
	}
	return ""
}

// same compares two statuses, without reflection, because the leader compares thousands at a time.
func same(a, b v1alpha1.PolicyStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.LastError == b.LastError && a.Action == b.Action && a.Kinds == b.Kinds &&
		slices.Equal(a.Problems, b.Problems) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(a, b metav1.Condition) bool {
			if !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
				return false
			}
			a.LastTransitionTime = b.LastTransitionTime
			return a == b
		})
}

func compiledCondition(p *rule.State) *metav1.Condition {
	c := &metav1.Condition{
		Type: v1alpha1.ConditionCompiled, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonCompiled, ObservedGeneration: p.Generation,
		Message: "the policy can be enforced as it is written",
	}
	warnings := len(p.Problems) - len(rule.Errors(p.Problems))
	switch {
	case p.Surplus:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonTooManyPolicies, "it was not compiled: "+firstError(p.Problems)
	case p.Pending:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPending
		c.Message = short("it is not compiled yet, and is tried again: " + firstError(p.Problems))
	case !p.Compiled:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonDoesNotCompile, firstError(p.Problems)
		if more := len(rule.Errors(p.Problems)) - 1; more > 0 {
			c.Message += fmt.Sprintf(" (and %s: see status.problems)", count(more, "more error"))
		}
		if stopped := stopped(p.Problems); stopped.Reason != "" {
			// Replicas that start read this, and do not try again.
			c.Reason = stopped.Reason
			c.Message += fmt.Sprintf("; it is tried again when it changes, or once an hour (spec %s)", stopped.Spec)
		}
	case warnings > 0:
		c.Message += fmt.Sprintf(", with %s: see status.problems", count(warnings, "warning"))
	}
	if p.Compiled && p.Slow != "" {
		c.Message += short("; it runs on CUE's evaluator, slowly (" + p.Slow + ")")
	}
	return c
}

// stopped returns why compiling the policy was stopped; the zero value if it was not.
func stopped(problems []rule.Problem) rule.Stopped {
	for i := range problems {
		if problems[i].Severity == rule.Error && problems[i].Stopped.Reason != "" {
			return problems[i].Stopped
		}
	}
	return rule.Stopped{}
}

// provenCondition returns nil if the policy needs no proof.
func provenCondition(p *rule.State) *metav1.Condition {
	if !p.NeedsProof {
		return nil
	}
	c := &metav1.Condition{
		Type: v1alpha1.ConditionProven, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonProven, ObservedGeneration: p.Generation,
		Message: "the user who wrote the policy had the right to",
	}
	if p.Unproven == "" {
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnproven
	c.Message = "not in force: " + short(p.Unproven)
	if p.Enforced {
		c.Message = "in force nevertheless: " + short(p.Unproven)
	}
	return c
}

// enforcedCondition returns nil if it is too early to tell.
func enforcedCondition(p *rule.State, o outlook) (c *metav1.Condition, settled bool) {
	c, settled = replicasCondition(p, o)
	if c == nil || c.Status != metav1.ConditionTrue {
		return c, settled
	}
	if p.Untried && !o.confirmed {
		return untriedCondition(c, o), false
	}
	if p.Unserved != "" && !o.served {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNotServed
		c.Message = short(c.Message + ", but it decides nothing: " + p.Unserved)
		return c, settled
	}
	if p.NoSuchKind != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonNoSuchKind, short(p.NoSuchKind)
		return c, settled
	}
	if p.MatchesNothing != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonMatchesNothing, short(p.MatchesNothing)
		return c, settled
	}
	switch o.calls.State {
	case CallsAssumed, CallsSeen:
	case CallsAwaited:
		return nil, false
	case CallsMissing:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNotCalled
		c.Message = short(c.Message + ", but API servers do not ask them: " + o.calls.Message)
	case CallsUnknown:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNotVerified
		c.Message = short(c.Message + "; whether API servers ask them is not known: " + o.calls.Message)
	}
	return c, settled
}

// untriedCondition completes the condition of a policy of which it is not known yet whether it matches anything; nil
// if that will be known soon.
func untriedCondition(c *metav1.Condition, o outlook) *metav1.Condition {
	if o.known < trying {
		return nil
	}
	c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNotTried
	c.Message = "every replica enforces this version; whether it matches anything in this cluster is not known yet"
	return c
}

// replicasCondition returns the condition on the assumption that API servers call.
func replicasCondition(p *rule.State, o outlook) (c *metav1.Condition, settled bool) {
	c = &metav1.Condition{
		Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse, ObservedGeneration: p.Generation,
	}
	switch {
	case p.Suspended != "":
		return suspendedCondition(c, p, o)
	case p.Surplus:
		c.Reason, c.Message = v1alpha1.ReasonTooManyPolicies, firstError(p.Problems)
		return c, true
	case !p.Enforced && p.Pending:
		c.Reason = v1alpha1.ReasonPending
		c.Message = "it fails whenever it is asked until it is compiled, so that the failure policy answers"
		return c, true
	case !p.Enforced && p.Compiled:
		c.Reason, c.Message = v1alpha1.ReasonNotEnforced, "not in force: "+firstError(p.Problems)
		return c, true
	case !p.Enforced:
		c.Reason = v1alpha1.ReasonDoesNotCompile
		c.Message = "nothing of this policy is in force: correct what status.problems names"
		return c, true
	case !p.Compiled:
		return lastGoodCondition(c, p, o), len(o.lagging) == 0
	case o.unregistered != "" && !o.confirmed:
		c.Reason, c.Message = v1alpha1.ReasonNotRegistered, short("API servers may not ask for it: "+o.unregistered)
		return c, true
	case len(o.lagging) == 0 || o.confirmed:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonEnforced
		c.Message = "every replica enforces this version"
		return c, true
	case o.known < settle:
		return nil, false
	}
	c.Reason = v1alpha1.ReasonPropagating
	c.Message = fmt.Sprintf("generation %d is not enforced yet by %s; if this lasts for more than a minute, look at the log there",
		p.Generation, names(o.lagging))
	return c, false
}

// lastGoodCondition completes the condition of a policy that is in force in an older version.
func lastGoodCondition(c *metav1.Condition, p *rule.State, o outlook) *metav1.Condition {
	if o.apart > tolerance {
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonReplicasDiffer
		c.Message = fmt.Sprintf("generation %d does not compile; generation %d is still in force, but not in %s: "+
			"correct what status.problems names", p.Generation, p.InForce(), names(o.lagging))
		return c
	}
	c.Status, c.Reason, c.ObservedGeneration = metav1.ConditionTrue, v1alpha1.ReasonLastGoodVersion, p.InForce()
	if p.Pending {
		c.Message = fmt.Sprintf("generation %d is still in force until generation %d is compiled", p.InForce(), p.Generation)
		return c
	}
	c.Message = fmt.Sprintf("generation %d is still in force, because generation %d does not compile; "+
		"a replica that starts again enforces neither: correct what status.problems names", p.InForce(), p.Generation)
	return c
}

// confirmed reports whether every replica has been seen to enforce the version already. A replica
// that differs now differs in another policy, or is late in general: replicas do not go back to
// older versions.
func confirmed(known v1alpha1.PolicyStatus, p *rule.State) bool {
	c := meta.FindStatusCondition(known.Conditions, v1alpha1.ConditionEnforced)
	return c != nil && c.ObservedGeneration == p.Generation &&
		(c.Status == metav1.ConditionTrue || slices.Contains([]string{v1alpha1.ReasonNotCalled, v1alpha1.ReasonNotVerified, v1alpha1.ReasonNotServed}, c.Reason))
}

// problems returns the problems of a policy, errors first, limited in number and size.
func problems(all []rule.Problem) []v1alpha1.PolicyProblem {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b rule.Problem) int { return cmp.Compare(a.Severity, b.Severity) })
	var problems []v1alpha1.PolicyProblem
	for i, p := range sorted {
		if i == mostProblems {
			problems[i-1] = v1alpha1.PolicyProblem{
				Severity: string(p.Severity), What: fmt.Sprintf("and %s", count(len(sorted)-i+1, "more problem")),
				Do: "correct those above first",
			}
			break
		}
		problems = append(problems, v1alpha1.PolicyProblem{
			Severity: string(p.Severity), Field: short(p.Field), What: short(p.Text()), Do: short(p.Do),
		})
	}
	return problems
}

// firstError returns the first error in one line.
func firstError(problems []rule.Problem) string {
	errs := rule.Errors(problems)
	if len(errs) == 0 {
		return "the reason is not known: look at the log of Usher"
	}
	return short(inOneLine(errs[0]))
}

func inOneLine(p rule.Problem) string {
	text := p.Text()
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Do != "" {
		text += "; " + p.Do
	}
	return strings.Join(strings.Fields(text), " ")
}

// short returns text as a status or an Event shows it: without control characters, cut to a length.
func short(text string) string { return printable.Excerpt(text, mostText) }

func names(replicas []string) string {
	if len(replicas) == 1 {
		return replicas[0]
	}
	return fmt.Sprintf("%s and %s", replicas[0], count(len(replicas)-1, "other replica"))
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
