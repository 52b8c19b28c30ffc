package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// Namespaces returns the namespaces of objects that are audited, sorted. Cluster-scoped objects, and
// kinds that cannot be read, are in the namespace "".
func (s *Store) Namespaces() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, k := range s.kinds {
		for name := range k.partitions {
			all[name] = true
		}
		if k.plan != nil && (k.reading.err != nil || len(k.unjudged) > 0) {
			all[""] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Kinds returns the states of all kinds that policies in force select and that are known, sorted.
func (s *Store) Kinds() []result.KindState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []result.KindState
	for _, k := range s.kinds {
		if k.plan != nil {
			all = append(all, k.state())
		}
	}
	return all
}

// Namespace returns the results about the objects of a namespace that are not passes, by kind, name
// and policy, and the counts of all. Of more results than are listed for a namespace, one says how many
// are not.
func (s *Store) Namespace(name string) ([]result.Result, result.Counts) {
	l := listing{namespace: name, most: s.options.Results, counts: result.Counts{}}
	s.mu.Lock()
	kinds := slices.Clone(s.kinds)
	s.mu.Unlock()
	for _, k := range kinds {
		l.add(k.snapshot(name))
	}
	if l.more > 0 {
		l.results = append(l.results, l.truncated())
		l.counts.Add(usher.PolicyRef{}, result.Summary{Error: 1})
	}
	return l.results, l.counts
}

// A snapshot is the assessments of the objects of a kind in a namespace at one time.
type snapshot struct {
	kind    result.Kind
	view    *view
	objects []assessed
	omitted int
	// unjudged are the rules that do not judge the kind, and err is why it cannot be read: both are
	// results of the cluster.
	unjudged []judge.Unjudged
	err      error
}

// An assessed is an object with its assessment.
type assessed struct {
	name       string
	uid        types.UID
	assessment *assessment
}

func (k *Kind) snapshot(namespace string) snapshot {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	s := snapshot{kind: k.of, view: k.policies.view}
	if namespace == "" && k.plan != nil {
		s.err, s.unjudged = k.reading.err, k.unjudged
	}
	part := k.partitions[namespace]
	if part == nil {
		return s
	}
	s.omitted = len(part.omitted)
	s.objects = make([]assessed, 0, len(part.objects))
	for name, o := range part.objects {
		at := types.NamespacedName{Namespace: namespace, Name: name}
		if shown := o.projection.shown(at); shown != nil {
			s.objects = append(s.objects, assessed{name, k.uids.of(at, o), shown})
		}
	}
	return s
}

// A listing is the results of a namespace.
type listing struct {
	namespace string
	most      int
	results   []result.Result
	counts    result.Counts
	// more counts the results that are not listed.
	more int
}

// add adds the results of the objects of a kind.
func (l *listing) add(s snapshot) {
	slices.SortFunc(s.objects, func(a, b assessed) int { return cmp.Compare(a.name, b.name) })
	tallies := map[*tally]int{}
	for i := range s.objects {
		o := &s.objects[i]
		tallies[o.assessment.tally]++
		l.addObject(&s, o)
	}
	for t, n := range tallies {
		for _, c := range t.counts {
			if policy, known := s.view.refs[c.policy]; known {
				l.counts.Add(policy, result.Summary{Pass: n * int(c.pass), Skip: n * int(c.skip)})
			}
		}
	}
	if s.omitted > 0 {
		l.put(omission(s, l.namespace))
		l.counts.Add(usher.PolicyRef{}, result.Summary{Error: s.omitted})
	}
	for _, u := range s.unjudged {
		// The objects are counted where they are.
		l.put(result.Result{Object: objectOf(s.kind, "", "", ""), Policy: u.Policy, Rule: u.Rule, Status: result.Skip, Message: u.Reason})
	}
	if s.err != nil {
		for _, ref := range s.view.ordered {
			l.put(unreadable(s, ref))
			l.counts.Add(ref, result.Summary{Error: 1})
		}
	}
}

func (l *listing) addObject(s *snapshot, o *assessed) {
	var all []policyResults
	for _, r := range o.assessment.results {
		if _, known := s.view.refs[r.policy]; known {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b policyResults) int { return cmp.Compare(s.view.ranks[a.policy], s.view.ranks[b.policy]) })
	object := objectOf(s.kind, l.namespace, o.name, o.uid)
	for _, r := range all {
		policy := s.view.refs[r.policy]
		l.counts.Add(policy, r.set.counts)
		for i := range r.set.results {
			l.put(r.set.results[i].result(object, policy))
		}
		if hidden := r.set.hidden(); hidden > 0 {
			l.put(result.Result{
				Object: object, Policy: policy, Status: result.Error,
				Message: fmt.Sprintf("%d more results of this policy about this object are counted, but not listed", hidden),
			})
		}
	}
}

func (l *listing) put(r result.Result) {
	if len(l.results) >= l.most {
		l.more++
		return
	}
	l.results = append(l.results, r)
}

// truncated is the result about results that are not listed.
func (l *listing) truncated() result.Result {
	r := result.Result{
		Object: result.Identity{APIVersion: "v1", Kind: "Namespace", Name: l.namespace}, Status: result.Error,
		Message: fmt.Sprintf("%d more results of namespace %s are counted, but not listed: at most %d are", l.more, l.namespace, l.most),
	}
	if l.namespace == "" {
		r.Object = result.Identity{}
		r.Message = fmt.Sprintf("%d more results of cluster-scoped objects are counted, but not listed: at most %d are", l.more, l.most)
	}
	return r
}

func omission(s snapshot, namespace string) result.Result {
	where := "namespace " + namespace
	if namespace == "" {
		where = "the cluster"
	}
	return result.Result{
		Object: objectOf(s.kind, namespace, "", ""), Status: result.Error,
		Message: fmt.Sprintf("%d %s of %s are not audited: the memory of the audit does not suffice, and %s takes most of it",
			s.omitted, s.kind.Resource.GroupResource(), where, where),
	}
}

func unreadable(s snapshot, ref usher.PolicyRef) result.Result {
	return result.Result{
		Object: objectOf(s.kind, "", "", ""), Policy: ref, Status: result.Error,
		Message: clip(fmt.Sprintf("%s cannot be read: %s", s.kind.Resource.GroupResource(), s.err), maxMessage),
	}
}

func objectOf(k result.Kind, namespace, name string, uid types.UID) result.Identity {
	return result.Identity{APIVersion: k.Resource.GroupVersion().String(), Kind: k.Kind, Namespace: namespace, Name: name, UID: uid}
}

// summary counts what passes and what is skipped.
func (t *tally) summary(v *view) result.Summary {
	var s result.Summary
	for _, c := range t.counts {
		if _, known := v.refs[c.policy]; known {
			s.Pass += int(c.pass)
			s.Skip += int(c.skip)
		}
	}
	return s
}

// summary counts all results; tallies has those that were counted before.
func (a *assessment) summary(v *view, tallies map[*tally]result.Summary) result.Summary {
	counts, known := tallies[a.tally]
	if !known {
		counts = a.tally.summary(v)
		tallies[a.tally] = counts
	}
	for _, r := range a.results {
		if _, known := v.refs[r.policy]; known {
			counts.Merge(r.set.counts)
		}
	}
	return counts
}

// Stats are figures of a [Store], for metrics.
type Stats struct {
	// Results counts the results about all objects that are kept; those that are omitted are errors.
	Results result.Summary
	// Evaluations counts how often a projection was judged.
	Evaluations uint64
	// Used is the memory of what is kept, in bytes, and Limit how much it may be.
	Used, Limit int64
}

const (
	// manyKept is from how many projections on the results are not counted each time that somebody asks, and
	// countEvery how long that takes effect, for each projection: twenty times as long as counting takes the lock
	// from what judges.
	manyKept   = 10_000
	countEvery = 3 * time.Microsecond
)

// counted is what all results came to when they were counted last, which is good enough until some time.
type counted struct {
	results result.Summary
	until   time.Time
}

// Stats returns the figures so far. To count the results it goes through all that is kept, and builds no lists;
// if there are many, they may be some time old.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, c := time.Now(), &s.counted; !now.Before(c.until) {
		*c = counted{results: s.count()}
		kept := 0
		for _, k := range s.kinds {
			kept += len(k.all)
		}
		if kept >= manyKept {
			c.until = now.Add(time.Duration(kept) * countEvery)
		}
	}
	return Stats{Results: s.counted.results, Evaluations: s.evaluations, Used: s.memory.used, Limit: s.memory.limit}
}

// count counts the results about all objects.
func (s *Store) count() result.Summary {
	var all result.Summary
	for _, k := range s.kinds {
		tallies := map[*tally]result.Summary{}
		all.Error += k.omitted
		if k.plan != nil && k.reading.err != nil {
			all.Error += len(k.policies.view.refs)
		}
		for _, p := range k.all {
			if p.assessment == nil {
				for _, shown := range p.previous {
					all.Merge(shown.summary(k.policies.view, tallies))
				}
				continue
			}
			all.Merge(times(p.assessment.summary(k.policies.view, tallies), int(p.refs)))
		}
	}
	return all
}

func times(s result.Summary, n int) result.Summary {
	return result.Summary{Pass: n * s.Pass, Fail: n * s.Fail, Warn: n * s.Warn, Error: n * s.Error, Skip: n * s.Skip}
}
