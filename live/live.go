// Package live decides by policies that follow their sources: for programs that enforce policies without
// a webhook, at a door such as [github.com/usher-dev/usher/door/transport].
//
//	policies := live.New(live.Options{})
//	go func() { _ = policies.Run(ctx, dir.New(folder)) }()
//	err := policies.WaitLoaded(ctx)
//
// If a policy does not compile, its last good version stays in force. If a file cannot be read, its last
// policies stay in force. [Live.Policies], [Live.Problems] and the log report what is wrong: what does not
// compile when the policies are in force, and a little later what trying them on sample objects finds.
package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	current "github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/isolated"
	"github.com/usher-dev/usher/source"
)

// ErrNotLoaded is the error of Decide before every source has handed over its policies.
var ErrNotLoaded error = current.ErrNotLoaded

// Main lets policies be compiled, and CUE be evaluated, in worker processes, which are this program
// started again. Call it first in main, and in TestMain: in a worker process it does not return. Without
// it policies are compiled in this process, and CUE that needs its evaluator is a problem of its policy.
func Main() { isolated.Main() }

// Options configure a [Live]. The zero value works, without facts and without a log.
type Options struct {
	// Facts gets what rules read in addition to a request, such as namespaces; if it is nil, rules that
	// need facts fail, and each of their policies has a problem that says so.
	Facts fact.Resolver
	// FailurePolicy is that of rules whose policies have none; it is Fail unless set. Another text than that of
	// Fail or Ignore is an error of Run.
	FailurePolicy usher.FailurePolicy
	// RuleTimeout limits the run time of the programs of one rule for one request; 0 means one second.
	RuleTimeout time.Duration
	// InProcess uses no worker processes, also if the program calls [Main]. It is for policies that all
	// come from those who run the program: the time and memory of compiling them, and of evaluating CUE,
	// are not limited.
	InProcess bool
	// Log gets one record for each update that changes something, and one for each problem that
	// appears or disappears.
	Log *slog.Logger
	// OnUpdate, if set, is called after each update that changes something, when it is already in
	// force, and when trying the policies has found problems; calls do not overlap. Metrics.Snapshot of observe/metrics is such a function.
	OnUpdate func(usher.Snapshot)
}

// A Live is an [usher.Decider] whose policies follow their sources. It is safe for concurrent use. Use
// [New].
type Live struct {
	current *current.Live
	facts   fact.Resolver
	started atomic.Bool
	// failurePolicy is as in the options, where Run refuses it if it is none.
	failurePolicy usher.FailurePolicy
}

// New returns a Live without policies; Run loads them.
func New(o Options) *Live {
	c := compile.Options{Checker: isolated.New(worker.Shared(), isolated.Options{})}
	if o.InProcess {
		c = compile.Options{CUE: cue.InProcess(cue.Limits{})}
	}
	overruns := overrun.New(overrun.Options{Log: o.Log})
	options := current.Options{
		Facts: o.Facts, Compile: c, Log: o.Log, Stored: trial.New(trial.Options{Overruns: overruns}),
		Engine: engine.Options{FailurePolicy: o.FailurePolicy, RuleTimeout: o.RuleTimeout, Overruns: overruns},
	}
	l := &Live{facts: o.Facts, failurePolicy: o.FailurePolicy}
	options.OnUpdate = func(status current.Status) {
		if o.Log != nil && len(status.Policies) == 0 {
			o.Log.Warn(noPolicies.What, "do", noPolicies.Do)
		}
		if o.OnUpdate != nil {
			o.OnUpdate(current.Snapshot(l.current))
		}
	}
	l.current = current.New(options)
	return l
}

// Run follows sources until ctx is done, when it returns nil, or one of them fails. Nothing is
// enforced before each has handed over its policies once. If two sources have a policy of the same
// kind, namespace and name, that of the earlier argument is used. Without a source everything would be
// allowed: that is an error, and so are a source that is nil, and a second call. Sources without policies allow everything, too, since
// these may come later: that is one of the [Live.Problems], and a warning in the log.
func (l *Live) Run(ctx context.Context, sources ...source.Source) error {
	if !l.started.CompareAndSwap(false, true) {
		return errors.New("run policies: Run was called before: make another Live")
	}
	switch policy := l.failurePolicy; {
	case len(sources) == 0:
		sources = []source.Source{unusable{errors.New("there is no source of policies: name one")}}
	case slices.Contains(sources, nil):
		sources = []source.Source{unusable{errors.New("a source of policies is nil")}}
	case policy != "" && policy != usher.Fail && policy != usher.Ignore:
		sources = []source.Source{unusable{fmt.Errorf("FailurePolicy is %q: write Fail or Ignore", policy)}}
	}
	return l.current.Run(ctx, sources...)
}

// An unusable source fails, so that a program that waits for policies learns why there are none.
type unusable struct{ err error }

func (u unusable) Run(context.Context, func(source.Set)) error { return u.err }

// WaitLoaded blocks until every source has handed over its policies, and these are in force. If Run
// ends before, WaitLoaded returns its error; if ctx is done, an error that wraps [ErrNotLoaded], and says
// what keeps a source of package source/cluster from reading policies, or that Run was not called: it has to run in
// another goroutine.
func (l *Live) WaitLoaded(ctx context.Context) error { return l.unrun(l.current.WaitLoaded(ctx)) }

// unrun adds to the error of a wait that nothing was there to wait for.
func (l *Live) unrun(err error) error {
	if err == nil || l.started.Load() {
		return err
	}
	return fmt.Errorf("%w: Run was not called: start it in another goroutine", err)
}

// WaitTried blocks until the policies that are in force now have been tried on sample objects of the
// kinds of Kubernetes that they select, as by usher check: [Live.Problems] then has what a rule reads that no
// such object has, and which requests would be refused because a rule fails. Its errors are those of
// [Live.WaitLoaded], and that of ctx.
func (l *Live) WaitTried(ctx context.Context) error { return l.unrun(l.current.WaitTried(ctx)) }

// Decide decides by the policies that are in force when it is called, even if they change meanwhile.
// Its error is [ErrNotLoaded] until every source has handed over its policies. A request of admission
// without a known operation, a kind, a resource or the object that API servers send is an error, too, and one to authorize without a user, a verb or
// a resource: policies select by these.
func (l *Live) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	err := complete(r)
	if err == nil {
		err = carries(r)
	}
	if err != nil {
		return usher.Decision{}, fmt.Errorf("decide request: %w", err)
	}
	return l.current.Decide(ctx, r)
}

// Covers reports whether an API server would send a request to a webhook that is registered for the
// policies in force. Doors that see every request ask it first, so that all doors decide the same. As
// long as no policies have been loaded, almost all requests are covered; those that Decide has an error
// for always are, but for those without a kind or an object: of these it reports whether one with them may be covered,
// since a door can know the resource before it has read the object.
func (l *Live) Covers(r *usher.Request) bool {
	lacks := complete(r)
	if r != nil && r.Kind.Empty() {
		lacks = located(r)
	}
	return lacks != nil || l.current.Covers(r)
}

// complete returns what a request lacks for policies to select it.
func complete(r *usher.Request) error {
	if r == nil {
		return errors.New("there is no request")
	}
	if err := located(r); err != nil {
		return err
	}
	if r.Phase != usher.Authorize && (r.Kind.Kind == "" || r.Kind.Version == "") {
		return fmt.Errorf("kind %q: expected a kind and its version", r.Kind)
	}
	return nil
}

// carries returns which object a request of admission lacks: policies would be decided on nothing.
func carries(r *usher.Request) error {
	switch {
	case r.Phase == usher.Authorize:
	case r.Object == nil && (r.Operation == usher.Create || r.Operation == usher.Update):
		return fmt.Errorf("object is missing: a request of the operation %s needs the object as it is to be stored", r.Operation)
	case r.OldObject == nil && r.Operation == usher.Update:
		return errors.New("oldObject is missing: a request of the operation UPDATE needs the object as it is stored")
	case r.OldObject == nil && r.Operation == usher.Delete:
		return errors.New("oldObject is missing: a request of the operation DELETE needs the object that is deleted")
	}
	return nil
}

// asked returns what a request to authorize lacks.
func asked(r *usher.Request) error {
	switch {
	case r.Access == nil:
		return errors.New("access is missing: a request of the phase authorize needs one")
	case r.Access.Verb == "":
		return errors.New("verb is missing: expected one such as get, or the lower-case HTTP method of a path")
	case !r.Access.NonResource && r.Resource.Resource == "":
		return errors.New("resource is missing: expected one such as pods, or NonResource for a path")
	case r.User.Name == "" && len(r.User.Groups) == 0:
		return errors.New("user is missing: expected a name or groups; API servers add the group system:authenticated")
	}
	return nil
}

// located is complete but for the kind.
func located(r *usher.Request) error {
	switch {
	case r.Phase == usher.Authorize:
		return asked(r)
	case r.Phase != usher.Mutate && r.Phase != usher.Validate:
		return fmt.Errorf("phase %q: expected one of %q", r.Phase, []usher.Phase{usher.Mutate, usher.Validate, usher.Authorize})
	case !slices.Contains(usher.Operations(), r.Operation):
		return fmt.Errorf("operation %q: expected one of %q", r.Operation, usher.Operations())
	case r.Resource.Resource == "" || r.Resource.Version == "":
		return fmt.Errorf("resource %q: expected a resource and its version", r.Resource)
	}
	return nil
}
