// Package overrun runs evaluations that may never end. Who waits for one can leave it: Go code cannot be
// interrupted, but nobody has to wait for it.
//
// An evaluation that was left and has not ended a second after its time is a defect. It is logged with
// its stack and counted, and the rule is suspended for who wrote the object. If such evaluations do not
// end, the process should be replaced: see [Watch.Sick].
package overrun

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/breaker"
)

const (
	// Late is how long after its time an evaluation has overrun.
	Late = time.Second
	// sickAfter is how long after its time an evaluation is taken for one that never ends, and
	// mostLate how many evaluations may be late at once.
	sickAfter = 30 * time.Second
	mostLate  = 4
	// mostRules limits the rules whose overruns are remembered.
	mostRules = 1024
	// ManyIdle is enough goroutines for a server under load.
	ManyIdle = 64
	// often is how often overruns of a rule are logged at most.
	often = time.Minute
	// suspension is how long a rule is suspended first.
	suspension = 30 * time.Second
)

// Options tune a [Watch]. The zero value works.
type Options struct {
	// Idle is how many goroutines are kept for the next evaluations, until Close; 0 means that each
	// evaluation has a new one, which takes some microseconds more.
	Idle int
	// Log gets the overruns; nil discards them.
	Log *slog.Logger
}

// An Overrun is an evaluation that was left.
type Overrun struct {
	// Policy and Rule were at work, for a request of User in Namespace. They are empty if the
	// evaluation was between two rules.
	Policy          usher.PolicyRef
	Rule            string
	User, Namespace string
	// Due is when it should have ended.
	Due time.Time
	// Retry is what [Watch.Allow] has returned for the rule.
	Retry breaker.Retry
}

// A Watch runs evaluations and knows those that do not end. It is safe for concurrent use. Use [New].
type Watch struct {
	options Options
	numbers atomic.Uint64
	// suspicious is how many rules are in rules: mostly none.
	suspicious atomic.Int64
	turns      turns

	mu       sync.Mutex
	closed   bool
	idle     []*Goroutine
	rules    map[ruleKey]*suspect
	left     map[*running]bool
	overruns uint64
}

type ruleKey struct {
	policy usher.PolicyRef
	rule   string
}

// A suspect is a rule of which an evaluation was left.
type suspect struct {
	breaker breaker.Breaker
	// running are the writers for whose objects it is still at work.
	running map[string]int
	// overran says that it has overrun, and logged is when that was logged last.
	overran bool
	logged  time.Time
}

// A running evaluation was left and has not ended.
type running struct {
	Overrun

	number string
	late   *time.Timer
	// overran is set once it is late.
	overran bool
}

// New returns a Watch.
func New(o Options) *Watch {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watch{options: o, rules: map[ruleKey]*suspect{}, left: map[*running]bool{}}
}

// Go runs a task on another goroutine. The caller calls Wait, until that returns true, or Leave.
func (w *Watch) Go(task func()) *Goroutine {
	var g *Goroutine
	w.mu.Lock()
	if last := len(w.idle) - 1; last >= 0 {
		g, w.idle[last] = w.idle[last], nil
		w.idle = w.idle[:last]
	}
	w.mu.Unlock()
	if g == nil {
		g = newGoroutine(w)
	}
	g.mu.Lock()
	g.busy = true
	g.mu.Unlock()
	g.tasks <- task
	return g
}

// keep keeps a goroutine for another task.
func (w *Watch) keep(g *Goroutine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= w.options.Idle {
		close(g.tasks)
		return
	}
	w.idle = append(w.idle, g)
}

// Close ends the goroutines that do nothing. Evaluations go on.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, g := range w.idle {
		close(g.tasks)
	}
	w.idle = nil
}

// errRunning is the error of a rule that has not ended before.
var errRunning = errors.New("took too long, and has not ended yet")

// Allow returns why a rule must not run on an object of a user in a namespace, nil if it may: it is
// suspended, or has not ended yet. Unless the retry is nil, [Watch.Ended] is called when the rule has
// ended, or it is in the Overrun if the rule is left.
func (w *Watch) Allow(policy usher.PolicyRef, rule, user, namespace string) (breaker.Retry, error) {
	if w.suspicious.Load() == 0 {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.rules[ruleKey{policy, rule}]
	if s == nil {
		return nil, nil
	}
	writer := breaker.Writer(user, namespace)
	if s.running[writer] > 0 {
		return nil, errRunning
	}
	return s.breaker.Allow(time.Now(), writer)
}

// Ended ends the suspension of a rule that was tried again.
func (w *Watch) Ended(policy usher.PolicyRef, rule, user, namespace string, t breaker.Retry) {
	w.report(ruleKey{policy, rule}, breaker.Writer(user, namespace), t, breaker.Answered)
}

func (w *Watch) report(k ruleKey, writer string, t breaker.Retry, v breaker.Verdict) {
	w.mu.Lock()
	s := w.rules[k]
	w.mu.Unlock()
	if s != nil {
		s.breaker.Report(time.Now(), breaker.Limits{Overruns: 1, Suspension: suspension}, writer, t, v)
	}
}

// add remembers an evaluation that was left.
func (w *Watch) add(o Overrun, number string) *running {
	r := &running{Overrun: o, number: number}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[r] = true
	if o.Rule != "" {
		w.suspect(r.key()).running[r.writer()]++
	}
	r.late = time.AfterFunc(time.Until(o.Due.Add(Late)), func() { w.overran(r) })
	return r
}

func (r *running) key() ruleKey { return ruleKey{r.Policy, r.Rule} }

func (r *running) writer() string { return breaker.Writer(r.User, r.Namespace) }

// suspect returns what is known of a rule. Of too many rules it forgets one that is not at work. The
// caller holds the lock.
func (w *Watch) suspect(k ruleKey) *suspect {
	if s := w.rules[k]; s != nil {
		return s
	}
	for other, s := range w.rules {
		if len(w.rules) < mostRules {
			break
		}
		if len(s.running) == 0 {
			delete(w.rules, other)
		}
	}
	s := &suspect{running: map[string]int{}}
	w.rules[k] = s
	w.suspicious.Store(int64(len(w.rules)))
	return s
}

// end forgets an evaluation that has ended. One that was not late leaves no trace.
func (w *Watch) end(r *running) {
	r.late.Stop()
	w.mu.Lock()
	overran := r.overran
	delete(w.left, r)
	if s := w.rules[r.key()]; s != nil && r.Rule != "" {
		if s.running[r.writer()]--; s.running[r.writer()] <= 0 {
			delete(s.running, r.writer())
		}
		if len(s.running) == 0 && !s.overran {
			delete(w.rules, r.key())
			w.suspicious.Store(int64(len(w.rules)))
		}
	}
	w.mu.Unlock()
	if !overran && r.Retry != nil {
		w.report(r.key(), r.writer(), r.Retry, breaker.Unknown)
	}
}

// overran suspends the rule of an evaluation that is late, and logs it.
func (w *Watch) overran(r *running) {
	w.mu.Lock()
	if !w.left[r] {
		w.mu.Unlock()
		return
	}
	r.overran = true
	w.overruns++
	logs := true
	if s := w.rules[r.key()]; s != nil && r.Rule != "" {
		s.overran = true
		logs = time.Since(s.logged) > often
		if logs {
			s.logged = time.Now()
		}
	}
	w.mu.Unlock()
	if r.Rule != "" {
		w.report(r.key(), r.writer(), r.Retry, breaker.Overran)
	}
	if logs {
		w.options.Log.Error("evaluation goes on after its time: the rule is suspended for the user; please report this as a defect",
			"policy", r.Policy.String(), "rule", r.Rule, "user", r.User, "namespace", r.Namespace, "late", time.Since(r.Due).Round(time.Millisecond).String(), "stack", stackOf(r.number))
	}
}

// A State is what a [Watch] knows.
type State struct {
	// Overruns is how many evaluations were late, and Late those that are now, the oldest first.
	Overruns uint64
	Late     []Overrun
}

// State returns what w knows.
func (w *Watch) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := State{Overruns: w.overruns}
	for r := range w.left {
		if r.overran {
			state.Late = append(state.Late, r.Overrun)
		}
	}
	sortByDue(state.Late)
	return state
}

// Sick returns why the process should be replaced, "" if it should not: an evaluation does not end, or too
// many are late at once.
func (s State) Sick(now time.Time) string {
	switch {
	case len(s.Late) > mostLate:
		return fmt.Sprintf("%d evaluations go on after their time", len(s.Late))
	case len(s.Late) > 0 && now.Sub(s.Late[0].Due) >= sickAfter:
		return fmt.Sprintf("an evaluation goes on %s after its time", now.Sub(s.Late[0].Due).Round(time.Second))
	}
	return ""
}
