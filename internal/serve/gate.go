package serve

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// defaultInFlight is how many requests are decided at a time, those that wait for facts
	// among them. An API server has no more than 400 of its own.
	defaultInFlight = 400
	// mostBytes bounds the bodies of all of these together, whatever their number.
	mostBytes = 256 << 20
	// unknownBytes is what a body of unknown length counts.
	unknownBytes = 1 << 20
	// turn is how long a request waits for its turn: a burst is no overload.
	turn = time.Second
	// retryAfter is when who was turned away is to try again. API servers do, also those
	// whose own deadline allows for it only once. It is never 0, which they take for now.
	retryAfter = time.Second
)

// A gate lets in no more requests than can be decided, and turns the others away with 429
// and Retry-After, which API servers honour for admission, and for admission only.
type gate struct {
	requests, bytes *semaphore.Weighted
	turn            time.Duration
	log             *slog.Logger
	// shed counts those turned away, told is when the log was last told so, in nanoseconds.
	shed func()
	told atomic.Int64
}

func newGate(inFlight int, log *slog.Logger, shed func()) *gate {
	if inFlight <= 0 {
		inFlight = defaultInFlight
	}
	return &gate{
		requests: semaphore.NewWeighted(int64(inFlight)), bytes: semaphore.NewWeighted(mostBytes),
		turn: turn, log: log, shed: shed,
	}
}

// limit returns a handler that passes on to next what the gate lets in.
func (g *gate) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size < 0 {
			size = unknownBytes
		}
		size = min(size, mostBytes)
		if !g.enter(r.Context(), size) {
			g.refuse(w, r)
			return
		}
		defer g.requests.Release(1)
		defer g.bytes.Release(size)
		next.ServeHTTP(w, r)
	})
}

// enter waits for the turn of a request.
func (g *gate) enter(ctx context.Context, size int64) bool {
	if g.requests.TryAcquire(1) {
		if g.bytes.TryAcquire(size) {
			return true
		}
		g.requests.Release(1)
	}
	ctx, cancel := context.WithTimeout(ctx, g.turn)
	defer cancel()
	if g.requests.Acquire(ctx, 1) != nil {
		return false
	}
	if g.bytes.Acquire(ctx, size) != nil {
		g.requests.Release(1)
		return false
	}
	return true
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request) {
	g.shed()
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	http.Error(w, "too many requests at a time: try again later", http.StatusTooManyRequests)
	const often = 10 * time.Second
	now, told := time.Now().UnixNano(), g.told.Load()
	if now-told > int64(often) && g.told.CompareAndSwap(told, now) {
		g.log.WarnContext(r.Context(), "requests are turned away: more come than can be decided", "path", r.URL.Path,
			"do", "raise --max-in-flight if they wait for facts, else give the server more CPU or add replicas")
	}
}
