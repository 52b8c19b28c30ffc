package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/internal/deadline"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		limit  time.Duration
		want   bool
		took   time.Duration
	}{
		{"nothing ends it", time.Hour, true, time.Minute},
		{"the context ends before", time.Second, false, time.Second},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), row.limit)
				defer cancel()
				start := time.Now()
				if got := deadline.Sleep(ctx, time.Minute); got != row.want || time.Since(start) != row.took {
					t.Errorf("returned %t after %s", got, time.Since(start))
				}
			})
		})
	}
}
