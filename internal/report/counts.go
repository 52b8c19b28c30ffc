package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// EvaluatedAnnotation holds what a replica has counted of candidates since it started, as a JSON list.
	EvaluatedAnnotation = "usher.dev/evaluated"

	// mostEvaluated limits the candidates of a replica; more are not evaluated.
	mostEvaluated = 256
	// The counts of a candidate are written with its other changes, and at most once in countsEvery.
	countsEvery = time.Minute
)

// An evaluated is what one replica has counted of a version of a candidate.
type evaluated struct {
	UID types.UID `json:"uid"`
	// Of identifies the versions that are compared.
	Of    string  `json:"of"`
	Since int64   `json:"t"`
	N     []int64 `json:"n"`
}

// versionOf identifies the versions of a candidate and of the policies that it is compared with.
func versionOf(s *rule.CandidateState) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %v", s.Generation, s.Compared))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

func evaluatedOf(states []rule.CandidateState) []evaluated {
	var all []evaluated
	for i := range states {
		s := &states[i]
		if s.UID == "" || s.NotEffective != "" || len(all) == mostEvaluated {
			continue
		}
		e := evaluated{UID: s.UID, Of: versionOf(s), Since: s.Since.Unix()}
		for _, n := range s.Counts.List() {
			e.N = append(e.N, *n)
		}
		all = append(all, e)
	}
	return all
}

// publishedCounts returns the annotation of a replica's Lease; empty if it evaluates nothing.
func publishedCounts(states []rule.CandidateState) string {
	all := evaluatedOf(states)
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(text)
}

// parseCounts parses the result of publishedCounts. It ignores the formats of other versions.
func parseCounts(text string) []evaluated {
	var all []evaluated
	if text == "" || json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	all = all[:min(len(all), mostEvaluated)]
	return slices.DeleteFunc(all, func(e evaluated) bool {
		return e.UID == "" || len(e.N) != len(new(rule.CandidateCounts).List()) || slices.ContainsFunc(e.N, func(n int64) bool { return n < 0 || n > mostCounted })
	})
}

func (e *evaluated) counts() rule.CandidateCounts {
	var counts rule.CandidateCounts
	for i, n := range counts.List() {
		*n = e.N[i]
	}
	return counts
}

// counts sums up what replicas have counted of candidates, in one term of a leader. Replicas count from
// their start, and a status has the sum of all, also of those that have ended.
type counts map[types.UID]*counting

// A counting is that of one version of a candidate.
type counting struct {
	of string
	// base is what the status has besides what the replicas say; it is not known before the first time.
	base  rule.CandidateCounts
	begun bool
	since time.Time
	// by are the numbers of processes, by replica and start. earlier has those of processes that have begun again.
	by      map[string]period
	earlier rule.CandidateCounts
	// written is when numbers were last written.
	written time.Time
}

// A period is what one process has counted since it has begun.
type period struct {
	since  int64
	counts rule.CandidateCounts
}

// candidates returns those that this replica evaluates.
func (r *Reporter) candidates() []rule.CandidateState {
	if r.options.Candidates == nil {
		return nil
	}
	return r.options.Candidates()
}

// countCandidates reads what the replicas have counted.
func (l *leader) countCandidates() {
	states := l.candidates()
	l.evaluating = make(map[types.UID]*rule.CandidateState, len(states))
	for i := range states {
		s := &states[i]
		if s.UID == "" {
			continue
		}
		l.evaluating[s.UID] = s
		if c := l.counts[s.UID]; c == nil || c.of != versionOf(s) {
			l.counts[s.UID] = &counting{of: versionOf(s), since: s.Since, by: map[string]period{}}
		}
	}
	maps.DeleteFunc(l.counts, func(uid types.UID, _ *counting) bool { return l.evaluating[uid] == nil })
	l.counts.add("", l.replicas.Started, evaluatedOf(states))
	for i := range l.others {
		l.counts.add(l.others[i].Identity, l.others[i].Started, l.others[i].evaluated)
	}
}

func (all counts) add(replica string, started time.Time, counted []evaluated) {
	for i := range counted {
		e := &counted[i]
		c := all[e.UID]
		if c == nil || c.of != e.Of {
			continue
		}
		process := fmt.Sprint(replica, " ", started.UnixNano())
		if last := c.by[process]; last.since != e.Since {
			c.earlier = c.earlier.Add(last.counts)
		}
		c.by[process] = period{since: e.Since, counts: e.counts()}
		if since := time.Unix(e.Since, 0); since.Before(c.since) {
			c.since = since
		}
	}
}

func (c *counting) sum() rule.CandidateCounts {
	sum := c.base.Add(c.earlier)
	for _, of := range c.by {
		sum = sum.Add(of.counts)
	}
	return sum
}

// apply fills in the numbers of a status, and reports whether they are worth a write of their own. If they
// will be, soon is in how long.
func (all counts) apply(known, next *status, x *rule.CandidateState, uid types.UID, now time.Time) (due bool, soon time.Duration) {
	c, to, last := all[uid], next.Candidate, known.Candidate
	if c == nil || x == nil {
		return false, idleEvery
	}
	to.Compared = comparedWith(x)
	continued := last != nil && last.Since != nil && known.ObservedGeneration == x.Generation && slices.Equal(last.Compared, to.Compared) && !last.Since.After(now)
	if continued {
		to.Restarted = last.Restarted
	} else if last != nil && last.Since != nil {
		to.Restarted = restarted(known, x, to.Compared)
	}
	if !c.begun {
		c.begun = true
		if continued {
			c.base = rule.CandidateCounts(last.CandidateCounts).Less(c.sum())
			if last.Since.Time.Before(c.since) {
				c.since = last.Since.Time
			}
		}
	}
	to.CandidateCounts = usherv1alpha1.CandidateCounts(c.sum())
	since := metav1.NewTime(c.since)
	to.Since = &since
	counted := metav1.NewTime(now)
	to.CountedAt = &counted
	switch {
	case !continued:
		return true, 0
	case last.CandidateCounts == to.CandidateCounts:
		if last.CountedAt != nil {
			to.CountedAt = last.CountedAt
		}
		return false, idleEvery
	}
	soon = countsEvery - now.Sub(c.written)
	return soon <= 0, max(soon, 0)
}

// restarted returns why a candidate is counted again that was compared with other versions, as far as its status tells.
func restarted(known *status, x *rule.CandidateState, with []usherv1alpha1.ComparedPolicy) string {
	if known.ObservedGeneration != x.Generation {
		return "the candidate was changed"
	}
	var all []string
	versions := map[usherv1alpha1.CandidateRef]usherv1alpha1.ComparedPolicy{}
	for _, v := range known.Candidate.Compared {
		versions[v.CandidateRef] = v
	}
	for _, v := range with {
		switch was, ok := versions[v.CandidateRef]; {
		case !ok:
			all = append(all, named(v)+" came into force")
		case was != v:
			all = append(all, named(v)+" was changed")
		}
		delete(versions, v.CandidateRef)
	}
	for _, v := range known.Candidate.Compared {
		if _, ok := versions[v.CandidateRef]; ok {
			all = append(all, named(v)+" is no longer in force")
		}
	}
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", more))
	}
	return short(strings.Join(all, ", "))
}

// written records that the status of a candidate was written.
func (all counts) written(uid types.UID, s *status, now time.Time) {
	if c := all[uid]; c != nil && s.Candidate != nil && s.Candidate.CandidateCounts != (usherv1alpha1.CandidateCounts{}) {
		c.written = now
	}
}

// named names a policy that a candidate is compared with.
func named(v usherv1alpha1.ComparedPolicy) string {
	return usher.PolicyRef{Kind: v.Kind, Namespace: v.Namespace, Name: v.Name}.String()
}

func comparedWith(x *rule.CandidateState) []usherv1alpha1.ComparedPolicy {
	// API servers limit what an object may take.
	const most = 64
	var all []usherv1alpha1.ComparedPolicy
	for _, v := range x.Compared[:min(len(x.Compared), most)] {
		ref := usherv1alpha1.CandidateRef{Kind: v.Policy.Kind, Namespace: v.Policy.Namespace, Name: v.Policy.Name}
		all = append(all, usherv1alpha1.ComparedPolicy{CandidateRef: ref, UID: v.UID, Generation: v.Generation})
	}
	return all
}

// firstSeen reports whether this replica has evaluated a candidate whose status says that none was seen.
func (l *leader) firstSeen() bool {
	return slices.ContainsFunc(l.candidates(), func(s rule.CandidateState) bool {
		c, known := l.counts[s.UID], l.known[s.UID]
		return s.Counts.Seen > 0 && c != nil && c.begun && c.written.IsZero() && known.Candidate != nil && known.Candidate.Seen == 0
	})
}
