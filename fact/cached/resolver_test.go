package cached_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
)

var errDown = errors.New("down")

// counter answers with the number of the fetch.
type counter struct {
	fetches atomic.Int64
	err     error
	takes   time.Duration
}

func (c *counter) Resolve(ctx context.Context, _ fact.Ref) (any, error) {
	n := c.fetches.Add(1)
	if c.takes > 0 {
		select {
		case <-time.After(c.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return n, c.err
}

func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	object := &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}
	tests := []struct {
		reason string
		ref    fact.Ref
		ttl    time.Duration
		err    error
		// again is when the second fetch is made, if the first is at 0.
		again time.Duration
	}{
		{"an object", object, time.Minute, nil, time.Minute},
		{"a namespace, shortly", &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "a"}, time.Minute, nil, time.Second},
		{"the answer to a GET", get("a"), time.Minute, nil, time.Minute},
		{"the answer to what is a GET by default", &fact.HTTP{URL: "a"}, time.Minute, nil, time.Minute},
		{"never that to a POST", &fact.HTTP{Method: "POST", URL: "a"}, time.Minute, nil, 0},
		{"nothing without ttl", get("a"), 0, nil, 0},
		{"nothing that is read live", &fact.Object{APIVersion: "v1", Kind: "ConfigMap", All: true, Live: true}, time.Minute, nil, 0},
		{"no error of an object", object, time.Minute, errDown, 0},
		{"an error of a request, shortly", get("a"), time.Minute, errDown, time.Second},
		{"an error of a request, no longer than anything else", get("a"), time.Millisecond, errDown, time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				next := &counter{err: test.err}
				resolver := cached.New(next, test.ttl)
				fetch := func(want int64) {
					t.Helper()
					value, err := resolver.Resolve(t.Context(), test.ref)
					if !errors.Is(err, test.err) || value != want {
						t.Errorf("Resolve = %v, %v; want %d, %v", value, err, want, test.err)
					}
				}
				fetch(1)
				if test.again > 0 {
					time.Sleep(test.again - time.Nanosecond)
					fetch(1)
					time.Sleep(time.Nanosecond)
				}
				fetch(2)
			})
		})
	}
}

func TestNothingSelectedIsRemembered(t *testing.T) {
	t.Parallel()
	fetches := 0
	resolver := cached.New(fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { fetches++; return nil, nil }), time.Minute)
	for range 2 {
		if value, err := resolver.Resolve(t.Context(), get("a")); value != nil || err != nil {
			t.Errorf("Resolve = %v, %v; want nothing", value, err)
		}
	}
	if fetches != 1 {
		t.Errorf("%d fetches, want 1", fetches)
	}
}

func TestOneFetchForAll(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			next := &counter{takes: time.Second}
			resolver := cached.New(next, ttl)
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if value, err := resolver.Resolve(t.Context(), get("a")); err != nil || value != int64(1) {
						t.Errorf("Resolve = %v, %v; want 1", value, err)
					}
				})
			}
			wg.Wait()
			if n := next.fetches.Load(); n != 1 {
				t.Errorf("ttl %s: %d fetches, want 1", ttl, n)
			}
		})
	}
}

// waiting has those who ask for a namespace wait for its limit.
type waiting struct{ counter }

func (w *waiting) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	if fact.Tenant(ctx) == "shop" {
		time.Sleep(3 * time.Second)
		return nil, errDown
	}
	return w.counter.Resolve(ctx, ref)
}

// TestNobodyWaitsForTheLimitOfATenant: others get the same object without its delay and its error.
func TestNobodyWaitsForTheLimitOfATenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resolver := cached.New(&waiting{}, time.Minute)
		var asking sync.WaitGroup
		defer asking.Wait()
		asking.Go(func() {
			if _, err := resolver.Resolve(fact.ForTenant(t.Context(), "shop"), get("a")); !errors.Is(err, errDown) {
				t.Errorf("for the tenant: %v", err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		if value, err := resolver.Resolve(t.Context(), get("a")); err != nil || value != int64(1) || time.Since(begin) > 0 {
			t.Errorf("for the cluster: %v, %v after %v", value, err, time.Since(begin))
		}
	})
}

func TestFetchOutlivesWhoBeganIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := &counter{takes: 5 * time.Second}
		resolver := cached.New(next, time.Minute)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			if value, err := resolver.Resolve(t.Context(), get("a")); err != nil || value != int64(1) {
				t.Errorf("Resolve of the patient = %v, %v; want 1", value, err)
			}
		}()
		if _, err := resolver.Resolve(impatient, get("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error of the impatient = %v, want that the deadline passed", err)
		}
		time.Sleep(5 * time.Second)
		if value, err := resolver.Resolve(t.Context(), get("a")); err != nil || value != int64(1) {
			t.Errorf("Resolve afterwards = %v, %v; want 1", value, err)
		}
	})
}

func TestFetchHasItsOwnDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := &counter{takes: time.Hour}
		start := time.Now()
		_, err := cached.New(next, time.Minute).Resolve(t.Context(), get("a"))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > time.Minute {
			t.Errorf("error = %v after %s, want that the deadline passed", err, took)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	next := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { panic("oops") })
	if _, err := cached.New(next, time.Minute).Resolve(t.Context(), get("a")); err == nil || !strings.Contains(err.Error(), "oops") {
		t.Errorf("error = %v, want the panic", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var fetches atomic.Int64
	body := strings.Repeat("x", 1<<20)
	resolver := cached.New(fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		fetches.Add(1)
		switch url := ref.(*fact.HTTP).URL; {
		case strings.HasPrefix(url, "large"):
			return map[string]any{"body": body}, nil
		case url == "huge":
			return []any{body, body, body, body, body, body, body, body}, nil
		}
		return "small", nil
	}), time.Hour)
	count := func(url string) int64 {
		t.Helper()
		before := fetches.Load()
		if _, err := resolver.Resolve(t.Context(), get(url)); err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		return fetches.Load() - before
	}
	for i := range 5000 {
		count(fmt.Sprint("small", i))
	}
	if count("small4999") != 0 || count("small1000") != 0 || count("small800") != 1 {
		t.Error("by number: the recent ones should be known, the old ones not")
	}
	for i := range 80 {
		count(fmt.Sprint("large", i))
	}
	if count("large79") != 0 || count("large30") != 0 || count("large0") != 1 {
		t.Error("by size: the recent ones should be known, the old ones not")
	}
	for range 2 {
		if count("huge") != 1 {
			t.Error("what is huge should not be kept")
		}
	}
	if count("large79") != 0 {
		t.Error("what is huge should not drive out others")
	}
}

// TestRace is for the race detector.
func TestRace(t *testing.T) {
	t.Parallel()
	next := &counter{}
	resolver := cached.New(next, time.Microsecond)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				if j%5 == 0 {
					cancel()
				}
				if _, err := resolver.Resolve(ctx, get(fmt.Sprint((i+j)%7))); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("Resolve: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func BenchmarkResolve(b *testing.B) {
	resolver := cached.New(&counter{}, time.Hour)
	ref := get("https://service.example/team?name=cart")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := resolver.Resolve(b.Context(), ref); err != nil {
			b.Fatal(err)
		}
	}
}

func get(url string) fact.Ref { return &fact.HTTP{Method: "GET", URL: url} }

// watcher keeps the facts current that have a name, except "late".
type watcher struct {
	counter

	now atomic.Int64
	err error
}

func (w *watcher) Current(ref fact.Ref) (any, bool, error) {
	if o, ok := ref.(*fact.Object); !ok || o.Name == "late" {
		return nil, false, nil
	}
	return w.now.Load(), true, w.err
}

// TestWhatIsKeptCurrentIsNotCached: a change of a fact that is watched counts at once.
func TestWhatIsKeptCurrentIsNotCached(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		ref    fact.Ref
		err    error
		want   []any
	}{
		{"an object that is watched", &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"}, nil, []any{int64(1), int64(2)}},
		{"an error about objects that are watched", &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"}, errDown, []any{int64(1), int64(2)}},
		{"an object that is not", &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "late"}, nil, []any{int64(1), int64(1)}},
		{"an answer of a service", get("a"), nil, []any{int64(1), int64(1)}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			next := &watcher{err: test.err}
			resolver := cached.New(next, time.Minute)
			for i, want := range test.want {
				next.now.Store(int64(i + 1))
				if got, err := resolver.Resolve(t.Context(), test.ref); got != want || !errors.Is(err, test.err) {
					t.Errorf("Resolve = %v, %v; want %v, %v", got, err, want, test.err)
				}
			}
		})
	}
}
