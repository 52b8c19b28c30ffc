package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// grace is how long a command may take to end when a signal says so: in all, less than a second.
const grace = 800 * time.Millisecond

// The annotation of commands that go on until a signal, and its values.
const (
	endless   = "usher.dev/endless"
	promptly  = "promptly"
	gradually = "gradually"
)

// Endless marks a command that goes on until a signal: its exit status is then that of its error.
func Endless(cmd *cobra.Command) { annotate(cmd, promptly) }

// EndlessWithGrace is [Endless] for a command that ends in its own time after the first signal.
func EndlessWithGrace(cmd *cobra.Command) { annotate(cmd, gradually) }

func annotate(cmd *cobra.Command, how string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[endless] = how
}

// Main runs the command line of the process and returns its exit status.
//
// SIGINT and SIGTERM cancel the context of the command. One that has not returned a moment later is
// left where it is: it may be computing something that knows no end. A second signal does not wait.
func Main(newRoot func(Streams) *cobra.Command) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var running atomic.Pointer[cobra.Command]
	s := Streams{In: os.Stdin, Out: NewScreen(os.Stdout), Err: NewScreen(os.Stderr)}
	status := make(chan int, 1)
	go func() { status <- execute(ctx, newRoot, s, os.Args[1:], running.Store) }()
	var told *signalError
	var late <-chan time.Time
	for {
		select {
		case code := <-status:
			return code
		case <-late:
			return abandon(s, running.Load(), told)
		case received := <-signals:
			if told != nil {
				return abandon(s, running.Load(), told)
			}
			told = signalled(received)
			cancel(told)
			if cmd := running.Load(); cmd == nil || cmd.Annotations[endless] != gradually {
				late = time.After(grace)
			}
		}
	}
}

// A signalError is the signal that ends a command.
type signalError struct {
	what   string
	status int
}

// Error implements error.
func (e *signalError) Error() string { return e.what }

// Is reports whether target is what contexts usually end with.
func (*signalError) Is(target error) bool { return target == context.Canceled }

// signalled returns the error for a signal. Its status is the one that shells have for it.
func signalled(received os.Signal) *signalError {
	if received == os.Interrupt {
		return &signalError{"interrupted", 128 + int(syscall.SIGINT)}
	}
	return &signalError{"terminated", 128 + int(syscall.SIGTERM)}
}

// signalOf returns the signal that has ended cmd before it was finished; nil if none has.
func signalOf(ctx context.Context, cmd *cobra.Command) *signalError {
	if cmd.Annotations[endless] != "" {
		return nil
	}
	told, _ := errors.AsType[*signalError](context.Cause(ctx))
	return told
}

// abandon reports that a command has not ended by itself, and returns the exit status.
func abandon(s Streams, cmd *cobra.Command, told *signalError) int {
	// The command may be in the middle of a line, and hold the locks of its streams forever.
	done := make(chan struct{})
	go func() {
		defer close(done)
		if IsTerminal(s.Err) {
			begin := escapeOf(s.Err)
			_, _ = io.WriteString(s.Err, begin+"[0m"+begin+"[G"+begin+"[K")
		}
		if cmd != nil {
			printError(cmd, s, os.Args[1:], told)
		}
	}()
	select {
	case <-done:
	case <-time.After(grace / 8):
	}
	return told.status
}
