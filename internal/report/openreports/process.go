package openreports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/usher-dev/usher/internal/audit/result"
)

// process makes the reports of a namespace what its results are. Its error is one that other
// namespaces would cause, too; then the namespace stays due.
func (t *term) process(ctx context.Context, s *space) error {
	if s.unsure {
		if err := t.reload(ctx, s); err != nil {
			return err
		}
	}
	started := time.Now()
	wanted := t.plan(s, started)
	s.gap = max(gap, readShare*time.Since(started))
	s.due = time.Time{}
	err := t.write(ctx, s, wanted)
	if err == nil {
		if s.blocked != nil {
			t.options.Log.Info("reports of a namespace are written again", "namespace", s.name)
		}
		s.tries, s.blocked = 0, nil
		return nil
	}
	t.update(func(status *Status) { status.Errors++ })
	now := time.Now()
	meaning, reason := classify(err)
	if errors.Is(err, ErrNotInstalled) {
		return err
	}
	if meaning == outage {
		// Nobody knows whether the API server did what it did not respond to.
		s.unsure = true
		s.schedule(now)
		return fmt.Errorf("write reports: %w", err)
	}
	t.block(s, meaning, reason, now)
	return nil
}

// block schedules the next attempt after the API server rejected a report.
func (t *term) block(s *space, meaning failure, reason error, now time.Time) {
	delay := refusedFirst
	if meaning != refusal {
		s.unsure = meaning == surprise
		delay = coalesce
	}
	for range min(s.tries, 10) {
		delay = min(2*delay, refusedAtMost)
	}
	s.tries++
	s.schedule(now.Add(wait.Jitter(delay, 0.1)))
	// A conflict is no news, unless it goes on; and nobody misses the reports of a namespace that is
	// being deleted.
	if meaning != refusal && s.tries < surprises || errors.Is(reason, errDeleting) {
		return
	}
	if s.blocked == nil || s.blocked.Error() != reason.Error() {
		t.options.Log.Warn("reports of a namespace are not written", "namespace", s.name, "error", reason)
	}
	s.blocked = reason
}

// reload reads the reports of a namespace.
func (t *term) reload(ctx context.Context, s *space) error {
	var reports []*Report
	if err := t.client.reportsIn(ctx, s.name, func(r *Report) { reports = append(reports, r) }); err != nil {
		return err
	}
	s.forget()
	s.load(reports)
	return nil
}

// plan reads the results of a namespace, places them, and returns those that the audit has.
func (t *term) plan(s *space, now time.Time) map[key]*Result {
	results, byPolicy := t.reader.Namespace(s.name)
	counts := byPolicy.Total()
	_, want := choose(results, 0)
	kept := s.kept(t.open)
	if len(kept) > 0 {
		all, _ := choose(results, want)
		for k := range renderAll(all) {
			delete(kept, k)
		}
	}
	if want += len(kept); want != s.want {
		s.want = want
		t.divide(now)
	}
	chosen, _ := choose(results, s.share)
	wanted := renderAll(chosen)
	for k := range kept {
		counts.Add(s.results[k].status, 1)
	}
	for _, k := range slices.SortedFunc(maps.Keys(kept), compareKeys) {
		if len(wanted)+len(kept) > s.share {
			delete(kept, k)
		}
	}
	s.counts, s.omitted = counts, want-len(wanted)-len(kept)
	s.place(wanted, kept, now)
	return wanted
}

func renderAll(results []*result.Result) map[key]*Result {
	seen, rendered := keys{}, make(map[key]*Result, len(results))
	for _, r := range results {
		form := render(r)
		rendered[seen.of(form)] = &form
	}
	return rendered
}

// kept returns the results about objects of some kinds that only reports have.
func (s *space) kept(kinds map[schema.GroupKind]bool) map[key]bool {
	kept := map[key]bool{}
	for k, p := range s.results {
		if p.kept && p.slice != 0 && kinds[p.kind] {
			kept[k] = true
		}
	}
	return kept
}

// write writes the reports of a namespace that are not what they are to be.
func (t *term) write(ctx context.Context, s *space, wanted map[key]*Result) error {
	changed, empty, onlyCounts := s.changes()
	if onlyCounts && time.Since(s.wrote) < countsGap {
		s.schedule(s.wrote.Add(countsGap))
		return nil
	}
	for began, at := time.Now(), 0; at < len(changed); at++ {
		if time.Since(began) > turn && t.othersDue(s) {
			s.schedule(time.Now().Add(s.gap))
			return nil
		}
		n := changed[at]
		if err := t.limiter.Wait(ctx); err != nil {
			return err
		}
		if err := t.put(ctx, s, n, wanted); err != nil {
			return err
		}
	}
	for _, n := range empty {
		if err := t.remove(ctx, s, n); err != nil {
			return err
		}
	}
	return nil
}

// othersDue reports whether the reports of another namespace are due.
func (t *term) othersDue(s *space) bool {
	now := time.Now()
	t.notice(now)
	for _, other := range t.spaces {
		if other != s && !other.due.IsZero() && !other.due.After(now) {
			return true
		}
	}
	return false
}

// changes returns the slices to write, beginning after the last one that was written, and those to delete, and
// whether nothing but counts changed.
func (s *space) changes() (changed, empty []int, onlyCounts bool) {
	first, fill := s.first(), s.fill()
	nothing := s.counts == (result.Summary{}) && len(s.results) == 0
	onlyCounts = true
	for _, n := range slices.Sorted(maps.Keys(s.slices)) {
		known := s.slices[n]
		if fill[n] == 0 && (n != first || nothing) {
			empty = append(empty, n)
			continue
		}
		same := known.stored.ResourceVersion != "" && known.results == s.digest(n)
		if same && known.head == headOf(s.head(n)) {
			continue
		}
		changed = append(changed, n)
		onlyCounts = onlyCounts && same
	}
	after, _ := slices.BinarySearch(changed, s.last+1)
	changed = slices.Concat(changed[after:], changed[:after])
	return changed, empty, onlyCounts && len(changed) > 0 && len(empty) == 0
}

// put writes a slice.
func (t *term) put(ctx context.Context, s *space, n int, wanted map[key]*Result) error {
	r := s.head(n)
	head := headOf(r)
	var stored map[key]*Result
	for _, k := range s.in(n) {
		content := wanted[k]
		if content == nil && stored == nil {
			var err error
			if stored, err = t.stored(ctx, s, n); err != nil {
				return err
			}
		}
		if content == nil {
			content = stored[k]
		}
		if content == nil {
			return errChanged
		}
		content.Timestamp = Timestamp{Seconds: s.results[k].since}
		r.Results = append(r.Results, *content)
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int { return compareResults(&a, &b) })
	meta, err := t.client.put(ctx, r)
	if apierrors.IsAlreadyExists(err) {
		return t.meet(ctx, s, n)
	}
	if err != nil {
		return err
	}
	s.slices[n] = &slice{
		stored:  metav1.ObjectMeta{Namespace: s.name, Name: r.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion},
		results: s.digest(n), head: head,
	}
	s.last, s.wrote, t.wrote = n, time.Now(), true
	t.update(func(status *Status) { status.Written++ })
	return nil
}

// stored reads the results of a slice, of which only the report has some.
func (t *term) stored(ctx context.Context, s *space, n int) (map[key]*Result, error) {
	r, err := t.client.get(ctx, s.name, n)
	if err != nil {
		return nil, err
	}
	if r.ResourceVersion != s.slices[n].stored.ResourceVersion {
		return nil, errChanged
	}
	seen, results := keys{}, map[key]*Result{}
	for i := range r.Results {
		results[seen.of(r.Results[i])] = &r.Results[i]
	}
	return results, nil
}

// meet finds out whose the report is that has the name of a slice.
func (t *term) meet(ctx context.Context, s *space, n int) error {
	r, err := t.client.get(ctx, s.name, n)
	if err != nil {
		return err
	}
	if _, ours := number(&r.ObjectMeta); ours {
		return errChanged
	}
	t.options.Log.Warn("a report has the name of one of Usher's, and is left alone", "namespace", s.name, "report", r.Name)
	if s.taken[n] = true; len(s.taken) > maxTaken {
		return errCrowded
	}
	delete(s.slices, n)
	for _, p := range s.results {
		if p.slice == n {
			p.slice = 0
		}
	}
	return errTaken
}

// remove deletes a slice without results.
func (t *term) remove(ctx context.Context, s *space, n int) error {
	if known := s.slices[n]; known.stored.ResourceVersion != "" {
		if err := t.limiter.Wait(ctx); err != nil {
			return err
		}
		if err := t.client.remove(ctx, &known.stored); err != nil {
			return err
		}
		s.wrote, t.wrote = time.Now(), true
		t.update(func(status *Status) { status.Deleted++ })
	}
	delete(s.slices, n)
	return nil
}
