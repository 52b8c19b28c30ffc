package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A load is clients that write all the time, as those of a busy cluster do.
type load struct {
	stop chan struct{}
	done sync.WaitGroup

	admitted, retried atomic.Int64
	mu                sync.Mutex
	errs              []error
}

const clients = 6

// underLoad starts clients that create ConfigMaps, which a policy stamps, each with a pause
// between two. A request that the API server could not have decided is sent again, as
// kubectl and controllers would.
func (r *rig) underLoad(t *testing.T, namespace, stamp string, pause time.Duration) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	for client := range clients {
		l.done.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				case <-time.After(pause):
				}
				if err := l.write(ctx, r, t, namespace, fmt.Sprintf("load-%d-%d", client, i), stamp); err != nil {
					l.mu.Lock()
					l.errs = append(l.errs, err)
					l.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		l.end()
	})
	return l
}

func (l *load) write(ctx context.Context, r *rig, t *testing.T, namespace, name, stamp string) error {
	object := configMap(t, namespace, name)
	var err error
	for began := time.Now(); time.Since(began) < deadline/2; time.Sleep(pollEvery) {
		created, failure := r.try(ctx, object)
		if failure == nil {
			l.admitted.Add(1)
			return stamped(created, stamp)
		}
		if err = failure; ctx.Err() != nil || !apierrors.IsInternalError(err) {
			return err
		}
		l.retried.Add(1)
	}
	return fmt.Errorf("given up: %w", err)
}

// await waits until so many more requests have been admitted.
func (l *load) await(t *testing.T, more int64) {
	t.Helper()
	goal := l.admitted.Load() + more
	eventually(t, "requests under load", func() error {
		if got := l.admitted.Load(); got < goal {
			return fmt.Errorf("%d of %d requests, errors %v", got, goal, l.problems())
		}
		return nil
	})
}

func (l *load) problems() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[:min(len(l.errs), 3)]
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.done.Wait()
}
