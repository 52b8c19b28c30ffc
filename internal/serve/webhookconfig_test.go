package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A registrar replaces the webhook configurations, the policies and the CA. It is used in a bubble
// of synctest.
type registrar struct {
	meta.RESTMapper
	t      *testing.T
	log    bytes.Buffer
	status func() (bool, error)
	kept   func() string
	ca     chan struct{}
	resets atomic.Int32
	// follows says that another replica leads.
	follows atomic.Bool
	change  func(tell func(error))

	mu      sync.Mutex
	kind    string
	bundle  string
	err     error
	applied []string
}

func register(t *testing.T) *registrar {
	r := &registrar{t: t, kind: "Pod", bundle: "CA", ca: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	leads := func() bool { return !r.follows.Load() }
	r.change, r.status, r.kept = serve.KeepRegistered(ctx, r, r, leads, log, r.coverage, r)
	return r
}

// signal says that policies have changed.
func (r *registrar) signal() { r.change(func(error) {}) }

func (r *registrar) coverage() rule.Coverage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rule.Coverage{Mutate: []rule.Covered{{APIVersion: "v1", Kind: r.kind}}}
}

func (r *registrar) CA() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []byte(r.bundle)
}

func (r *registrar) Changes() <-chan struct{} { return r.ca }

func (r *registrar) Reset() { r.resets.Add(1) }

func (r *registrar) Apply(_ context.Context, coverage rule.Coverage, caBundle []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, coverage.Mutate[0].Kind+" "+string(caBundle))
	return r.err
}

func (r *registrar) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// after lets time pass, and returns what was applied meanwhile.
func (r *registrar) after(d time.Duration) []string {
	time.Sleep(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	applied := r.applied
	r.applied = nil
	return applied
}

func (r *registrar) expect(d time.Duration, reason string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.after(d)); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestRegistrationFollowsPoliciesAndCA(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		r.expect(time.Hour, "before there are policies")
		r.signal()
		r.expect(time.Second, "with the first policies", "Pod CA")
		if done, err := r.status(); !done || err != nil {
			t.Errorf("status is %t, %v", done, err)
		}
		r.signal()
		r.expect(time.Second, "policies that need nothing else")
		for _, kind := range []string{"Secret", "Node", "Service"} {
			r.set(func() { r.kind = kind })
			r.signal()
		}
		r.expect(time.Second, "several changes at once", "Service CA")
		r.set(func() { r.bundle = "CA2" })
		r.ca <- struct{}{}
		r.expect(time.Second, "another CA", "Service CA2")
		r.expect(40*time.Second, "somebody may have meddled with it", "Service CA2")
		if r.resets.Load() == 0 {
			t.Error("discovery is not read again: a kind that gets another version would not be noticed")
		}
	})
}

// A change of policies has arrived when API servers ask for what it needs.
func TestChangesAreToldWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		var told []string
		change := func(name string) {
			r.change(func(err error) { r.set(func() { told = append(told, fmt.Sprintf("%s: %v", name, err)) }) })
		}
		expect := func(d time.Duration, reason string, want ...string) {
			t.Helper()
			r.after(d)
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("%s (-want +got):\n%s", reason, diff)
			}
			told = nil
		}
		change("first")
		expect(time.Second, "when it is registered", "first: <nil>")
		change("same")
		expect(0, "at once if nothing else is needed", "same: <nil>")
		r.set(func() { r.kind, r.err = "Secret", errors.New("forbidden") })
		change("refused")
		expect(10*time.Second, "the error, once", "refused: forbidden")
		change("overtaking")
		expect(time.Second, "the newer change only", "overtaking: forbidden")
		r.set(func() { r.err = nil })
		expect(2*time.Minute, "when the API server allows it", "overtaking: <nil>")
		expect(time.Hour, "nothing more")
		r.set(func() {
			r.kind, r.err = "Widget", &webhookconfig.IncompleteError{Kinds: []string{"example.com/v1 Widget"}}
		})
		change("unknown")
		expect(time.Second, "nobody can ask for a kind that does not exist", "unknown: <nil>")
	})
}

func TestOnlyTheLeaderLooksAgainWithoutReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		r.follows.Store(true)
		r.signal()
		r.expect(time.Second, "with the first policies", "Pod CA")
		r.expect(time.Hour, "another replica looks")
		r.set(func() { r.kind = "Secret" })
		r.signal()
		r.expect(time.Second, "what changed is a reason", "Secret CA")
		r.follows.Store(false)
		r.expect(40*time.Second, "it leads now", "Secret CA")
	})
}

// TestWhenRegistrationWasChecked: what was deleted since the last check is not said to be registered now.
func TestWhenRegistrationWasChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		since := "as the policies need it, since " + time.Now().Format(time.RFC3339) + ", last checked "
		r := register(t)
		r.signal()
		r.expect(20*time.Second, "with the first policies", "Pod CA")
		said := func(want string) {
			t.Helper()
			if got := r.kept(); got != since+want {
				t.Errorf("got %q, want %q", got, since+want)
			}
		}
		said("20s ago")
		r.set(func() { r.kind = "Service" })
		r.signal()
		r.expect(time.Second, "an edit", "Service CA")
		said("1s ago")
		r.follows.Store(true)
		r.expect(10*time.Minute, "another one leads")
		said("10m1s ago; the replica that leads checks it again")
	})
}

func TestRegistrationIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		r.set(func() { r.err = errors.New("connection refused") })
		r.signal()
		if n := len(r.after(time.Hour)); n < 55 || n > 80 {
			t.Errorf("%d attempts in an hour, want about one a minute", n)
		}
		if done, err := r.status(); done || err == nil {
			t.Errorf("status is %t, %v", done, err)
		}
		if n := strings.Count(r.log.String(), "registration fails"); n != 1 {
			t.Errorf("%d records of one lasting error:\n%s", n, &r.log)
		}
		r.signal()
		r.expect(time.Second, "a change does not wait", "Pod CA")
		r.set(func() { r.err = nil })
		r.signal()
		r.expect(time.Second, "the API server is back", "Pod CA")
		if done, err := r.status(); !done || err != nil {
			t.Errorf("status is %t, %v", done, err)
		}
		if !strings.Contains(r.log.String(), "complete again") {
			t.Errorf("the log does not say that it is well again:\n%s", &r.log)
		}
		r.set(func() {
			r.err = errors.Join(&webhookconfig.ForeignError{Kind: "MutatingWebhookConfiguration", Name: "usher"})
		})
		r.after(5 * time.Minute)
		if !strings.Contains(r.log.String(), "--webhook-configuration-name") {
			t.Errorf("the log does not say what to do about a name that is taken:\n%s", &r.log)
		}
	})
}

func TestRegistrationLooksForKindsThatMayCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := register(t)
		r.set(func() {
			r.err = errors.Join(nil, &webhookconfig.IncompleteError{Kinds: []string{"example.com/v1 Widget"}})
		})
		r.signal()
		r.expect(5*time.Second, "at once, and again with fresh discovery", "Pod CA", "Pod CA")
		if done, err := r.status(); !done || err == nil {
			t.Errorf("status is %t, %v, want that the rest is done", done, err)
		}
		if n := len(r.after(10 * time.Minute)); n < 17 || n > 21 || int(r.resets.Load()) < n {
			t.Errorf("%d attempts in ten minutes and %d discoveries, want one in 30 s", n, r.resets.Load())
		}
		r.set(func() {
			r.err = errors.Join(errors.New("connection refused"), &webhookconfig.IncompleteError{Kinds: []string{"example.com/v1 Widget"}})
		})
		r.after(time.Minute)
		if done, _ := r.status(); done {
			t.Error("done although the rest fails")
		}
	})
}
