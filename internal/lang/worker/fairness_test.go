package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/lang/worker"
)

// The requests of one tenant wait behind its own; the others are answered meanwhile.
func TestTenantsWaitBehindTheirOwn(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	var ended atomic.Int32
	for range 8 {
		slow.Go(func() {
			_, _, err := do(ctx, p, "slow", time.Minute, "hang")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error is %v", err)
			}
			ended.Add(1)
		})
	}
	for i := range 50 {
		if _, _, err := do(t.Context(), p, fmt.Sprint("quick", i%3), limit, "x"); err != nil {
			t.Errorf("beside slow requests: %v", err)
		}
	}
	if ended.Load() != 0 {
		t.Errorf("%d slow requests have ended", ended.Load())
	}
	cancel()
	slow.Wait()
}

// Tenants of which nothing is known yet are no exception, however many there are: a worker is taken
// from those that use it for long.
func TestManySlowTenants(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	for i := range 8 {
		slow.Go(func() {
			if _, _, err := do(ctx, p, fmt.Sprint("slow", i), time.Minute, "hang"); !errors.Is(err, context.Canceled) {
				t.Errorf("error is %v", err)
			}
		})
	}
	for range 50 {
		if _, _, err := do(t.Context(), p, "quick", limit, "x"); err != nil {
			t.Errorf("beside slow tenants: %v", err)
		}
	}
	eventually(t, "all slow tenants are known", func() bool { return len(p.Stats().LowTenants) == 8 })
	if s := p.Stats(); s.Preempted == 0 || s.LowPriority > 1 {
		t.Errorf("counted %+v", s)
	}
	cancel()
	slow.Wait()
}

// Tenants of which nothing is known are tried on a worker that is left over: those that are known to be
// quick do not even wait for what these may take.
func TestProvenTenantsDoNotWaitForTrials(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2, Slice: time.Hour})
	for range 3 {
		if _, _, err := do(t.Context(), p, "quick", limit, "x"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	for i := range 4 {
		slow.Go(func() { _, _, _ = do(ctx, p, fmt.Sprint("slow", i), limit, "hang") })
	}
	eventually(t, "one is tried, and three wait", func() bool { return p.Stats().Waiting == 3 })
	for range 20 {
		if _, _, err := do(t.Context(), p, "quick", limit, "x"); err != nil {
			t.Errorf("beside trials: %v", err)
		}
	}
	if s := p.Stats(); s.Waiting != 3 || s.Overran > 0 {
		t.Errorf("counted %+v", s)
	}
	cancel()
	slow.Wait()
}

// A tenant whose requests take long is answered, too.
func TestSlowTenantsAreAnswered(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 3} {
		p := pool(t, worker.Options{Workers: workers})
		for range workers + 1 {
			if _, _, err := do(t.Context(), p, "slow", 10*time.Millisecond, "hang"); !errors.Is(err, worker.ErrTimeout) {
				t.Errorf("%d workers: error is %v", workers, err)
			}
			if _, _, err := do(t.Context(), p, "slow", limit, "x"); err != nil {
				t.Errorf("%d workers: %v", workers, err)
			}
		}
	}
}

// A request that takes long goes on with the low priority; if there are as many of these as may be, it
// is done again when there is one less.
func TestLongRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2})
	if _, _, err := do(t.Context(), p, "slow", limit, "burn 60ms"); err != nil {
		t.Error(err)
	}
	if reply, _, err := do(t.Context(), p, "slow", limit, "nice"); err != nil || string(reply) == niceness() {
		t.Errorf("its worker has the niceness %q, %v", reply, err)
	}
	if reply, _, err := do(t.Context(), p, "quick", limit, "nice"); err != nil || string(reply) != niceness() {
		t.Errorf("the worker of others has the niceness %q, %v", reply, err)
	}
	var group sync.WaitGroup
	group.Go(func() { _, _, _ = do(t.Context(), p, "slow", 3*time.Second, "hang") })
	eventually(t, "a slow request is under way", func() bool { return p.Stats().Waiting == 0 })
	reply, _, err := do(t.Context(), p, "slow too", limit, "burn 200ms")
	if err != nil || string(reply) != "answer to burn" {
		t.Errorf("done anew: %q, %v", reply, err)
	}
	group.Wait()
	if s := p.Stats(); s.Preempted == 0 || s.Overran != 1 {
		t.Errorf("counted %+v", s)
	}
}

// Background jobs leave a worker to the others, from the first on.
func TestBackgroundJobs(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			_, _, _ = p.Do(ctx, worker.Job{
				Kind: worker.CUE, Tenant: fmt.Sprint(i % 2), Background: true, Limit: limit, Payload: func() ([]byte, error) { return []byte("hang"), nil },
			})
		})
	}
	for range 20 {
		if reply, _, err := do(t.Context(), p, "0", limit, "nice"); err != nil || string(reply) != niceness() {
			t.Errorf("beside background jobs: niceness %q, %v", reply, err)
		}
	}
	if s := p.Stats(); len(s.LowTenants) > 0 {
		t.Errorf("background jobs slow down %v", s.LowTenants)
	}
	cancel()
	group.Wait()
}

// The tenant that has used the least is next, so that one which asks often waits for others.
func TestLeastUsedIsNext(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = do(ctx, p, "often", limit, "burn 20ms")
			}
		})
	}
	eventually(t, "requests wait", func() bool { s := p.Stats(); return s.Answered > 3 && s.Waiting > 20 })
	for i := range 5 {
		before := p.Stats().Answered
		if _, _, err := do(t.Context(), p, "seldom", limit, "x"); err != nil {
			t.Error(err)
		}
		// One was under way, one may have begun before this one was there.
		if waited := p.Stats().Answered - before; waited > 4 {
			t.Errorf("request %d has waited for %d others", i, waited)
		}
	}
	cancel()
	group.Wait()
}

// Each request that had to be ended makes the time shorter for the next ones.
func TestOverrunsShortenTheLimit(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2, Slice: time.Microsecond})
	for _, want := range []string{"800ms", "400ms", "200ms", "100ms", "100ms"} {
		_, _, err := do(t.Context(), p, "slow", 800*time.Millisecond, "hang")
		if !errors.Is(err, worker.ErrTimeout) || !strings.HasSuffix(err.Error(), "ended after "+want) {
			t.Errorf("error is %v, want one after %s", err, want)
		}
	}
	if _, _, err := do(t.Context(), p, "other", 800*time.Millisecond, "hang"); !strings.HasSuffix(err.Error(), "ended after 800ms") {
		t.Errorf("the error of another tenant is %v", err)
	}
}

// Tenants whose requests had to be ended rest together after each of them, and the others have the processor meanwhile.
func TestOverrunsAreFollowedByRests(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2, Slice: time.Microsecond})
	slow := func(tenant string) {
		t.Helper()
		if _, _, err := do(t.Context(), p, tenant, time.Second, "hang"); !errors.Is(err, worker.ErrTimeout) {
			t.Errorf("error is %v", err)
		}
	}
	rests := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, took, err := do(ctx, p, "slow too", limit, "x")
		return errors.Is(err, context.DeadlineExceeded) && took == 0 && strings.Contains(err.Error(), "took too much")
	}
	slow("slow too")
	slow("slow")
	// On a busy machine the rest may be over before somebody looks.
	eventually(t, "another one rests as well", func() bool {
		slow("slow")
		return rests()
	})
	if _, _, err := do(t.Context(), p, "quick", limit, "x"); err != nil {
		t.Errorf("a tenant that is not slow: %v", err)
	}
	if _, _, err := do(t.Context(), p, "slow too", limit, "x"); err != nil {
		t.Errorf("after the rest: %v", err)
	}
}

// On a machine that is busy, requests that hardly have the processor do not count against their tenant.
func TestStarvedRequestsCountForNobody(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2, Slice: time.Hour})
	for range 2 {
		_, _, err := do(t.Context(), p, "quick", 100*time.Millisecond, "stop")
		if !errors.Is(err, worker.ErrTimeout) || !errors.Is(err, worker.ErrStarved) || !strings.Contains(err.Error(), "ended after 100ms") {
			t.Errorf("error is %v", err)
		}
	}
	if s := p.Stats(); s.Overran != 2 || len(s.LowTenants) > 0 {
		t.Errorf("counted %+v", s)
	}
	if _, _, err := do(t.Context(), p, "quick", limit, "x"); err != nil {
		t.Errorf("then %v", err)
	}
}

// Background jobs have the low priority from the first on: how much of the processor they had by the end says nothing
// about what they need.
func TestStarvedBackgroundJobs(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2, Slice: time.Nanosecond})
	for _, background := range []bool{true, false} {
		_, _, err := p.Do(t.Context(), worker.Job{
			Kind: worker.CUE, Limit: 100 * time.Millisecond, Background: background, Payload: func() ([]byte, error) { return []byte("stop"), nil },
		})
		if !errors.Is(err, worker.ErrTimeout) || errors.Is(err, worker.ErrStarved) != background {
			t.Errorf("in the background %t: error is %v", background, err)
		}
	}
}

// Quick requests that make workers grow cost others a start each: that counts as well.
func TestTenantsThatMakeWorkersGrow(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2, Memory: 64 << 20, Slice: time.Hour})
	for range 4 {
		if _, _, err := do(t.Context(), p, "large", limit, "keep"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := do(t.Context(), p, "small", limit, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if s := p.Stats(); s.Recycled != 4 || len(s.LowTenants) != 1 || s.LowTenants[0] != "large" {
		t.Errorf("counted %+v", s)
	}
}

// What waits takes no memory: the request is made when there is a worker for it.
func TestPayloadsAreMadeLate(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var made atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, _, _ = p.Do(ctx, worker.Job{Kind: worker.CUE, Limit: limit, Payload: func() ([]byte, error) {
				made.Add(1)
				return []byte("hang"), nil
			}})
		})
	}
	eventually(t, "all but one wait", func() bool { return p.Stats().Waiting == 19 })
	eventually(t, "one is made", func() bool { return made.Load() == 1 })
	cancel()
	group.Wait()

	broken := errors.New("cannot be made")
	q := pool(t, worker.Options{Workers: 1})
	_, took, err := q.Do(t.Context(), worker.Job{Kind: worker.CUE, Limit: limit, Payload: func() ([]byte, error) { return nil, broken }})
	if !errors.Is(err, broken) || took != 0 {
		t.Errorf("took %s, error is %v", took, err)
	}
	if _, _, err := q.Do(t.Context(), worker.Job{Kind: worker.CUE, Limit: limit, Payload: func() ([]byte, error) { return make([]byte, 33<<20), nil }}); err == nil ||
		!strings.Contains(err.Error(), "at most") {
		t.Errorf("a request that is too large: %v", err)
	}
	if got := ask(t, q, "x"); got != "answer to x" {
		t.Errorf("then %q", got)
	}
}

func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var busy atomic.Int32
	for range 400 {
		group.Go(func() {
			if _, _, err := do(ctx, p, "slow", time.Minute, "hang"); errors.Is(err, worker.ErrBusy) {
				if busy.Add(1) == 400-200-1 {
					cancel()
				}
			}
		})
	}
	group.Wait()
	cancel()
	if s := p.Stats(); s.Refused < 400-200-1 {
		t.Errorf("counted %+v", s)
	}
}

// TestOneWorkerCompilesPolicies: on a machine with one processor there is one worker, for policies of tenants as well.
func TestOneWorkerCompilesPolicies(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1})
	_, _, err := p.Do(t.Context(), worker.Job{
		Kind: worker.CUE, Tenant: "team-a", Limit: limit, Background: true, Payload: func() ([]byte, error) { return []byte("x"), nil },
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSmallestFirstRequestIsNext: of tenants that have used nothing yet, the one with the fewest requests is next,
// and then the one with the smallest.
func TestSmallestFirstRequestIsNext(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2})
	var mu sync.Mutex
	var order []string
	var asking sync.WaitGroup
	release := make(chan struct{})
	ask := func(tenant string, size, jobs int, before func()) {
		asking.Go(func() {
			_, _, err := p.Do(worker.Wanting(t.Context(), jobs), worker.Job{Kind: worker.CUE, Tenant: tenant, Limit: limit, Size: size, Background: true, Payload: func() ([]byte, error) {
				before()
				mu.Lock()
				defer mu.Unlock()
				order = append(order, tenant)
				return []byte("burn 5ms"), nil
			}})
			if err != nil {
				t.Errorf("%s: %v", tenant, err)
			}
		})
	}
	ask("first", 1, 1, func() { <-release })
	for i, tenant := range []string{"many", "large", "small", "middle"} {
		waits(t, p, i)
		jobs := 1
		if tenant == "many" {
			jobs = 2
		}
		ask(tenant, map[string]int{"large": 9000, "middle": 500, "small": 20, "many": 1}[tenant], jobs, func() {})
	}
	waits(t, p, 4)
	close(release)
	asking.Wait()
	if got := strings.Join(order, " "); got != "first small middle large many" {
		t.Errorf("in the order %s", got)
	}
}

// waits waits until that many requests wait, beside one that has the worker.
func waits(t *testing.T, p *worker.Pool, n int) {
	t.Helper()
	for p.Stats().Workers == 0 || p.Stats().Waiting != n {
		time.Sleep(time.Millisecond)
		if t.Context().Err() != nil {
			t.FailNow()
		}
	}
}

// TestBackgroundJobsAreShortAtFirst: a tenant's job that takes long lets those of others go first, whatever it has
// been given.
func TestBackgroundJobsAreShortAtFirst(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1})
	var asked atomic.Int32
	long := make(chan error, 1)
	go func() {
		_, _, err := p.Do(t.Context(), worker.Job{Kind: worker.CUE, Tenant: "slow", Limit: time.Minute, Background: true, Payload: func() ([]byte, error) {
			if asked.Add(1) > 1 {
				return []byte("x"), nil
			}
			return []byte("burn 1m"), nil
		}})
		long <- err
	}()
	waits(t, p, 0)
	if _, _, err := p.Do(t.Context(), worker.Job{Kind: worker.CUE, Tenant: "other", Limit: limit, Background: true, Payload: func() ([]byte, error) { return []byte("x"), nil }}); err != nil {
		t.Error(err)
	}
	if err := <-long; err != nil || asked.Load() != 2 {
		t.Errorf("the long one was sent %d times, and ends with %v", asked.Load(), err)
	}
}
