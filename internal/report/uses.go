package report

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/turns"
)

const (
	// ExemptedAnnotation holds how often a replica has used exemptions since it started, as a JSON
	// list.
	ExemptedAnnotation = "usher.dev/exempted"

	// A replica publishes at most mostUses exemptions, those that were used last; namespaces take turns.
	mostUses = 200
	// The uses of an exemption are written with its other changes, and at most once in usesEvery.
	usesEvery = 5 * time.Minute
	// mostCounted limits the number in a status, which others may have written.
	mostCounted = 1 << 53
)

// A use is how often one replica has used an exemption since it started, and when it last did.
type use struct {
	UID  types.UID `json:"uid"`
	Uses int64     `json:"n"`
	Last int64     `json:"t"`
}

// exemptions returns the exemptions in force at this replica.
func (r *Reporter) exemptions() []rule.ExemptionState {
	if r.options.Exemptions == nil {
		return nil
	}
	return r.options.Exemptions()
}

// usesOf returns the exemptions that were used, those that were used last first.
func usesOf(states []rule.ExemptionState) []use {
	var all []use
	for i := range states {
		if s := &states[i]; s.UID != "" && s.Uses > 0 {
			all = append(all, use{UID: s.UID, Uses: s.Uses, Last: s.LastUsed.Unix()})
		}
	}
	slices.SortFunc(all, func(a, b use) int { return cmp.Or(-cmp.Compare(a.Last, b.Last), cmp.Compare(a.UID, b.UID)) })
	return all
}

// publishedUses returns the annotation of a replica's Lease; empty if no exemption was used.
func publishedUses(states []rule.ExemptionState) string {
	all := usesOf(states)
	if len(all) == 0 {
		return ""
	}
	if len(all) > mostUses {
		namespaces := make(map[types.UID]string, len(states))
		for i := range states {
			namespaces[states[i].UID] = states[i].Ref.Namespace
		}
		all = turns.Of(all, mostUses, func(u *use) string { return namespaces[u.UID] })[:mostUses]
	}
	text, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(text)
}

// parseUses parses the result of publishedUses. It ignores the formats of other versions.
func parseUses(text string) []use {
	var all []use
	if text == "" || json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	all = all[:min(len(all), mostUses)]
	return slices.DeleteFunc(all, func(u use) bool { return u.UID == "" || u.Uses <= 0 || u.Uses > mostCounted })
}

// uses sums up the uses of exemptions over the replicas, in one term of a leader.
//
// Replicas count from their start, and a status has the sum. What replicas counted before the term
// is in the status already, except for the last minutes: these uses are not counted.
type uses struct {
	// begun says that the replicas that were there when the term began are known.
	begun bool
	// counted are the numbers that are accounted for, by replica.
	counted map[string]*counter
	// sums are what statuses do not have yet.
	sums map[types.UID]*sum
}

// A counter has the numbers of one process.
type counter struct {
	started time.Time
	uses    map[types.UID]int64
	// before says that the process was there when the term began.
	before bool
}

// A sum is the uses of one exemption that its status does not have yet, the time of the last one,
// and when the status was written.
type sum struct {
	uses    int64
	last    time.Time
	written time.Time
}

func newUses() uses {
	return uses{counted: map[string]*counter{}, sums: map[types.UID]*sum{}}
}

// countUses adds what the replicas have counted since it was last called.
func (l *leader) countUses(now time.Time) {
	states := l.exemptions()
	l.exempting = make(map[types.UID]*rule.ExemptionState, len(states))
	for i := range states {
		l.exempting[states[i].UID] = &states[i]
	}
	l.uses.add("", l.replicas.Started, usesOf(states), now)
	present := map[string]bool{"": true}
	for i := range l.others {
		r := &l.others[i]
		present[r.Identity] = true
		l.uses.add(r.Identity, r.Started, r.exempted, now)
	}
	l.uses.begun = true
	maps.DeleteFunc(l.uses.counted, func(name string, _ *counter) bool { return !present[name] })
	maps.DeleteFunc(l.uses.sums, func(uid types.UID, _ *sum) bool { _, ok := l.seen[uid]; return !ok })
}

// firstUsed reports whether this replica has used an exemption whose status says that none was used.
func (l *leader) firstUsed(now time.Time) bool {
	states := l.exemptions()
	return slices.ContainsFunc(states, func(s rule.ExemptionState) bool {
		known, ok := l.known[s.UID]
		if sum := l.uses.sums[s.UID]; sum != nil && !sum.written.IsZero() {
			return false
		}
		return s.Uses > 0 && ok && known.LastUsed == nil && l.writable(&rule.State{Policy: s.Ref, UID: s.UID}, now)
	})
}

func (u *uses) add(replica string, started time.Time, all []use, now time.Time) {
	c := u.counted[replica]
	if c == nil || !c.started.Equal(started) {
		c = &counter{started: started, uses: map[types.UID]int64{}, before: !u.begun}
		u.counted[replica] = c
	}
	for _, one := range all {
		s := u.sums[one.UID]
		if s == nil {
			s = &sum{}
			u.sums[one.UID] = s
		}
		known, seen := c.uses[one.UID]
		c.uses[one.UID] = one.Uses
		if !c.before || seen || u.begun {
			s.uses += max(one.Uses-known, 0)
		}
		// Clocks of two machines differ: no use is in the future.
		if last := time.Unix(min(one.Last, now.Unix()), 0); last.After(s.last) {
			s.last = last
		}
	}
}

// written records that the status of an exemption has been written.
func (u *uses) written(uid types.UID, now time.Time) {
	if s := u.sums[uid]; s != nil {
		s.uses, s.written = 0, now
	}
}

// apply adds the uses of an exemption to its status, and reports whether they are worth a write of
// their own.
func (u *uses) apply(to *status, uid types.UID, now time.Time) (due bool) {
	to.Uses = min(max(to.Uses, 0), mostCounted)
	if to.LastUsed != nil && to.LastUsed.After(now) {
		to.LastUsed = nil
	}
	s := u.sums[uid]
	if s == nil {
		return false
	}
	if to.LastUsed == nil && to.Uses == 0 && s.uses == 0 && !s.last.IsZero() {
		// It was used before the term, and nobody has written that.
		for _, c := range u.counted {
			s.uses += c.uses[uid]
		}
	}
	newer := to.LastUsed == nil && !s.last.IsZero() || to.LastUsed != nil && s.last.After(to.LastUsed.Time)
	if s.uses == 0 && !newer {
		return false
	}
	to.Uses = min(to.Uses+s.uses, mostCounted)
	if newer {
		last := metav1.NewTime(s.last)
		to.LastUsed = &last
	}
	return now.Sub(s.written) >= usesEvery
}
