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
	quit, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, erase)
				return
			case <-ticker.C:
				fmt.Fprint(w, erase+text())
			}
		}
	}()
	return func() {
		close(quit)
		<-finished
	}
}

// LogProgress is [ShowProgress] for what is no terminal: it writes a line a minute.
func LogProgress(w io.Writer, text func() string) (stop func()) {
	quit, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(time.Minute)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintln(w, text())
			}
		}
	}()
	return func() {
		close(quit)
		<-finished
	}
}
