package stall_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/stall"
)

var errOwn = errors.New("own")

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		limit   time.Duration
		steps   []string
		each    time.Duration
		endless bool
		err     error
		want    error
		took    time.Duration
	}{
		{reason: "work that returns", limit: time.Second, each: time.Millisecond},
		{reason: "work that fails", limit: time.Second, err: errOwn, want: errOwn},
		{reason: "endless work", limit: time.Second, endless: true, want: &stall.Error{Limit: time.Second}, took: time.Second},
		{reason: "an endless step", limit: time.Second, steps: []string{"a", "b"}, each: 600 * time.Millisecond, endless: true, want: &stall.Error{At: "b", Limit: time.Second}, took: 1600 * time.Millisecond},
		{reason: "many steps", limit: time.Second, steps: []string{"a", "b", "c"}, each: 900 * time.Millisecond, took: 2700 * time.Millisecond},
		{reason: "no limit", steps: []string{"a"}, each: time.Hour, took: time.Hour},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				start := time.Now()
				value, err := stall.Within(t.Context(), row.limit, func(ctx context.Context) (int, error) {
					for _, step := range row.steps {
						stall.Of(ctx).At(step)
						time.Sleep(row.each)
					}
					if row.endless {
						<-release
					}
					return 1, row.err
				})
				if row.want == nil && (err != nil || value != 1) {
					t.Errorf("%d, %v; want 1", value, err)
				}
				if late, ok := errors.AsType[*stall.Error](row.want); ok {
					got, _ := errors.AsType[*stall.Error](err)
					if diff := cmp.Diff(late, got); diff != "" {
						t.Errorf("error (-want +got):\n%s", diff)
					}
				} else if !errors.Is(err, row.want) {
					t.Errorf("error %v, want %v", err, row.want)
				}
				if took := time.Since(start); row.took > 0 && took != row.took {
					t.Errorf("it took %s, want %s", took, row.took)
				}
			})
		})
	}
}

// TestWithinEnds: the end of the context ends the wait also for work that does not look at it.
func TestWithinEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errOwn)
		_, err := stall.Within(ctx, time.Hour, func(context.Context) (int, error) {
			<-release
			return 1, nil
		})
		if !errors.Is(err, errOwn) {
			t.Errorf("error %v, want %v", err, errOwn)
		}
		value, err := stall.Within(ctx, time.Hour, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 2, nil
		})
		if value != 2 || err != nil {
			t.Errorf("%d, %v: what the work returned is lost", value, err)
		}
	})
}
