package deadline

import (
	"context"
	"time"
)

// Sleep waits for d, and reports whether it did: it returns false when ctx is done before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
