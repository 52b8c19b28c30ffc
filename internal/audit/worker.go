package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/audit/store"
)

// judgeTimeout limits the judging of one object, as API servers limit a webhook.
const judgeTimeout = 10 * time.Second

// A worker takes projections from the queue, judges them, and hands the judgements to the store. It is
// safe for concurrent use.
type worker struct {
	queue   *store.Queue
	store   *store.Store
	limiter *queue.Limiter
	did     func(ctx context.Context, resource string) (context.Context, func(error))
	log     *slog.Logger
}

// run judges until ctx is done.
func (w *worker) run(ctx context.Context) {
	share := w.limiter.Share()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.queue.Ready():
		}
		for ctx.Err() == nil {
			began := time.Now()
			if !w.next(ctx) {
				break
			}
			share.Spend(time.Since(began))
		}
	}
}

// next judges one projection, and reports whether there was one.
func (w *worker) next(ctx context.Context) bool {
	p, ok := w.queue.Next()
	if !ok {
		return false
	}
	if j := w.store.Begin(p); j != nil {
		w.do(ctx, j)
	}
	return true
}

// do does a job. If the policies cannot judge, the results are errors.
func (w *worker) do(ctx context.Context, j *store.Job) {
	did := func(error) {}
	if w.did != nil {
		ctx, did = w.did(ctx, j.Kind().String())
	}
	judgements, err := judgeObject(ctx, j)
	did(err)
	if err != nil {
		if ctx.Err() != nil {
			return // Nothing is judged any more.
		}
		w.logFailure(j, err)
		judgements = j.Fail(judgements, err)
	}
	w.store.Finish(j, judgements)
}

func judgeObject(ctx context.Context, j *store.Job) (judgements []judge.Judgement, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTimeout)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = &panicError{panicked, debug.Stack()}
		}
	}()
	some := j.Policies()
	if some != nil && len(some) == 0 {
		return nil, nil
	}
	object, err := j.Object()
	if err != nil {
		return nil, err
	}
	return j.Plan.Judge(ctx, object, some)
}

// A panicError is a panic while an object was judged.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("judge object: it panicked: %v", e.value) }

func (w *worker) logFailure(j *store.Job, err error) {
	log := w.log.With("kind", j.Kind().String(), "error", err)
	if panicked, ok := errors.AsType[*panicError](err); ok {
		log = log.With("stack", string(panicked.stack))
	}
	log.Error("object cannot be judged")
}
