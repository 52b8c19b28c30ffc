// Package limit limits what the requests of a server take together: memory, concurrent decisions,
// and connections.
//
// Memory is counted when it is used, not when a header announces it: the bytes of a body as they
// arrive, and the memory of decoding before it begins. A part is reserved for authenticated
// callers, and among the others no address can take everything. A body that makes no progress is
// aborted.
package limit

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/usher-dev/usher/internal/memory"
)

const (
	defaultSlots  = 400
	defaultTurn   = time.Second
	defaultWindow = 5 * time.Second
	// step is how much of the budget a request takes at a time, in bytes. The first one covers its
	// connection, goroutine and headers, and most whole reviews.
	step = 64 << 10
	// places is how many requests may wait for their turn.
	places = 1024
)

var (
	// ErrOverloaded is the error of a body, and of [Pay], if there is no capacity for a request
	// now.
	ErrOverloaded = errors.New("overloaded: rejecting requests, try again later")
	// ErrTooLarge is the error for a request that never fits.
	ErrTooLarge = errors.New("request takes more memory than one request may")
	// ErrSlow is the error of a body that does not arrive in time.
	ErrSlow = errors.New("body arrives too slowly")
)

// Options tune a [Limiter]. The zero value works.
type Options struct {
	// Slots is how many requests are decided at a time; 0 means 400, negative without limit.
	Slots int
	// Bytes is how much memory requests may take; 0 means [memory.Budget].
	Bytes int64
	// Turn is how long a request waits for capacity; 0 means a second, negative not at all.
	Turn time.Duration
	// Provable means that callers can authenticate, and are then served by [Limiter.Proven]. Others
	// can take half of the slots and of the bytes. Without it all share everything.
	Provable bool
	// Window is how long a body may take to end or to grow by 32 KiB a second; 0 means five
	// seconds.
	Window time.Duration
	// Shed is called for each request that is rejected.
	Shed func()
	// Log is slog.Default if nil.
	Log *slog.Logger
}

// A Limiter bounds what requests take together. It is safe for concurrent use.
type Limiter struct {
	options Options
	slots   *pool // nil without limit
	bytes   *pool
	// large are the turns of large requests; the address of a caller is its user.
	large *pool
	// told is when excess requests were last logged, in nanoseconds.
	told atomic.Int64
}

// New returns a limiter.
func New(o Options) *Limiter {
	if o.Bytes <= 0 {
		o.Bytes = memory.Budget()
	}
	o.Bytes = max(o.Bytes, 4*step)
	l := &Limiter{options: o.withDefaults()}
	l.bytes = newPool(o.Bytes, l.shared(o.Bytes), step, l.places())
	l.slots = l.newSlots()
	turns := int64(max(runtime.GOMAXPROCS(0)/2, 1))
	l.large = newPool(turns, turns, 1, newPool(places, places, 1, nil))
	return l
}

// Beside returns a limiter with its own slots and callers that takes its bytes, and the turns of large requests, from those of l. It
// ignores Options.Bytes.
func (l *Limiter) Beside(o Options) *Limiter {
	other := &Limiter{options: o.withDefaults(), bytes: l.bytes, large: l.large}
	other.slots = other.newSlots()
	return other
}

func (o Options) withDefaults() Options {
	o.Slots, o.Turn, o.Window = cmp.Or(o.Slots, defaultSlots), cmp.Or(o.Turn, defaultTurn), cmp.Or(o.Window, defaultWindow)
	if o.Shed == nil {
		o.Shed = func() {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

func (l *Limiter) newSlots() *pool {
	if l.options.Slots < 0 {
		return nil
	}
	slots := int64(l.options.Slots)
	return newPool(slots, l.shared(slots), 1, l.places())
}

func (l *Limiter) places() *pool { return newPool(places, l.shared(places), 1, nil) }

// shared is how much of total unproven callers may take.
func (l *Limiter) shared(total int64) int64 {
	if !l.options.Provable {
		return total
	}
	return max(total/2, 1)
}

// Handler returns a handler that passes on requests within the limits: reading a body takes memory,
// and reaching its end takes a slot, which may wait. Both fail with [ErrOverloaded] or
// [ErrTooLarge]. What a request has taken is released when next returns.
func (l *Limiter) Handler(next http.Handler) http.Handler { return &handler{limiter: l, next: next} }

// Proven is Handler for authenticated callers: by a certificate, a token or a secret path. The
// caller of Proven must check that.
func (l *Limiter) Proven(next http.Handler) http.Handler {
	return &handler{limiter: l, next: next, proven: true}
}

type handler struct {
	limiter *Limiter
	next    http.Handler
	proven  bool
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := &body{ReadCloser: r.Body, limiter: h.limiter, request: r, begun: time.Now(), conn: connOf(r.Context())}
	b.control = *http.NewResponseController(w)
	if h.proven {
		b.who.proven = true
		b.conn.prove()
	} else {
		b.who.address = addressOf(r.RemoteAddr)
	}
	defer b.release()
	// Nothing of the first step is used yet.
	b.err = b.pay(1)
	r.Body = b
	h.next.ServeHTTP(w, r)
}

// addressOf returns the IP address of a remote address.
func addressOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// Hold takes bytes for what goes on after a request, without waiting, if requests leave half of all to
// others. It returns what releases them.
func (l *Limiter) Hold(bytes int64) (release func(), ok bool) {
	if !l.bytes.hold(bytes) {
		return nil, false
	}
	return func() { l.bytes.give(caller{proven: true}, bytes) }, true
}

// A Use is what requests have taken.
type Use struct {
	// Bytes of MaxBytes and Slots of MaxSlots are taken, and of these UnprovenBytes and
	// UnprovenSlots by callers that have proved nothing. Waiting requests wait for either.
	Bytes, UnprovenBytes, MaxBytes int64
	Slots, UnprovenSlots, MaxSlots int64
	Waiting                        int
}

// Use returns what requests have taken.
func (l *Limiter) Use() Use {
	u := Use{MaxBytes: l.bytes.total}
	u.Bytes, u.UnprovenBytes, u.Waiting = l.bytes.use()
	if l.slots != nil {
		var waiting int
		u.MaxSlots = l.slots.total
		u.Slots, u.UnprovenSlots, waiting = l.slots.use()
		u.Waiting += waiting
	}
	return u
}

// shed counts a rejected request, and logs at a limited rate.
func (l *Limiter) shed(r *http.Request, what string) {
	l.options.Shed()
	const often = 10 * time.Second
	now, told := time.Now().UnixNano(), l.told.Load()
	if now-told > int64(often) && l.told.CompareAndSwap(told, now) {
		l.options.Log.WarnContext(r.Context(), "overloaded: rejecting requests", "exhausted", what, "from", addressOf(r.RemoteAddr),
			"do", "raise --max-in-flight if requests wait for facts, GOMEMLIMIT with the memory limit if they are large; else give the server more CPU or add replicas")
	}
}
