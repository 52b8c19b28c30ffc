package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/routes"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

const (
	// settling is how long to wait after a change of policies, because another one may follow.
	settling = 100 * time.Millisecond
	// checkEvery is the interval for checks without a reason: someone may have changed the webhook
	// configurations, or added a kind that policies name. Until then policies may not be enforced.
	checkEvery = 30 * time.Second
	// After an error the next attempt is made after retryFirst, then after twice as long
	// each time, at most retryMost.
	retryFirst = time.Second
	retryMost  = time.Minute

	applyTimeout = 30 * time.Second
)

// A configurer writes the webhook configurations of a coverage.
type configurer interface {
	Apply(ctx context.Context, coverage rule.Coverage, caBundle []byte) error
}

// A webhookConfigSync keeps the webhook configurations as the policies need them. Every replica
// writes them when its policies change: the second finds nothing to write. Only the leader checks
// them periodically. Replicas may need different configurations for a long time, if one has the
// last good version of a policy and another never had it: they must not undo each other's changes
// forever.
type webhookConfigSync struct {
	configurer configurer
	// paths chooses the paths that the configurer registers; nil means that the configurer chooses
	// them.
	paths   *routes.Routes
	mapper  meta.ResettableRESTMapper
	leads   func() bool
	log     *slog.Logger
	changed chan struct{}
	// doubted has a buffer for one signal that the webhook configurations may have changed.
	doubted chan struct{}
	// made is called when the webhook configurations are what the policies need; it may be nil.
	made func()

	mu    sync.Mutex
	state syncStatus
	// waiting waits for the result of the newest change; nil if it has it.
	waiting *handover
}

// A handover waits until the webhook configurations have what a change of policies needs.
type handover struct {
	// tell is called with nil when they do, and before that with the errors of failed attempts.
	tell func(error)
	told error
}

// A syncStatus is the result of the newest attempt.
type syncStatus struct {
	// done says that the webhook configurations are, as far as known, what the policies need.
	done  bool
	since time.Time
	// checked is when that was found out last.
	checked time.Time
	// err is why they are not, or why they are incomplete.
	err error
}

// needs are the inputs of the webhook configurations.
type needs struct {
	coverage rule.Coverage
	caBundle []byte
	// paths is the name of the chosen paths.
	paths string
}

func newWebhookConfigSync(e configurer, mapper meta.ResettableRESTMapper, leads func() bool, log *slog.Logger) *webhookConfigSync {
	return &webhookConfigSync{configurer: e, mapper: mapper, leads: leads, log: log, changed: make(chan struct{}, 1), doubted: make(chan struct{}, 1)}
}

// signal reports that policies have changed, and the function to call with the result. A newer
// change replaces an unfinished one.
func (r *webhookConfigSync) signal(tell func(error)) {
	r.mu.Lock()
	r.waiting = &handover{tell: tell}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// recheck requests a check soon: someone may have changed the webhook configurations.
func (r *webhookConfigSync) recheck() {
	select {
	case r.doubted <- struct{}{}:
	default:
	}
}

// status returns the result of the newest attempt.
func (r *webhookConfigSync) status() syncStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// kept says since when the webhook configurations are what the policies need, and when that was found out: someone may
// have changed or deleted them since.
func (r *webhookConfigSync) kept(s syncStatus) string {
	text := fmt.Sprintf("as the policies need it, since %s, last checked %s ago", s.since.Format(time.RFC3339), time.Since(s.checked).Round(time.Second))
	if !r.leads() {
		text += "; the replica that leads checks it again"
	}
	return text
}

// A trust provides the CA that API servers must trust.
type trust interface {
	CA() []byte
	// Changes tells when CA may have changed.
	Changes() <-chan struct{}
}

// run applies changes of the policies' coverage and of the CA, from the first policies on, until
// ctx is done.
func (r *webhookConfigSync) run(ctx context.Context, coverage func() rule.Coverage, ca trust) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.changed:
	}
	k := &keeping{webhookConfigSync: r, coverage: coverage, ca: ca}
	backoff := newBackoff()
	for {
		waiting, want := r.waits(), k.needs()
		pause := checkEvery
		err := r.attempt(ctx, &want)
		var unknown *webhookconfig.IncompleteError
		switch {
		case err == nil:
			k.done, backoff = &want, newBackoff()
		case errors.As(err, &unknown) && unknown.Error() == err.Error():
			// Everything that can be registered is registered. New kinds may not be known yet.
			k.done, backoff = &want, newBackoff()
			if text(r.status().err) != text(err) {
				pause = retryFirst
			}
		default:
			k.done, pause = nil, backoff.Step()
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The end of ctx is why it failed.
		}
		r.tell(k.done != nil, err)
		if k.done != nil {
			err = nil
			if r.made != nil {
				r.made()
			}
		}
		r.handOver(waiting, err)
		if !k.await(ctx, pause) {
			return nil
		}
	}
}

func (r *webhookConfigSync) waits() *handover {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// handOver reports the result of the change of h, each result once.
func (r *webhookConfigSync) handOver(h *handover, err error) {
	if h == nil || err != nil && text(h.told) == text(err) {
		return
	}
	h.told = err
	h.tell(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.waiting == h {
		r.waiting = nil
	}
}

func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: 0.2, Steps: 10, Cap: retryMost}
}

func (r *webhookConfigSync) attempt(ctx context.Context, n *needs) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	if r.paths != nil {
		chosen, err := r.paths.Choose(ctx)
		if n.paths = chosen.Name; err != nil || chosen.Hold {
			return err
		}
	}
	// API servers include the URL in errors about it.
	return paths.Redacted(r.configurer.Apply(ctx, n.coverage, n.caBundle))
}

// keeping is the state of run.
type keeping struct {
	*webhookConfigSync
	coverage func() rule.Coverage
	ca       trust
	// done is what is registered, as far as is known; nil after an error.
	done *needs
}

func (k *keeping) needs() needs {
	n := needs{coverage: k.coverage(), caBundle: k.ca.CA()}
	if k.paths != nil {
		n.paths = k.paths.Name()
	}
	return n
}

// await returns when it is time for the next attempt: after the pause, or when what is
// needed differs. It returns false when ctx is done.
func (k *keeping) await(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(wait.Jitter(pause, 0.1))
	defer timer.Stop()
	var chosen <-chan struct{}
	if k.paths != nil {
		chosen = k.paths.Changed()
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			if k.done == nil || k.leads() {
				// Kinds are added, and known ones get other versions.
				k.mapper.Reset()
				return true
			}
			timer.Reset(wait.Jitter(checkEvery, 0.1))
			continue
		case <-k.doubted:
			if k.done == nil || k.leads() {
				return true
			}
			continue
		case <-k.changed:
		case <-k.ca.Changes():
		case <-chosen:
		}
		if !k.differs() {
			continue
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(settling):
			return true
		}
	}
}

// differs reports whether the policies need something else than is registered. If not, it ends the
// wait for the change.
func (k *keeping) differs() bool {
	waiting, want := k.waits(), k.needs()
	if k.done == nil || !reflect.DeepEqual(*k.done, want) {
		return true
	}
	k.handOver(waiting, nil)
	return false
}

// tell records the result of an attempt, and logs it if it is new.
func (r *webhookConfigSync) tell(done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.state
	if last.done != done || last.since.IsZero() || text(last.err) != text(err) {
		r.state = syncStatus{done: done, since: time.Now(), err: err}
	}
	r.state.checked = time.Now()
	switch {
	case text(last.err) == text(err):
	case err == nil:
		r.log.Info("registration is complete again")
	case done:
		r.log.Warn("registration is not complete", "error", err)
	default:
		if _, ok := errors.AsType[*webhookconfig.ForeignError](err); ok {
			r.log.Error("registration fails", "error", err,
				"do", "delete what has the name, or choose another name with --webhook-configuration-name")
			return
		}
		r.log.Error("registration fails; trying again", "error", err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
