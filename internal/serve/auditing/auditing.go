// Package auditing runs the audit of the objects of a cluster in a server: it reads the kinds that policies
// select while the replica leads, and tells how far the audit has come.
package auditing

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/stream"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/report/openreports"
	"github.com/usher-dev/usher/internal/serve/kinds"
)

// A Config configures the audit of the objects that exist in a cluster. The replica that writes the
// status of policies does it.
type Config struct {
	// Memory limits what is kept of objects and results, in bytes, and CPU the cores that judging
	// takes on average. 0 means the defaults of [audit.Options].
	Memory int64
	CPU    float64
	// Secrets keeps what rules read of the data of Secrets.
	Secrets bool
	// Reports is how many results are written as reports of openreports.io at most; 0 means that none
	// are.
	Reports int
}

// fullReads is how many kinds are read as a whole at once.
const fullReads = 4

// Options are what an [Audit] needs of its server.
type Options struct {
	Client    rest.Interface
	Discovery Discovery
	// Resolver has the facts that are objects of the cluster, which are cached for FactTTL.
	Resolver *clusterfact.Resolver
	FactTTL  time.Duration
	// Unsent is that of [judge.Options].
	Unsent func(*usher.Request) string
	// Leader names the replica that leads; empty if it is not known.
	Leader func() string
	// Did is that of [audit.Options].
	Did func(ctx context.Context, resource string) (context.Context, func(error))
	Log *slog.Logger
}

// A Discovery has the resources of a cluster.
type Discovery interface {
	// Lists returns what was discovered last; nil if nothing was.
	Lists() *kinds.Lists
	Read()
	// Changed tells when there are other Lists.
	Changed() <-chan struct{}
}

// Policies are what an audit judges by.
type Policies struct {
	Facts  fact.Resolver
	Engine engine.Options
	// Compiled returns all policies, and Enforced those in force.
	Compiled, Enforced func() []compile.Compiled
}

// An Audit audits the objects of a cluster while this replica leads. A replica that does not lead
// keeps nothing.
type Audit struct {
	options  Options
	config   Config
	policies Policies
	// reports is nil if no reports are written.
	reports *openreports.Writer
	// changed is signalled when policies change.
	changed chan struct{}
	current atomic.Pointer[audit.Auditor]

	// counting is held while existing objects are counted.
	counting sync.Mutex

	mu sync.Mutex
	// since is when current began.
	since time.Time
}

// New returns an audit, which judges by no policies before [Audit.Begin].
func New(c Config, o Options) *Audit {
	a := &Audit{options: o, config: c, changed: make(chan struct{}, 1)}
	if c.Reports > 0 {
		a.reports = openreports.New(o.Client, openreports.Options{Limit: c.Reports, Log: o.Log})
	}
	return a
}

// Begin connects the audit with the policies, before anything runs.
func (a *Audit) Begin(p Policies) { a.policies = p }

// PoliciesChanged has the audit judge by the policies as they are now.
func (a *Audit) PoliciesChanged() { signal(a.changed) }

// signal wakes the receiver of c, which need not be there yet.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reader returns the results of the audit; nil if this replica does not lead.
func (a *Audit) reader() result.Reader {
	if a == nil {
		return nil
	}
	if current := a.current.Load(); current != nil {
		return current
	}
	return nil
}

// Lead audits until ctx is done.
func (a *Audit) Lead(ctx context.Context) {
	t := &term{Audit: a, slots: make(chan struct{}, fullReads), streams: map[result.Kind]*reading{}, unreadable: map[result.Kind]bool{}, wake: make(chan struct{}, 1), missing: make(chan struct{}, 1)}
	changes := newFactChanges(a.options.FactTTL+a.options.FactTTL/4, func(of schema.GroupVersionKind, namespace, name string) {
		t.auditor.FactChanged(of, namespace, name)
	})
	t.auditor = audit.New(audit.Options{
		Judge:  judge.Options{Facts: newAwaited(a.policies.Facts, a.options.Resolver), Engine: a.policies.Engine, Unsent: a.options.Unsent},
		Memory: a.config.Memory, CPU: a.config.CPU, Secrets: a.config.Secrets, Reread: t.reread, Did: a.options.Did, Log: a.options.Log,
	})
	t.auditor.Enforce(compile.Order(compile.OnPods(a.policies.Compiled())))
	a.publish(t.auditor)
	defer a.publish(nil)
	a.options.Log.Info("this replica audits the objects of the cluster")
	defer t.running.Wait()
	t.running.Go(func() { t.auditor.Run(ctx) })
	t.running.Go(func() { a.options.Resolver.Follow(ctx, changes.add) })
	t.running.Go(func() { changes.run(ctx, a.options.Resolver) })
	t.running.Go(func() { t.rediscover(ctx) })
	for {
		t.follow(ctx)
		t.report(ctx)
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
			t.auditor.Enforce(compile.Order(compile.OnPods(a.policies.Compiled())))
		case <-a.options.Discovery.Changed():
		case <-t.wake:
		}
	}
}

// publish has others see the results of an auditor from now on; nil means none.
func (a *Audit) publish(auditor *audit.Auditor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current.Store(auditor)
	a.since = time.Now()
}

// A term is the audit while this replica leads.
type term struct {
	*Audit
	// reporting says that reports are written.
	reporting bool
	auditor   *audit.Auditor
	slots     chan struct{}
	running   sync.WaitGroup
	// streams are only used by Lead.
	streams map[result.Kind]*reading
	// versions are those of resources that have several; only used by Lead.
	versions judge.Versions
	// unreadable are the kinds that the API server offers no stream for; only used by Lead.
	unreadable map[result.Kind]bool
	wake       chan struct{}
	// missing is signalled when a kind was not found.
	missing chan struct{}

	mu sync.Mutex
	// again are the kinds that are to be read once more.
	again []result.Kind
}

// A reading is a stream that runs.
type reading struct {
	*stream.Stream
	metadataOnly bool
	stop         context.CancelFunc
	ended        chan struct{}
}

// reread has a kind read once more.
func (t *term) reread(k result.Kind) {
	t.mu.Lock()
	t.again = append(t.again, k)
	t.mu.Unlock()
	signal(t.wake)
}

func (t *term) takeAgain() []result.Kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := t.again
	t.again = nil
	return again
}

// follow starts and ends streams, so that there is one for each kind that policies select. Kinds
// stay until discovery is certain that they are gone. Kinds without a stream are errors.
func (t *term) follow(ctx context.Context) {
	discovered := t.options.Discovery.Lists()
	if discovered == nil {
		return
	}
	again := t.takeAgain()
	t.discover(discovered)
	wanted, unreadable := audited(discovered.Resources, t.auditor)
	for k, r := range t.streams {
		metadataOnly, selected := wanted[k]
		switch {
		case !selected && (discovered.Complete || !t.selects(k)):
			r.end()
			delete(t.streams, k)
			t.auditor.Remove(k)
		case selected && metadataOnly != r.metadataOnly:
			r.end()
			t.start(ctx, k, metadataOnly)
		case slices.Contains(again, k):
			r.Reread()
		}
	}
	for k := range t.unreadable {
		_, readable := wanted[k]
		if unreadable[k] == nil && (readable || discovered.Complete || !t.selects(k)) {
			delete(t.unreadable, k)
			t.auditor.Remove(k)
		}
	}
	for k, err := range unreadable {
		if t.streams[k] == nil && !t.unreadable[k] {
			t.unreadable[k] = true
			t.auditor.Sink(k).Fail(err)
		}
	}
	for k, metadataOnly := range wanted {
		if t.streams[k] == nil {
			t.start(ctx, k, metadataOnly)
		}
	}
}

func (t *term) selects(k result.Kind) bool {
	selects, _ := t.auditor.Selects(k)
	return selects
}

func (t *term) start(ctx context.Context, k result.Kind, metadataOnly bool) {
	ctx, cancel := context.WithCancel(ctx)
	sink := watchedSink{t.auditor.Sink(k), func() { signal(t.missing) }}
	if metadataOnly {
		sink.Sink = t.auditor.MetadataSink(k)
	}
	r := &reading{
		Stream:       stream.New(t.options.Client, k, sink, stream.Options{MetadataOnly: metadataOnly, Slots: t.slots, Log: t.options.Log}),
		metadataOnly: metadataOnly, stop: cancel, ended: make(chan struct{}),
	}
	t.streams[k] = r
	t.running.Go(func() {
		defer close(r.ended)
		r.Run(ctx)
	})
}

// A watchedSink calls gone when the cluster may no longer have the kind.
type watchedSink struct {
	*audit.Sink
	gone func()
}

// Fail implements [stream.Sink].
func (s watchedSink) Fail(err error) {
	s.Sink.Fail(err)
	if apierrors.IsNotFound(err) {
		s.gone()
	}
}

// rediscover reads discovery when a kind was not found, but not all the time.
func (t *term) rediscover(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.missing:
		}
		t.options.Discovery.Read()
		if !deadline.Sleep(ctx, kinds.Rescan) {
			return
		}
	}
}

// end returns when the stream no longer calls its sink.
func (r *reading) end() {
	r.stop()
	<-r.ended
}
