package openreports

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/deadline"
)

// A term is what a writer knows from the time when it has read the reports.
type term struct {
	*Writer
	reader  result.Reader
	limiter flowcontrol.RateLimiter

	spaces map[string]*space
	// settled are the kinds of which the audit has judged all objects since this replica leads,
	// and open are those of which it has not.
	settled, open map[schema.GroupKind]bool
	version       uint64
	// check is when to look whether others changed reports.
	check time.Time
	wrote bool
	// omitted is what was logged last.
	omitted int
}

func newTerm(w *Writer, reader result.Reader) *term {
	return &term{
		Writer: w, reader: reader, limiter: flowcontrol.NewTokenBucketRateLimiter(float32(w.options.WritesPerSecond), w.options.WritesPerSecond),
		spaces: map[string]*space{}, settled: map[schema.GroupKind]bool{}, open: map[schema.GroupKind]bool{},
	}
}

// run reads the reports, and keeps them what the reader says until ctx is done or the API is gone.
func (t *term) run(ctx context.Context) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	t.failed(nil)
	t.settle(ctx)
	now := time.Now()
	changed, version, _ := t.reader.Changes(0)
	t.version = version
	for _, name := range slices.Concat(changed, t.reader.Namespaces()) {
		t.space(name)
	}
	for _, s := range t.spaces {
		results, _ := t.reader.Namespace(s.name)
		_, s.want = choose(results, 0)
		s.schedule(now)
	}
	t.divide(now)
	t.check = now.Add(wait.Jitter(checkEvery, 0.2))
	delay := retryFirst
	for ctx.Err() == nil {
		next := t.notice(time.Now())
		err := t.round(ctx)
		t.publish()
		if errors.Is(err, ErrNotInstalled) {
			return err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The end of ctx is why the round failed.
		}
		t.failed(err)
		if err != nil {
			deadline.Sleep(ctx, delay)
			delay = min(2*delay, retryAtMost)
			continue
		}
		delay = retryFirst
		t.await(ctx, next)
	}
	return nil
}

// load reads the reports in the cluster.
func (t *term) load(ctx context.Context) error {
	reports := map[string][]*Report{}
	err := t.client.reports(ctx, func(r *Report) {
		reports[r.Namespace] = append(reports[r.Namespace], r)
	})
	if err != nil {
		return err
	}
	for name, all := range reports {
		t.space(name).load(all)
	}
	return nil
}

func (t *term) space(name string) *space {
	s := t.spaces[name]
	if s == nil {
		s = newSpace(name)
		t.spaces[name] = s
	}
	return s
}

// settle waits until all kinds are complete or cannot be read.
func (t *term) settle(ctx context.Context) {
	t.update(func(s *Status) { s.Waiting = true })
	defer t.update(func(s *Status) { s.Waiting = false })
	for until := time.Now().Add(settleAtMost); ctx.Err() == nil && time.Now().Before(until); {
		if reading := t.kinds(); !reading {
			return
		}
		deadline.Sleep(ctx, settleEvery)
	}
}

// kinds learns which kinds are complete, and reports whether any is still being read or judged for
// the first time.
func (t *term) kinds() (reading bool) {
	open := map[schema.GroupKind]bool{}
	for _, state := range t.reader.Kinds() {
		kind := schema.GroupKind{Group: state.Kind.Resource.Group, Kind: state.Kind.Kind}
		if state.Complete {
			t.settled[kind] = true
		}
		if !t.settled[kind] {
			open[kind] = true
			reading = reading || state.Err == nil
		}
	}
	t.open = open
	return reading
}

// notice schedules the namespaces that have changed, and returns a channel that is closed at the
// next change.
func (t *term) notice(now time.Time) <-chan struct{} {
	before := t.open
	t.kinds()
	closed := !maps.Equal(before, t.open)
	changed, version, next := t.reader.Changes(t.version)
	t.version = version
	for _, name := range changed {
		s := t.space(name)
		s.schedule(later(now.Add(coalesce), s.wrote.Add(s.gap)))
	}
	for _, s := range t.spaces {
		if closed && s.keeps() {
			s.schedule(now)
		}
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// keeps reports whether there are results that only reports have.
func (s *space) keeps() bool {
	for _, p := range s.results {
		if p.kept {
			return true
		}
	}
	return false
}

// await waits until something is due, or may have changed.
func (t *term) await(ctx context.Context, next <-chan struct{}) {
	now := time.Now()
	rest := min(kindsEvery, t.check.Sub(now))
	for _, s := range t.spaces {
		if !s.due.IsZero() {
			rest = min(rest, s.due.Sub(now))
		}
	}
	timer := time.NewTimer(max(rest, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-next:
		// A burst of changes wakes it once.
		deadline.Sleep(ctx, min(coalesce/4, max(rest, 0)))
	}
}

// round writes what is due. Its error is one that the other namespaces would cause, too.
func (t *term) round(ctx context.Context) error {
	now := time.Now()
	if !now.Before(t.check) {
		if err := t.compare(ctx, now); err != nil {
			return err
		}
		t.check = now.Add(wait.Jitter(checkEvery, 0.2))
	}
	var due []*space
	for _, s := range t.spaces {
		if !s.due.IsZero() && !s.due.After(now) {
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b *space) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.name, b.name)) })
	for _, s := range due {
		if err := t.process(ctx, s); err != nil {
			return err
		}
		if len(s.slices) == 0 && s.due.IsZero() && s.want == 0 {
			delete(t.spaces, s.name)
		}
	}
	return nil
}

// compare finds reports that others have changed, deleted or made.
func (t *term) compare(ctx context.Context, now time.Time) error {
	found := map[string]map[int]string{}
	err := t.client.metadata(ctx, func(m *metav1.PartialObjectMetadata) {
		if n, ok := number(&m.ObjectMeta); ok {
			if found[m.Namespace] == nil {
				found[m.Namespace] = map[int]string{}
			}
			found[m.Namespace][n] = m.ResourceVersion
		}
	})
	if err != nil {
		return err
	}
	for name := range found {
		t.space(name)
	}
	for _, s := range t.spaces {
		known := map[int]string{}
		for n, has := range s.slices {
			if has.stored.ResourceVersion != "" {
				known[n] = has.stored.ResourceVersion
			}
		}
		if !maps.Equal(known, found[s.name]) {
			s.unsure = true
			s.schedule(now)
		}
	}
	return nil
}

// divide shares the limit among the namespaces, and schedules those whose share has changed.
func (t *term) divide(now time.Time) {
	demands := make(map[string]int, len(t.spaces))
	for name, s := range t.spaces {
		demands[name] = s.want
	}
	for name, share := range shares(demands, t.options.Limit) {
		s := t.spaces[name]
		if min(s.share, s.want) != min(share, s.want) {
			s.schedule(later(now.Add(coalesce), s.wrote.Add(s.gap)))
		}
		s.share = share
	}
}

// publish sets the status.
func (t *term) publish() {
	status := Status{}
	for _, s := range t.spaces {
		if s.blocked != nil {
			status.Blocked = append(status.Blocked, Blocked{Namespace: s.name, Err: s.blocked})
		}
		if !s.due.IsZero() {
			status.Pending++
		}
		for _, known := range s.slices {
			if known.stored.ResourceVersion != "" {
				status.Reports++
			}
		}
		for _, p := range s.results {
			if p.slice != 0 {
				status.Results++
			}
		}
		status.Omitted += s.omitted
		status.Foreign += len(s.taken)
	}
	slices.SortFunc(status.Blocked, func(a, b Blocked) int { return cmp.Compare(a.Namespace, b.Namespace) })
	t.update(func(s *Status) {
		s.Blocked, s.Pending, s.Foreign = status.Blocked, status.Pending, status.Foreign
		s.Reports, s.Results, s.Omitted = status.Reports, status.Results, status.Omitted
	})
	switch {
	case status.Omitted > 0 && t.omitted == 0:
		t.options.Log.Warn("results are in no report, because there are too many", "omitted", status.Omitted, "limit", t.options.Limit)
	case status.Omitted == 0 && t.omitted > 0:
		t.options.Log.Info("all results are in reports again")
	}
	t.omitted = status.Omitted
}
