// Package reflector keeps a copy of all objects of one kind in a cluster, and reports how current
// the copy is.
//
// A kind that does not exist or may not be read is only a state of its copy: it is retried, and
// does not affect others.
package reflector

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// first is the pause after the first failure.
	first = 500 * time.Millisecond
	// unreachable is the longest pause while the API server gives no answer.
	unreachable = 10 * time.Second
)

// A Store holds the copy. Its methods are called one at a time. Objects are without
// managedFields and belong to the store.
type Store interface {
	// Replace replaces all objects.
	Replace(objects []*unstructured.Unstructured)
	Set(object *unstructured.Unstructured)
	Delete(object *unstructured.Unstructured)
}

// Options configure a [Reflector]. The zero value works.
type Options struct {
	// Retry is the longest pause between two attempts; 0 means 30 s. Pauses begin at half a
	// second. While the API server gives no answer they are no longer than 10 s.
	Retry time.Duration
	// Probe is the time without events after which the API server is asked for a response; 0 means
	// never. Without it a quiet kind may have no events for many minutes.
	Probe time.Duration
	// Changed, if set, is called when State differs in more than its times. It must return
	// quickly.
	Changed func()
	// Log receives a record when reading begins to fail, and when it works again.
	Log *slog.Logger
}

// A State is how current a copy is.
type State struct {
	// Synced means that the store has been complete once.
	Synced bool
	// Current means that the store is complete and a watch keeps it current.
	Current bool
	// Heard is when the API server last confirmed the content of the store; before that, when Run
	// was called.
	Heard time.Time
	// Err is why objects cannot be read, or not be watched: first seen at Since, and for
	// the last time at Until. It is nil while all is well.
	Err          error
	Since, Until time.Time
}

// A Reflector copies the objects of one resource, of all namespaces. Use [New].
type Reflector struct {
	client   dynamic.Interface
	resource schema.GroupVersionResource
	store    Store
	options  Options

	mu    sync.Mutex
	state State
	// streaming means that a watch is open.
	streaming bool
}

// New returns a reflector that fills store. Run fills it.
func New(client dynamic.Interface, resource schema.GroupVersionResource, store Store, o Options) *Reflector {
	if o.Retry <= 0 {
		o.Retry = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Reflector{client: client, resource: resource, store: store, options: o}
}

// State returns how current the copy is.
func (m *Reflector) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Run copies until ctx is done. Call it once.
func (m *Reflector) Run(ctx context.Context) {
	m.update(func(s *State) { s.Heard = time.Now() })
	if m.options.Probe > 0 {
		go m.probe(ctx)
	}
	// The reflector is not always quick to end: it may be in a pause.
	go m.copy(ctx)
	<-ctx.Done()
}

func (m *Reflector) copy(ctx context.Context) {
	silent := klog.Logger{}
	reflector := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  m.list,
			WatchFuncWithContext: m.watch,
		}, m.client),
		&unstructured.Unstructured{},
		&adapter{reflector: m, done: ctx.Done()},
		cache.ReflectorOptions{
			Name:            m.resource.String(),
			TypeDescription: m.resource.String(),
			Logger:          &silent,
			Backoff:         backoff(min(m.options.Retry, unreachable)),
		},
	)
	ctx = klog.NewContext(ctx, silent)
	for pause := first; ; {
		begin := time.Now()
		// The error is noted already where it came from. Without one, the watch ended.
		err := reflector.ListAndWatchWithContext(ctx)
		if time.Since(begin) > m.options.Retry {
			pause = first
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, m.options.Retry)
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
			pause = min(pause, unreachable)
		}
	}
}

// backoff is how the reflector waits by itself, where the API server gives no answer.
func backoff(most time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: first, Factor: 2, Jitter: 0.5, Steps: steps(first, most), Cap: most}
}

// steps is how often a pause has to be doubled to reach most.
func steps(pause, most time.Duration) int {
	n := 1
	for ; pause < most; pause *= 2 {
		n++
	}
	return n
}

func (m *Reflector) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := m.client.Resource(m.resource).List(ctx, o)
	if err != nil {
		m.fail(ctx, err)
		return nil, err
	}
	return list, nil
}

func (m *Reflector) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := m.client.Resource(m.resource).Watch(ctx, o)
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	if err != nil {
		// A server that does not know how to send initial events is listed next.
		if !initial || !apierrors.IsInvalid(err) {
			m.fail(ctx, err)
		}
		return nil, err
	}
	if reflect.TypeOf(w) == noAnswer {
		m.fail(ctx, errNoAnswer)
		return w, nil
	}
	m.update(func(s *State) {
		m.streaming = true
		if !initial {
			m.well(s)
		}
	})
	return &stream{Interface: w, closed: m.closed}, nil
}

// noAnswer is the kind of watch that clients return, without an error, when a connection
// ends or times out before there is an answer.
var (
	noAnswer    = reflect.TypeOf(watch.NewEmptyWatch())
	errNoAnswer = errors.New("the connection ended without an answer")
)

// A stream reports when a watch is over. The reflector always stops it.
type stream struct {
	watch.Interface
	once   sync.Once
	closed func()
}

func (s *stream) Stop() {
	s.once.Do(s.closed)
	s.Interface.Stop()
}

func (m *Reflector) closed() {
	m.update(func(s *State) {
		m.streaming, s.Current = false, false
	})
}

// well notes that a watch is open and nothing is missing before it.
func (m *Reflector) well(s *State) {
	if s.Err != nil {
		m.options.Log.Info("objects are read again", "resource", m.resource.String())
	}
	s.Err, s.Since, s.Until = nil, time.Time{}, time.Time{}
	s.Heard = time.Now()
	s.Current = s.Synced
}

// heard notes a sign of life on the watch.
func (m *Reflector) heard() {
	m.update(func(s *State) { s.Heard = time.Now() })
}

func (m *Reflector) replaced() {
	m.update(func(s *State) {
		s.Synced, s.Heard = true, time.Now()
		if m.streaming {
			m.well(s)
		}
	})
}

// fail records why objects cannot be read. An expired resource version is normal: the next attempt
// requests a newer one.
func (m *Reflector) fail(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return
	}
	m.update(func(s *State) {
		now := time.Now()
		if s.Err == nil || apierrors.ReasonForError(s.Err) != apierrors.ReasonForError(err) {
			s.Since = now
			m.options.Log.Warn("objects cannot be read; trying again", "resource", m.resource.String(), "error", err.Error())
		}
		s.Err, s.Until, s.Current = err, now, false
	})
}

func (m *Reflector) update(change func(*State)) {
	m.mu.Lock()
	before := m.state
	change(&m.state)
	after := m.state
	m.mu.Unlock()
	if before.Synced != after.Synced || before.Current != after.Current || !alike(before.Err, after.Err) {
		m.options.Changed()
	}
}

func alike(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return errors.Is(a, b) || a.Error() == b.Error()
}

// probe sends a minimal request to the API server after each silence. Its response comes from the
// watch cache, and counts only while the watch is open.
func (m *Reflector) probe(ctx context.Context) {
	ticker := time.NewTicker(m.options.Probe)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		state := m.State()
		if !state.Current || time.Since(state.Heard) < m.options.Probe/2 {
			continue
		}
		if m.answers(ctx) {
			m.update(func(s *State) {
				if s.Current {
					s.Heard = time.Now()
				}
			})
		}
	}
}

func (m *Reflector) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, m.options.Probe)
	defer cancel()
	_, err := m.client.Resource(m.resource).List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=usher-probe", ResourceVersion: "0", Limit: 1,
	})
	return err == nil
}
