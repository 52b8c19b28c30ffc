// Package ratelog logs events whose number callers control, such as rejected requests: one every
// ten seconds for the same reason. Metrics count the others.
package ratelog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// interval is how long events with the same reason are not logged after one was.
const interval = 10 * time.Second

// A Logger logs one event in ten seconds for each reason. It is safe for concurrent use.
type Logger struct {
	log *slog.Logger

	mu       sync.Mutex
	byReason map[string]*rate.Sometimes
}

// New returns a logger that writes to log.
func New(log *slog.Logger) *Logger {
	return &Logger{log: log, byReason: map[string]*rate.Sometimes{}}
}

// Warn logs the event, unless one with the same reason was logged in the last ten seconds. It keeps
// every reason: they must be few, and never text of a caller.
func (l *Logger) Warn(ctx context.Context, reason, message string, args ...any) {
	l.mu.Lock()
	often := l.byReason[reason]
	if often == nil {
		often = &rate.Sometimes{First: 1, Interval: interval}
		l.byReason[reason] = often
	}
	l.mu.Unlock()
	often.Do(func() {
		l.log.WarnContext(ctx, message+"; more with this reason are only counted for a while",
			append([]any{"reason", reason}, args...)...)
	})
}
