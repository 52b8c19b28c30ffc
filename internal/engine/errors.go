package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

var (
	errNoResolver = errors.New("nothing here resolves facts: in Go, set live.Options.Facts")
	// errNoPod is the error of a fact whose request could have side effects, for a pod that nobody
	// creates.
	errNoPod = errors.New("not requested for the pod that a workload would make: only GET and HEAD have no side effects")
)

// A PanicError is the error of a rule whose program panicked.
type PanicError struct {
	// Value is the value of the panic, Stack the stack trace of debug.Stack.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panicked: %v", e.Value) }

// Unwrap returns the value of the panic, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// catch makes a panic the error. It is deferred itself: recover works in deferred functions alone.
func catch(err *error) {
	if value := recover(); value != nil {
		*err = &PanicError{Value: value, Stack: debug.Stack()}
	}
}

// An OverrunError is the error of a rule whose programs ran longer than [Options.RuleTimeout], or until
// the request's time was over. Rules that were not reached by then have it, too.
type OverrunError struct {
	Limit time.Duration
	// Request says that the limit is that of the request.
	Request bool
	// Starved says that they waited for a turn then.
	Starved bool
	// Err is the program's error, nil if the program has not answered.
	Err error
}

func (e *OverrunError) Error() string {
	text := "took too long: overran its time of " + e.Limit.String()
	if e.Request {
		text = fmt.Sprintf("took too long: the request's time of %s is over", e.Limit)
	}
	if errors.Is(e.Err, rule.ErrUnreached) {
		return text + " before the rule was reached"
	}
	if e.Starved {
		return text + " while it waited for a turn: policies of a namespace may take a part of the processors only"
	}
	if e.Err == nil || errors.Is(e.Err, context.DeadlineExceeded) {
		return text
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *OverrunError) Unwrap() error { return e.Err }

// overdue reports whether the time of a request is over. Its rules then fail, and their failure policies
// decide. A request that was cancelled is not decided: nobody waits for it.
func overdue(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// ended is the error of a context that ended before a rule did.
func ended(ctx context.Context, r *rule.Rule) error {
	return fmt.Errorf("decide request: %s: %w", place(r.Policy, r.Name), context.Cause(ctx))
}

// place names a rule for messages.
func place(policy usher.PolicyRef, rule string) string {
	if builtIn(policy) {
		return rule
	}
	return policy.String() + " " + rule
}

// failure is the message for the user whose request is denied because a rule failed.
func failure(f *usher.Finding) string {
	return fmt.Sprintf("%v (%s)", f.Err, place(f.Policy, f.Rule))
}
