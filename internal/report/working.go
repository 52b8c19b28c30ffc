package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/turns"
)

const (
	// FailingAnnotation holds which policies fail at a replica, as a JSON list of [rule.Failure].
	FailingAnnotation = "usher.dev/failing"

	// A replica publishes at most mostFailures, those that have failed for the longest; namespaces take turns.
	mostFailures = 50
	// For one version, the condition Working of a policy is written at most once in workingGap.
	// While only the number of failures changes, it is written when the number has doubled, and
	// otherwise after workingRefresh.
	workingGap     = time.Minute
	workingRefresh = 10 * time.Minute
	// A failure that no live replica knows, because they have restarted, is kept for failureKept.
	failureKept = time.Hour
	// workingBatch is how many statuses are written in one round because of this condition alone:
	// users who write objects can cause them, and must not delay the others.
	workingBatch = 5
)

// A working is what the leader has written about failures of a policy.
type working struct {
	at    time.Time
	count int64
	// ignored says that the failure had no effect.
	ignored bool
	// failed is the generation of which a failure was written last.
	failed int64
}

// failing returns the failures of policies, as this replica and live others have seen them.
func (l *leader) failing() map[types.UID]*rule.Failure {
	all := map[types.UID]*rule.Failure{}
	add := func(failures []rule.Failure) {
		for i := range failures {
			merge(all, &failures[i])
		}
	}
	if l.options.Failing != nil {
		add(l.options.Failing())
	}
	for i := range l.others {
		if l.others[i].Live {
			add(l.others[i].failing)
		}
	}
	return all
}

// merge adds a failure that one replica has seen.
func merge(all map[types.UID]*rule.Failure, f *rule.Failure) {
	known := all[f.UID]
	switch {
	case known == nil || known.Generation < f.Generation || known.Generation == f.Generation && known.Count == 0 && (f.Count > 0 || f.Last.After(known.Last)):
		one := *f
		all[f.UID] = &one
		return
	case known.Generation > f.Generation, f.Count == 0:
		return
	}
	known.Count += f.Count
	if f.Since.Before(known.Since) {
		known.Since = f.Since
	}
	newer := f.Last.After(known.Last)
	if newer {
		known.Last = f.Last
	}
	if known.Ignored && !f.Ignored || known.Ignored == f.Ignored && newer {
		known.Rule, known.Part, known.Error, known.Example, known.Ignored = f.Rule, f.Part, f.Error, f.Example, f.Ignored
	}
}

// workingCondition returns the condition Working to write; nil means no change. A nil f means that
// no replica knows of a failure, nor whether a request has met the version.
func (l *leader) workingCondition(known v1alpha1.PolicyStatus, p *rule.State, f *rule.Failure, now time.Time) *metav1.Condition {
	old := meta.FindStatusCondition(known.Conditions, v1alpha1.ConditionWorking)
	if c := suspendedWorking(old, p); c != nil {
		return c
	}
	generation := p.InForce()
	f, k := told(f, generation)
	if generation < 0 || old == nil && f == nil {
		return nil
	}
	c := &metav1.Condition{Type: v1alpha1.ConditionWorking, ObservedGeneration: generation}
	same := old != nil && old.ObservedGeneration == generation
	edited := !same || old.Status == metav1.ConditionUnknown
	if f == nil && edited {
		return l.editedCondition(c, old, p, k, now)
	}
	written, seen := l.working[p.UID]
	since := now.Sub(written.at)
	broken := same && old.Status == metav1.ConditionFalse
	if same && seen && since < workingGap && (f == nil || written.failed == generation) {
		return nil
	}
	if f == nil {
		return recovered(c, old, seen, now)
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonRuleFails, short(failureText(f))
	if broken && (l.wasWritten(p.UID, f, since) || old.Message == c.Message) {
		return nil
	}
	return c
}

// recovered returns the condition of a version that no longer fails; nil if it has not, or nobody knows.
func recovered(c, old *metav1.Condition, seen bool, now time.Time) *metav1.Condition {
	if old.Status != metav1.ConditionFalse || !seen && now.Sub(old.LastTransitionTime.Time) < failureKept {
		return nil
	}
	c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonRecovered
	c.Message = "the rules that failed have worked since, or have not been seen to fail for long"
	return c
}

// A knowledge is what replicas know of a version that has not failed: that requests of it are awaited, and that one has
// met it.
type knowledge struct{ awaited, met bool }

// told returns what replicas say about a version: how it fails, nil if it does not, or what else they know of it.
func told(f *rule.Failure, generation int64) (*rule.Failure, knowledge) {
	switch {
	case f == nil || f.Generation != generation:
		return nil, knowledge{}
	case f.Count == 0:
		return nil, knowledge{awaited: true, met: !f.Last.IsZero()}
	}
	return f, knowledge{}
}

// editedCondition returns the condition of a version that has not failed, when one before it has. It is Unknown until
// a request has met this one.
func (l *leader) editedCondition(c, old *metav1.Condition, p *rule.State, k knowledge, now time.Time) *metav1.Condition {
	written, seen := l.working[p.UID]
	since := old.LastTransitionTime.Time
	if seen {
		since = written.at
	}
	switch {
	case k.met:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonRecovered, "requests have met this version, and no rule of it has failed"
	case old.ObservedGeneration != c.ObservedGeneration:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonEdited
		c.Message = fmt.Sprintf("an older version has failed; no request has met generation %d, in force since %s: the next one that it is about shows whether it works",
			c.ObservedGeneration, now.UTC().Format(time.RFC3339))
	case !k.awaited && now.Sub(since) >= failureKept:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonRecovered, "no rule of this version has been seen to fail for long"
	default:
		if !k.awaited && l.options.Await != nil {
			l.options.Await(p.Policy)
		}
		return nil
	}
	return c
}

// wasWritten reports whether what was written about a failure is recent enough.
func (l *leader) wasWritten(uid types.UID, f *rule.Failure, since time.Duration) bool {
	written, seen := l.working[uid]
	if !seen {
		l.working[uid] = working{count: f.Count, ignored: f.Ignored}
	}
	return seen && written.covers(f, since)
}

// covers reports whether what was written some time ago about a failure says enough. That one was ignored does not, once another
// has refused a request.
func (w working) covers(f *rule.Failure, since time.Duration) bool {
	return f.Count < 2*w.count && since < workingRefresh && (f.Ignored || !w.ignored)
}

// failureText describes how a policy fails, without values of objects.
func failureText(f *rule.Failure) string {
	ignored := ""
	if f.Ignored {
		ignored = ", which failurePolicy: Ignore ignored"
	}
	return fmt.Sprintf("%s failed %s since %s%s, last for %s: %s",
		cmp.Or(f.Part, f.Rule), count(int(f.Count), "time"), f.Since.UTC().Format(time.RFC3339), ignored, f.Example, f.Error)
}

// publishedFailures returns the annotation of a replica's Lease; empty if nothing fails.
func publishedFailures(failures []rule.Failure) string {
	if len(failures) == 0 {
		return ""
	}
	text, err := json.Marshal(failures[:min(len(failures), mostFailures)])
	if err != nil {
		return ""
	}
	return string(text)
}

// parseFailures parses the result of publishedFailures. It ignores the formats of other versions.
func parseFailures(text string) []rule.Failure {
	var failures []rule.Failure
	if text == "" || json.Unmarshal([]byte(text), &failures) != nil {
		return nil
	}
	failures = failures[:min(len(failures), mostFailures)]
	return slices.DeleteFunc(failures, func(f rule.Failure) bool { return f.UID == "" || f.Count < 0 })
}

// mostPublished returns the failures that a replica publishes. Without too many of them that is all.
func (v *view) mostPublished(failures []rule.Failure) []rule.Failure {
	if len(failures) <= mostFailures {
		return failures
	}
	namespaces := make(map[string]string, len(v.Policies))
	for i := range v.Policies {
		namespaces[string(v.Policies[i].UID)] = v.Policies[i].Policy.Namespace
	}
	return turns.Of(failures, mostFailures, func(f *rule.Failure) string { return namespaces[string(f.UID)] })[:mostFailures]
}
