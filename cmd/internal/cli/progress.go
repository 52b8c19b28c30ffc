package cli

import (
	"fmt"
	"io"
	"time"
)

// ShowProgress shows on a terminal how far a command is, if it takes long. It calls text, which must
// be safe for concurrent use, until stop is called; stop removes what is shown.
func ShowProgress(w io.Writer, text func() string) (stop func()) {
	if !IsTerminal(w) {
		return func() {}
	}
	begin := escapeOf(w)
	// To the first column, and nothing after it.
	erase := begin + "[G" + begin + "[K"
	return every(500*time.Millisecond, func() { fmt.Fprint(w, erase+text()) }, func() { fmt.Fprint(w, erase) })
}

// LogProgress is [ShowProgress] for what is no terminal: it writes a line a minute.
func LogProgress(w io.Writer, text func() string) (stop func()) {
	return every(time.Minute, func() { fmt.Fprintln(w, text()) }, func() {})
}

// every calls tick at an interval, and end when it is stopped.
func every(interval time.Duration, tick, end func()) (stop func()) {
	quit, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				end()
				return
			case <-ticker.C:
				tick()
			}
		}
	}()
	return func() {
		close(quit)
		<-finished
	}
}
