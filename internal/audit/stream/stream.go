// Package stream reads all objects of a kind from an API server, and then each change, as the bytes
// that the API server sends: no object is decoded, and none is kept.
//
// One watch has the objects first and then the changes (a streaming list). Where the API server
// does not offer that, one list in pages comes first. A watch that ends is resumed where it ended;
// when that is not possible, all objects are read again. A [Sink] is never told that it is complete
// while changes may be missing.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/audit/result"
)

// A Sink gets what a stream reads. Its methods are called one at a time. They should return soon:
// an API server closes streams whose reader does not keep up.
type Sink interface {
	// Begin says that all objects are read, from the first one.
	Begin()
	// Set has an object that is new, has changed, or is as before. The JSON has the apiVersion and
	// the kind of the stream, and may only be used during the call. After an error all objects are
	// read again, later.
	Set(object []byte) error
	// Delete has the last state of an object that is gone.
	Delete(object []byte) error
	// End says that all objects have been read: those that were not Set since Begin are gone.
	End()
	// Heard says that the API server confirmed that all is current.
	Heard()
	// Fail has the reason why objects cannot be read for the moment. It is tried again. What
	// was read before may be out of date.
	Fail(err error)
}

// Options configure a [Stream]. The zero value works.
type Options struct {
	// MetadataOnly reads only the metadata of objects.
	MetadataOnly bool
	// Retry is the longest pause between two attempts; 0 means 30 s. Pauses begin at half a
	// second. While the API server gives no answer they are no longer than 10 s.
	Retry time.Duration
	// Silence is how long the API server may send nothing before the stream is opened again; 0
	// means 150 s. API servers send a bookmark each minute.
	Silence time.Duration
	// MaxObject limits the JSON of an object, in bytes; 0 means 32 MiB. API servers store nothing
	// that comes near.
	MaxObject int
	// Slots, if set, limits how many of the streams that share it read all objects at once, to its
	// capacity.
	Slots chan struct{}
	// Log receives a record when reading begins to fail, and when it works again.
	Log *slog.Logger
}

const (
	// first is the pause after the first failure.
	first = 500 * time.Millisecond
	// unreachable is the longest pause while the API server gives no answer.
	unreachable = 10 * time.Second
	// answerTimeout is how long the API server may take for an answer to begin.
	answerTimeout = 30 * time.Second
	// settled is after how long a watch that fails at once would have failed.
	settled = 2 * time.Second
	// longest is the longest pause that an API server may ask for.
	longest = 2 * time.Minute
	// maxCuts is how often a watch may end before it had all objects: then they are listed, since
	// an API server does not wait for readers of lists.
	maxCuts = 2
	// maxFaults is after how many errors in a row all objects are read again.
	maxFaults = 3
)

// A Stream reads the objects of one kind, of all namespaces. Use [New].
type Stream struct {
	client  rest.Interface
	kind    result.Kind
	path    string
	sink    Sink
	options Options
	log     *slog.Logger

	mu sync.Mutex
	// interrupt ends the current attempt, and again says that all is to be read then.
	interrupt context.CancelFunc
	again     bool

	// version is where a watch goes on; empty if all objects have to be read.
	version string
	// paged means that the API server does not make a watch begin with all objects.
	paged bool
	// cuts counts watches that ended before they had all objects, and faults those that ended with
	// an error, one after another.
	cuts, faults int
	// silent means that the last watch had nothing for too long.
	silent bool
	// failing is whether Fail was called last.
	failing bool
	// rewritten is a buffer.
	rewritten []byte
}

// New returns a stream of the objects of a kind for sink. The client needs no content type and
// should have no timeout. Run reads.
func New(client rest.Interface, kind result.Kind, sink Sink, o Options) *Stream {
	if o.Retry <= 0 {
		o.Retry = 30 * time.Second
	}
	if o.Silence <= 0 {
		o.Silence = 150 * time.Second
	}
	if o.MaxObject <= 0 {
		o.MaxObject = 32 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	at := path.Join("/apis", kind.Resource.Group, kind.Resource.Version, kind.Resource.Resource)
	if kind.Resource.Group == "" {
		at = path.Join("/api", kind.Resource.Version, kind.Resource.Resource)
	}
	return &Stream{client: client, kind: kind, path: at, sink: sink, options: o, interrupt: func() {}, log: o.Log.With("resource", kind.Resource.String())}
}

// Run reads until ctx is done. Call it once.
func (s *Stream) Run(ctx context.Context) {
	for pause := first; ctx.Err() == nil; {
		begin := time.Now()
		reading, interrupt := s.interruptible(ctx)
		err := s.attempt(reading)
		if reading.Err() == nil {
			if time.Since(begin) > s.options.Retry {
				pause = first
			}
			s.consider(err)
			select {
			case <-reading.Done():
			case <-time.After(jittered(pause, err)):
			}
			pause = min(2*pause, s.options.Retry)
		}
		interrupt()
	}
}

// Reread reads all objects again, soon. It does not wait for that.
func (s *Stream) Reread() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = true
	s.interrupt()
}

// interruptible returns a context that Reread ends.
func (s *Stream) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, interrupt := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt = interrupt; s.again {
		s.again, s.version = false, ""
	}
	return ctx, interrupt
}

// attempt reads until the watch ends, or something fails.
func (s *Stream) attempt(ctx context.Context) error {
	if s.version != "" {
		if s.silent {
			if err := s.probe(ctx); err != nil {
				return err
			}
		}
		return s.resume(ctx)
	}
	release, err := s.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	s.sink.Begin()
	if !s.paged && s.cuts < maxCuts {
		if err := s.watchAll(ctx, release); !errors.Is(err, errNotOffered) {
			return err
		}
		s.sink.Begin()
	}
	if err := s.list(ctx); err != nil {
		return err
	}
	s.complete()
	release()
	return s.resume(ctx)
}

// slot waits until the stream may read all objects. The function that it returns may be called
// twice.
func (s *Stream) slot(ctx context.Context) (release func(), err error) {
	slots := s.options.Slots
	if slots == nil {
		return func() {}, nil
	}
	select {
	case slots <- struct{}{}:
		return sync.OnceFunc(func() { <-slots }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A lost error is one after which the state of the sink cannot be trusted.
type lost struct{ error }

func (e lost) Unwrap() error { return e.error }

// errInterrupted is the error of streams that end in the middle of something.
var errInterrupted = errors.New("the stream was interrupted")

// consider decides what an end of a stream means, and from where to read next. The first problem
// with a complete stream is no failure yet: most often the watch can be resumed.
func (s *Stream) consider(err error) {
	if gap := (lost{}); errors.As(err, &gap) {
		s.version = ""
	}
	s.silent = s.silent || errors.Is(err, errSilent)
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		s.considerStatus(err, int(status.Status().Code))
	case err == nil && s.version != "":
	case err == nil:
		s.fail(errors.New("the API server closed the watch before it had sent all objects"))
	default:
		s.faults++
		if resumable := s.version != "" && s.faults == 1; !resumable || !errors.Is(err, errInterrupted) {
			s.fail(err)
		}
	}
}

// considerStatus is consider for an answer of the API server.
func (s *Stream) considerStatus(err error, code int) {
	resumed := s.version != ""
	s.faults++
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		if s.version = ""; resumed && s.faults == 1 {
			// Nothing is wrong: the stream was away for too long.
			return
		}
	case s.faults >= maxFaults:
		s.version = ""
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError,
		code == http.StatusForbidden, code == http.StatusUnauthorized:
	default:
		s.version = ""
	}
	s.fail(err)
}

// jittered is about pause, or what the API server asks for.
func jittered(pause time.Duration, err error) time.Duration {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		pause = min(pause, unreachable)
	}
	pause = pause/2 + rand.N(pause/2+1)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause += min(time.Duration(seconds)*time.Second, longest)
	}
	return pause
}

func (s *Stream) fail(err error) {
	err = fmt.Errorf("read %s: %w", s.kind.Resource.GroupResource(), err)
	if !s.failing {
		s.log.Warn("objects cannot be audited for the moment", "error", err)
	}
	s.failing = true
	s.sink.Fail(err)
}

// complete notes that all objects have been read.
func (s *Stream) complete() {
	s.cuts = 0
	s.sink.End()
	s.heard()
}

// heard notes that all is current.
func (s *Stream) heard() {
	s.faults, s.silent = 0, false
	s.recovered()
}

// recovered notes that the API server confirms the objects, for all that is known now.
func (s *Stream) recovered() {
	if s.failing {
		s.log.Info("objects can be audited again")
	}
	s.failing = false
	s.sink.Heard()
}
