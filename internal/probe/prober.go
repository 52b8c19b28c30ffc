package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/usher-dev/usher/internal/deadline"
)

const (
	// every is the time between two probes while all is well, and lostEvery while it is not.
	every     = 30 * time.Second
	lostEvery = 5 * time.Second
	// A probe that is lost is repeated, first after firstRetry and then after twice as long
	// each time. When it has been lost for lostAfter, several times in a row, API servers are
	// taken not to call.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	lostAfter  = 10 * time.Second
	// gap is the least time between two probes, however often [Prober.Again] is called.
	gap = time.Second
	// writeTimeout is how long a probe may take.
	writeTimeout = 5 * time.Second
)

// A State is the result of probing.
type State string

// The states.
const (
	// Awaited is the state before the first probe has come back.
	Awaited State = "awaited"
	// Called means that API servers call the webhooks, NotCalled that they do not, or get no
	// response.
	Called    State = "called"
	NotCalled State = "not_called"
	// Unknown means that there is no result.
	Unknown State = "unknown"
)

// An Observation is what probes have shown.
type Observation struct {
	State State
	// Message is why the state is NotCalled or Unknown, and what to do.
	Message string
	// Since is when that state began, At when the newest probe ended.
	Since, At time.Time
	// Hangs means that the dry run got no answer in time from an API server that answers other requests: a webhook
	// does not answer.
	Hangs bool
	// refused means that a replica took the probe for a policy.
	refused bool
}

// Options configure a [Prober]. Writer and Keys are needed.
type Options struct {
	Writer Writer
	Keys   Keys
	// Advice is what to do when API servers do not call.
	Advice string
	// Foreign means that Usher does not maintain the webhook configurations, which may not include
	// policies: then a missing answer does not mean much.
	Foreign bool
	// Closed writes to an entry that API servers fail closed, so that they say why they get no answer; for [Ask]. It
	// may be nil.
	Closed Writer
	// Count is called with the state that each probe shows; it may be nil.
	Count func(State)
	// Lost is called when a probe is lost, before it is repeated; it may be nil.
	Lost func()
	// Log is slog.Default if nil.
	Log *slog.Logger
}

// A Prober sends probes. Use [New]. It is safe for concurrent use.
type Prober struct {
	options Options
	again   chan struct{}

	mu     sync.Mutex
	result Observation
}

// New returns a Prober that does nothing until it runs.
func New(o Options) *Prober {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Count == nil {
		o.Count = func(State) {}
	}
	if o.Lost == nil {
		o.Lost = func() {}
	}
	return &Prober{options: o, again: make(chan struct{}, 1)}
}

// Again requests a probe soon, after a change.
func (p *Prober) Again() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// Result returns the last result; ok is false while the Prober does not run.
func (p *Prober) Result() (result Observation, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result, p.result.State != ""
}

// Run probes until ctx is done, and calls tell with each result that differs from the one
// before, first with [Awaited].
func (p *Prober) Run(ctx context.Context, tell func(Observation)) {
	p.take(Observation{State: Awaited}, tell)
	defer func() {
		p.mu.Lock()
		p.result = Observation{}
		p.mu.Unlock()
	}()
	for {
		last, _ := p.Result()
		next := p.probe(ctx, last.State)
		if ctx.Err() != nil {
			return
		}
		p.take(next, tell)
		rest := every
		if next.State == NotCalled {
			rest = lostEvery
		}
		if !p.await(ctx, rest) {
			return
		}
	}
}

// await returns false if ctx is done before it is time for the next probe.
func (p *Prober) await(ctx context.Context, rest time.Duration) bool {
	if !deadline.Sleep(ctx, gap) {
		return false
	}
	timer := time.NewTimer(wait.Jitter(rest-gap, 0.1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-p.again:
	case <-timer.C:
	}
	return true
}

// probe repeats a probe that is lost until lostAfter is over. One that was lost before is not
// repeated: the next one comes soon.
func (p *Prober) probe(ctx context.Context, last State) Observation {
	began, retry := time.Now(), firstRetry
	for attempt := 1; ; attempt++ {
		result, passing := p.attempt(ctx)
		if ctx.Err() != nil {
			return result
		}
		p.options.Count(result.State)
		if result.State == Called && attempt > 1 {
			p.options.Log.Warn("an API server did not call the webhooks at first; if this happens often, one of several does not",
				"attempts", attempt, "took", time.Since(began))
		}
		if attempt == 1 && result.State == NotCalled {
			p.options.Lost()
		}
		over := last == NotCalled || attempt > 1 && time.Since(began) >= lostAfter
		switch {
		case over && result.refused:
			// It was called nevertheless: a replica of another version, or with a certificate of
			// its own.
			return Observation{State: Called}
		case result.State == Called, result.State == Unknown && !passing:
			return result
		case over && passing && last != Awaited:
			// The API server does not respond: the last result stays valid until it does.
			result, _ = p.Result()
			return result
		case over:
			return result
		}
		if !deadline.Sleep(ctx, retry) {
			return result
		}
		retry = min(2*retry, lastRetry)
	}
}

// attempt sends one probe. A temporary error that is not caused by the webhooks makes the state
// Unknown.
func (p *Prober) attempt(ctx context.Context) (result Observation, passing bool) {
	keys := p.options.Keys()
	if len(keys) == 0 {
		return unknown("replicas have no key in common"), false
	}
	asked := question(keys[0], time.Now())
	warnings, err := p.options.Writer.Write(ctx, asked)
	if err != nil {
		return p.failed(err)
	}
	nonce, key := answerable(asked, keys[:1], time.Now())
	var missing []string
	for _, phase := range phases() {
		if !slices.Contains(warnings, answer(key, phase, nonce)) {
			missing = append(missing, string(phase))
		}
	}
	switch {
	case len(missing) == 0:
		return Observation{State: Called}, false
	case p.options.Foreign:
		return unknown(fmt.Sprintf("the webhooks are registered by somebody else, and what is written to policies is not sent to /%s",
			strings.Join(missing, " and /"))), false
	}
	return p.lost(fmt.Sprintf("a dry run came back without an answer of the webhook for %s", strings.Join(missing, " and of that for "))), false
}

// Ask finds out once whether API servers call the webhooks, without the keys that replicas share: one that is
// called takes the dry run for a policy, and refuses it, since it does not compile. That says nothing about the
// mutating webhook. The API server has just answered other requests.
func Ask(ctx context.Context, o Options) Observation {
	p := New(o)
	_, err := o.Writer.Write(ctx, "")
	switch result, _ := p.failed(err); {
	case err == nil && o.Foreign:
		return unknown("no webhook is registered for the dry run of a policy")
	case err == nil:
		lost := p.lost("a dry run of a policy that does not compile was accepted")
		if o.Closed != nil {
			if _, err := o.Closed.Write(ctx, ""); err != nil && ours.MatchString(err.Error()) {
				return p.lost(err.Error())
			}
		}
		return lost
	case result.refused:
		return Observation{State: Called}
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		lost := p.lost(fmt.Sprintf("a dry run got no answer in %s while the API server answers other requests", writeTimeout))
		lost.Hangs = true
		return lost
	default:
		return result
	}
}

func unknown(message string) Observation { return Observation{State: Unknown, Message: message} }

func (p *Prober) lost(message string) Observation {
	return Observation{State: NotCalled, Message: message + "; " + p.options.Advice}
}

// ours matches what API servers say of webhooks of ours that they could not call, if their
// failure policy is Fail. The names are those of package webhookconfig.
var ours = regexp.MustCompile(`^(Internal error occurred: )?failed calling webhook "[^"]*\.usher\.dev"`)

// foreignDenial matches the error of API servers when a webhook of Usher takes a probe for a
// policy.
var foreignDenial = regexp.MustCompile(`^admission webhook "[^"]*\.usher\.dev" denied the request`)

// failed interprets the error of a write.
func (p *Prober) failed(err error) (result Observation, passing bool) {
	var status apierrors.APIStatus
	var deleted DeletedError
	switch {
	case errors.As(err, &deleted):
		return unknown(err.Error()), false
	case errors.Is(err, context.DeadlineExceeded):
		return unknown(fmt.Sprintf("a dry run got no answer in %s: the API server or a webhook does not answer", writeTimeout)), true
	case !errors.As(err, &status):
		return unknown(fmt.Sprintf("the API server does not answer: %v", err)), true
	case ours.MatchString(err.Error()):
		return p.lost(err.Error()), false
	case foreignDenial.MatchString(err.Error()):
		return Observation{State: Unknown, refused: true}, true
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "):
		return unknown(fmt.Sprintf("no rights: %v; upgrade the chart, or grant create and patch of %s %s", err, resource, Name)), false
	case apierrors.IsNotFound(err):
		return unknown("the cluster does not know " + resource + ": apply the CustomResourceDefinitions of Usher"), false
	}
	code := status.Status().Code
	return unknown(fmt.Sprintf("the dry run was refused: %v", err)), code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// take stores a result, and reports it if it changed.
func (p *Prober) take(next Observation, tell func(Observation)) {
	next.At = time.Now()
	p.mu.Lock()
	last := p.result
	next.Since = last.Since
	if next.State != last.State {
		next.Since = next.At
	}
	p.result = next
	p.mu.Unlock()
	if next.State == last.State && next.Message == last.Message {
		return
	}
	if next.State != last.State || next.State != NotCalled {
		p.log(last.State, next)
	}
	tell(next)
}

func (p *Prober) log(last State, next Observation) {
	switch next.State {
	case Awaited:
	case NotCalled:
		p.options.Log.Error("API servers do not call the webhooks: policies are not enforced", "error", next.Message)
	case Unknown:
		p.options.Log.Warn("whether API servers call the webhooks is not known", "error", next.Message)
	case Called:
		level := slog.LevelInfo
		if last == NotCalled {
			level = slog.LevelWarn
		}
		p.options.Log.Log(context.Background(), level, "API servers call the webhooks")
	}
}
