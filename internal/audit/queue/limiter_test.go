package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/internal/audit/queue"
)

func TestJudgingIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, limiter := time.Now(), queue.NewLimiter(0.5)
		spend := limiter.Share().Spend
		for range 100 {
			// The time is spent, too.
			time.Sleep(250 * time.Microsecond)
			spend(250 * time.Microsecond)
		}
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("25 ms of half a core took %s", took)
		}
		start = time.Now()
		done := make(chan bool)
		for range 4 {
			spend := limiter.Share().Spend
			go func() {
				for range 25 {
					spend(time.Millisecond)
				}
				done <- true
			}()
		}
		for range 4 {
			<-done
		}
		// Nothing is spent here: what was counted is paid for twice over, but for that itself.
		if took := time.Since(start); took < 150*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("100 ms of half a core, in four goroutines, took %s", took)
		}
		start = time.Now()
		spend(time.Minute)
		if took := time.Since(start); took > time.Second {
			t.Errorf("what waited for a minute has to pay for it with %s", took)
		}
	})
}
