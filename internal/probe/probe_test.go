package probe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/probe"
)

func keys(all ...string) probe.Keys {
	return func() [][]byte {
		var keys [][]byte
		for _, key := range all {
			keys = append(keys, []byte(key))
		}
		return keys
	}
}

// A write is what one meets on its way.
type write struct {
	phases []usher.Phase
	keys   probe.Keys
	err    error
}

// An apiServer takes writes, and calls webhooks.
type apiServer struct {
	// meets is what the writes meet from now on.
	meets  write
	writes int
	// turns orders what the test and the prober do for the race detector: that time passes does
	// not.
	turns atomic.Int64
}

// sleep lets time pass for the prober.
func (s *apiServer) sleep(d time.Duration) {
	s.turns.Add(1)
	time.Sleep(d)
	synctest.Wait()
	s.turns.Add(1)
}

var (
	both = []usher.Phase{usher.Mutate, usher.Validate}
	well = write{phases: both, keys: keys("key")}
)

func (s *apiServer) Write(ctx context.Context, question string) ([]string, error) {
	s.turns.Add(1)
	s.writes++
	if s.meets.err != nil {
		return nil, s.meets.err
	}
	warnings := []string{"unrelated"}
	for _, phase := range s.meets.phases {
		d, err := probe.NewAnswerer(s.meets.keys).Wrap(refuse()).Decide(ctx, request(phase, question))
		if err != nil {
			return nil, err
		}
		if d.Verdict == usher.Deny {
			return nil, apierrors.NewForbidden(schema.GroupResource{}, probe.Name, errors.New(d.Message))
		}
		warnings = append(warnings, d.Warnings...)
	}
	return warnings, nil
}

// refuse decides as Usher does about a policy that does not compile: what a replica without the
// key says.
func refuse() usher.Decider {
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		return usher.Denied(`admission webhook "%s.usher.dev" denied the request: it does not compile`, r.Phase), nil
	})
}

func request(phase usher.Phase, question string) *usher.Request {
	return &usher.Request{
		Phase: phase, Operation: usher.Create, Name: probe.Name, DryRun: true,
		Kind:     v1alpha1.GroupVersion.WithKind("ClusterValidatePolicy"),
		Resource: v1alpha1.GroupVersion.WithResource("clustervalidatepolicies"),
		Object: usher.TreeObject(map[string]any{"metadata": map[string]any{
			"name": probe.Name, "annotations": map[string]any{probe.Annotation: question},
		}}),
	}
}

// watch runs a prober against an API server and returns the results that it tells.
func watch(t *testing.T, s *apiServer, o probe.Options) (*probe.Prober, *[]string) {
	t.Helper()
	o.Writer, o.Log, o.Advice = s, slog.New(slog.DiscardHandler), "do this"
	if o.Keys == nil {
		o.Keys = keys("key")
	}
	p := probe.New(o)
	var told []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx, func(r probe.Observation) {
			s.turns.Add(1)
			told = append(told, strings.TrimSuffix(string(r.State)+" "+r.Message, " "))
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if _, ok := p.Result(); ok {
			t.Error("a prober that does not run has a result")
		}
	})
	synctest.Wait()
	return p, &told
}

func status(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message, Reason: metav1.StatusReasonInternalError}}
}

const lost = "not_called a dry run came back without an answer of the webhook for "

// TestResults has writes meet one thing from the start, for a minute.
func TestResults(t *testing.T) {
	t.Parallel()
	forbidden := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, probe.Name, errors.New(message))
	}
	for _, row := range []struct {
		reason  string
		meets   write
		foreign bool
		want    string
	}{
		{"both webhooks answer", well, false, "called"},
		{"none is called", write{}, false, lost + "mutate and of that for validate; do this"},
		{"one is not called", write{phases: both[:1], keys: keys("key")}, false, lost + "validate; do this"},
		{"the other is not called", write{phases: both[1:], keys: keys("key")}, false, lost + "mutate; do this"},
		{"somebody else registers", write{}, true, "unknown the webhooks are registered by somebody else, and what is written to policies is not sent to /mutate and /validate"},
		{"somebody else registers, and policies are sent", well, true, "called"},
		{"replicas have another key, and take it for a policy", write{err: status(403, `admission webhook "validate.usher.dev" denied the request: it does not compile`)}, false, "called"},
		{"somebody else says so", write{err: status(403, `admission webhook "evil.example" denied the request: admission webhook "validate.usher.dev" denied the request: x`)}, false,
			`unknown the dry run was refused: admission webhook "evil.example" denied the request: admission webhook "validate.usher.dev" denied the request: x`},
		{"a webhook of ours, as API servers put it", write{err: status(500, `Internal error occurred: failed calling webhook "mutate.usher.dev": x509`)}, false,
			`not_called Internal error occurred: failed calling webhook "mutate.usher.dev": x509; do this`},
		{"replicas have the key besides a newer one", write{phases: both, keys: keys("newer", "key")}, false, "called"},
		{"a webhook cannot be called, with the failure policy Fail", write{err: status(500, `failed calling webhook "mutate.usher.dev": x509`)}, false,
			`not_called failed calling webhook "mutate.usher.dev": x509; do this`},
		{"a webhook of somebody else cannot be called", write{err: status(500, `failed calling webhook "mutate.example.dev": x509`)}, false,
			`unknown the dry run was refused: failed calling webhook "mutate.example.dev": x509`},
		{"no rights", write{err: forbidden("user cannot patch")}, false, `unknown no rights: x "usher-probe" is forbidden: user cannot patch; upgrade the chart, or grant create and patch of clustervalidatepolicies usher-probe`},
		{"somebody denies it", write{err: forbidden("not today")}, false, `unknown the dry run was refused: x "usher-probe" is forbidden: not today`},
		{"no such kind", write{err: apierrors.NewNotFound(schema.GroupResource{}, "x")}, false, "unknown the cluster does not know clustervalidatepolicies: apply the CustomResourceDefinitions of Usher"},
		{"a policy of the name is being deleted", write{err: probe.DeletedError{}}, false, "unknown the ClusterValidatePolicy usher-probe is being deleted: remove its finalizers, nothing of Usher needs it"},
		{"no answer in time", write{err: fmt.Errorf("Patch: %w", context.DeadlineExceeded)}, false, "unknown a dry run got no answer in 5s: the API server or a webhook does not answer"},
		{"no API server", write{err: errors.New("connection refused")}, false, "unknown the API server does not answer: connection refused"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, told := watch(t, &apiServer{meets: row.meets}, probe.Options{Foreign: row.foreign})
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := cmp.Diff([]string{"awaited", row.want}, *told); d != "" {
					t.Errorf("results (-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestAskOfOneThatHangs: the API server has answered the person who asks, and the dry run has no answer.
func TestAskOfOneThatHangs(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("Patch: %w", context.DeadlineExceeded)
	synctest.Test(t, func(t *testing.T) {
		got := probe.Ask(t.Context(), probe.Options{Writer: &apiServer{meets: write{err: late}}, Advice: "do this"})
		want := "a dry run got no answer in 5s while the API server answers other requests; do this"
		if got.State != probe.NotCalled || !got.Hangs || got.Message != want {
			t.Errorf("got %+v", got)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if got := probe.Ask(over, probe.Options{Writer: &apiServer{meets: write{err: late}}}); got.State != probe.Unknown || got.Hangs {
			t.Errorf("the time of the person is over: %+v", got)
		}
	})
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{meets: well}
		_, told := watch(t, s, probe.Options{Keys: keys()})
		if d := cmp.Diff([]string{"awaited", "unknown replicas have no key in common"}, *told); d != "" || s.writes > 0 {
			t.Errorf("%d writes, results (-want +got):\n%s", s.writes, d)
		}
	})
}

// TestChanges follows a prober through what happens to the API server.
func TestChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{meets: well}
		lostProbes := 0
		states := map[probe.State]int{}
		p, told := watch(t, s, probe.Options{Lost: func() { s.turns.Add(1); lostProbes++ }, Count: func(state probe.State) { s.turns.Add(1); states[state]++ }})
		expect := func(reason string, want ...string) {
			t.Helper()
			synctest.Wait()
			if d := cmp.Diff(want, *told); d != "" {
				t.Errorf("%s: (-want +got):\n%s", reason, d)
			}
			*told = nil
		}
		expect("it begins", "awaited", "called")

		s.sleep(10 * time.Minute)
		expect("nothing happens")
		if s.writes < 15 || s.writes > 25 {
			t.Errorf("%d writes in ten minutes, want one every half a minute", s.writes)
		}

		s.meets = write{}
		p.Again()
		s.sleep(5 * time.Second)
		s.meets = well
		s.sleep(5 * time.Second)
		expect("some probes in a row are lost, as when a replica is replaced")
		if lostProbes != 1 {
			t.Errorf("%d losses told, want 1 for all attempts of a probe", lostProbes)
		}

		s.meets = write{}
		s.sleep(time.Minute)
		expect("webhooks are not called any more", lost+"mutate and of that for validate; do this")
		s.meets = write{err: errors.New("connection refused")}
		s.sleep(time.Minute)
		expect("the API server is gone: what was known counts")
		s.meets = well
		s.sleep(10 * time.Second)
		expect("webhooks are called again", "called")

		s.meets = write{err: errors.New("connection refused")}
		s.sleep(5 * time.Minute)
		expect("the API server is gone: what was known counts")
		s.meets = write{err: apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("cannot patch"))}
		s.sleep(5 * time.Minute)
		synctest.Wait()
		if len(*told) != 1 || !strings.HasPrefix((*told)[0], "unknown no rights") {
			t.Errorf("rights are taken away: %q", *told)
		}
		if states[probe.Called] == 0 || states[probe.NotCalled] == 0 || states[probe.Unknown] == 0 {
			t.Errorf("counted %v", states)
		}
	})
}

func TestAgainIsNotAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &apiServer{meets: well}
		p, _ := watch(t, s, probe.Options{})
		for range 100 {
			p.Again()
			s.sleep(100 * time.Millisecond)
		}
		if s.writes > 12 {
			t.Errorf("%d writes in ten seconds of changes", s.writes)
		}
		p.Again()
		before := s.writes
		s.sleep(1100 * time.Millisecond)
		if s.writes == before {
			t.Error("no probe follows a change")
		}
	})
}

// TestApart: also what no key answers is apart, as the question of a person is, and nothing that is stored.
func TestApart(t *testing.T) {
	t.Parallel()
	decider := func(message string) usher.Decider {
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Denied("%s", message), nil })
	}
	d := probe.Apart(decider("probe"), decider("other"))
	for _, row := range []struct {
		reason string
		change func(*usher.Request)
		want   string
	}{
		{"a question without a key", func(*usher.Request) {}, "probe"},
		{"what is stored", func(r *usher.Request) { r.DryRun = false }, "other"},
		{"another name", func(r *usher.Request) { r.Name = "usher" }, "other"},
		{"another resource", func(r *usher.Request) { r.Resource.Resource = "pods" }, "other"},
	} {
		r := request(usher.Validate, "")
		row.change(r)
		if got, err := d.Decide(t.Context(), r); err != nil || got.Message != row.want {
			t.Errorf("%s: %q, %v", row.reason, got.Message, err)
		}
	}
}

// TestOnlyProbesAreAnswered: everything else goes to the Decider, among it what looks like a
// probe and is none of a replica.
func TestOnlyProbesAreAnswered(t *testing.T) {
	t.Parallel()
	var asked string
	capture := writerFunc(func(question string) { asked = question })
	p := probe.New(probe.Options{Writer: capture, Keys: keys("key"), Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan struct{})
	go func() {
		defer close(cancelled)
		p.Run(ctx, func(r probe.Observation) {
			if r.State != probe.Awaited {
				cancel()
			}
		})
	}()
	capture.wait(ctx)
	cancel()
	<-cancelled
	next := errors.New("asked next")
	a := probe.NewAnswerer(keys("key"))
	d := a.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Decision{}, next }))
	if !a.Last().IsZero() {
		t.Errorf("a probe was answered at %v", a.Last())
	}
	for _, row := range []struct {
		reason string
		change func(*usher.Request)
		probe  bool
	}{
		{"a probe", func(*usher.Request) {}, true},
		{"a probe that meets a policy of its name", func(r *usher.Request) { r.Operation, r.OldObject = usher.Update, r.Object }, true},
		{"what is stored", func(r *usher.Request) { r.DryRun = false }, false},
		{"another name", func(r *usher.Request) { r.Name = "other" }, false},
		{"another resource", func(r *usher.Request) { r.Resource.Resource = "clusteroverridepolicies" }, false},
		{"another group", func(r *usher.Request) { r.Resource.Group = "example.com" }, false},
		{"a subresource", func(r *usher.Request) { r.Subresource = "status" }, false},
		{"no object", func(r *usher.Request) { r.Operation, r.Object = usher.Delete, nil }, false},
		{"no question", func(r *usher.Request) { *r = *request(usher.Validate, "") }, false},
		{"nonsense", func(r *usher.Request) { *r = *request(usher.Validate, "a.b") }, false},
		{"a question that was changed", func(r *usher.Request) { *r = *request(usher.Validate, forged(asked)) }, false},
		{"a question without its code", func(r *usher.Request) { *r = *request(usher.Validate, strings.Split(asked, ".")[0]+".") }, false},
		{"broken JSON", func(r *usher.Request) { r.Object = usher.RawObject([]byte("{")) }, false},
	} {
		for _, phase := range both {
			r := request(phase, asked)
			row.change(r)
			got, err := d.Decide(t.Context(), r)
			if isProbe := err == nil && got.Verdict == usher.Allow && len(got.Warnings) == 1; isProbe != row.probe || !isProbe && !errors.Is(err, next) {
				t.Errorf("%s: got %+v, %v", row.reason, got, err)
			}
		}
	}
	if a.Last().IsZero() {
		t.Error("no probe was answered")
	}
	mutate, _ := d.Decide(t.Context(), request(usher.Mutate, asked))
	validate, _ := d.Decide(t.Context(), request(usher.Validate, asked))
	if mutate.Warnings[0] == validate.Warnings[0] || strings.Contains(mutate.Warnings[0], strings.Split(asked, ".")[1]) {
		t.Errorf("%q and %q give something away", mutate.Warnings, validate.Warnings)
	}
}

// forged is a question about another number than a replica has asked.
func forged(asked string) string {
	const at = 20
	other := "A"
	if asked[at] == 'A' {
		other = "B"
	}
	return asked[:at] + other + asked[at+1:]
}

// writerFunc hears of one question.
type writerFunc func(question string)

func (f writerFunc) Write(_ context.Context, question string) ([]string, error) {
	f(question)
	return nil, probe.DeletedError{}
}

func (writerFunc) wait(ctx context.Context) { <-ctx.Done() }

// TestOldQuestionsAreNotAnswered: one that somebody has kept, say from an audit log, is worth
// nothing after a while.
func TestOldQuestionsAreNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked string
		capture := writerFunc(func(question string) { asked = question })
		p := probe.New(probe.Options{Writer: capture, Keys: keys("key"), Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx, func(probe.Observation) {})
		synctest.Wait()
		cancel()
		d := probe.NewAnswerer(keys("key")).Wrap(refuse())
		for _, row := range []struct {
			after time.Duration
			want  usher.Verdict
		}{{0, usher.Allow}, {time.Minute, usher.Allow}, {5 * time.Minute, usher.Deny}} {
			time.Sleep(row.after)
			if got, err := d.Decide(t.Context(), request(usher.Validate, asked)); err != nil || got.Verdict != row.want {
				t.Errorf("after %s: %s, %v, want %s", row.after, got.Verdict, err, row.want)
			}
		}
	})
}
