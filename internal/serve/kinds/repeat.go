package kinds

import (
	"context"
	"time"
)

// repeat calls read at an interval until ctx is done. It does not wait for the last call: an API server
// that does not respond must not delay the shutdown.
func repeat(ctx context.Context, interval time.Duration, read func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		done := make(chan struct{})
		go func() {
			defer close(done)
			read()
		}()
		select {
		case <-ctx.Done():
			return
		case <-done:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
