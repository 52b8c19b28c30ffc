package authz

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/breaker"
	"github.com/usher-dev/usher/internal/overrun"
)

const (
	// limit is the time of a request that has no deadline.
	limit = time.Second
	// grace is how long a condition has to return after the deadline. The doors reserve more for the
	// response.
	grace = 20 * time.Millisecond
)

// errTooLong is the error of a condition that has not ended in time, or was not reached.
var errTooLong = errors.New("took too long: the request's time is over")

// A run is what a state tells the one who waits for its decision, and may leave it: a condition may never
// end, whatever its context says.
type run struct {
	// late says that another run has not ended in time: what it has not found out fails.
	late bool

	mu   sync.Mutex
	left bool
	// working is the condition at work plus 1, or 0.
	working int32
	retry   breaker.Retry
	turn    *overrun.Turn
}

// inTime has f decide on a goroutine that is left behind if a condition does not end. Then f decides again
// by the conditions that have ended; the others fail. It reports whether s can be used again.
func inTime[T any](ctx context.Context, r *usher.Request, s *state, f func(*state) T) (T, bool) {
	at, limited := ctx.Deadline()
	if !limited {
		at = time.Now().Add(limit)
	}
	var said T
	g := s.engine.options.Overruns.Go(func() { said = f(s) })
	if g.Wait(time.Until(at.Add(grace))) {
		return said, true
	}
	return f(s.leave(g, r, at)), false
}

// leave leaves the goroutine behind, and returns the state that decides instead.
func (s *state) leave(g *overrun.Goroutine, r *usher.Request, due time.Time) *state {
	next := newState(s.engine)
	next.late = true
	what := overrun.Overrun{User: r.User.Name, Namespace: r.Namespace, Due: due}
	s.mu.Lock()
	s.left = true
	next.memo, next.round = slices.Clone(s.memo), s.round
	if s.working > 0 {
		c, owner := s.engine.condition(s.working - 1)
		what.Policy, what.Rule, what.Retry = owner, c.Name, s.retry
	}
	turn := s.turn
	s.mu.Unlock()
	turn.Leave()
	g.Leave(what)
	return next
}

// lock locks s for its goroutine, which ends here if it was left behind.
func (s *state) lock() {
	s.mu.Lock()
	if s.left {
		s.mu.Unlock()
		runtime.Goexit()
	}
}

// evaluate evaluates a condition.
func (s *state) evaluate(ctx context.Context, n int32) (bool, error) {
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return false, context.Cause(ctx)
	case s.late || ctx.Err() != nil:
		return false, errTooLong
	}
	watch := s.engine.options.Overruns
	c, owner := s.engine.condition(n)
	user, namespace := s.query.User.Name, s.query.Namespace.Text
	retry, err := watch.Allow(owner, c.Name, user, namespace)
	if err != nil {
		return false, err
	}
	share := s.shares.Of(watch, owner.Namespace)
	s.query.Allowance = share.Allowance
	s.lock()
	s.working, s.retry, s.turn = n+1, retry, share.Turn
	s.mu.Unlock()
	holds, err := s.ask(ctx, n)
	share.Turn.End()
	s.lock()
	s.working, s.retry = 0, nil
	s.mu.Unlock()
	if retry != nil {
		watch.Ended(owner, c.Name, user, namespace, retry)
	}
	return holds, err
}

// ask turns a panic of a condition into an error.
func (s *state) ask(ctx context.Context, n int32) (holds bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			holds, err = false, fmt.Errorf("panic: %v", r)
		}
	}()
	c, _ := s.engine.condition(n)
	return c.Predicate.Holds(ctx, &s.query)
}
