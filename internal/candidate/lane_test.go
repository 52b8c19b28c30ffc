package candidate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// A program runs as long as it likes, whatever its context says, and then denies.
type program func()

func (p program) String() string { return "a program of an attacker" }

func (p program) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	p()
	return rule.Outcome{Verdict: usher.Deny, Message: "no"}, nil
}

// attacking is a candidate of a namespace, or of the cluster, whose policy runs a program.
func attacking(t *testing.T, namespace string, p program) compile.Compiled {
	t.Helper()
	c := compiled(t, proposal(namespace, "", objectPolicy(namespace, "attack", denies)))
	for i := range c.Candidate.Policies {
		for j := range c.Candidate.Policies[i].Rules {
			r := &c.Candidate.Policies[i].Rules[j]
			for k := range r.Steps {
				r.Steps[k].Program = p
			}
		}
	}
	return c
}

func fine(t *testing.T, namespace string) compile.Compiled {
	t.Helper()
	return compiled(t, proposal(namespace, "", objectPolicy(namespace, "p", denies)))
}

// denied is a request that fine candidates would deny.
func denied(t *testing.T, namespace, user string) *usher.Request {
	t.Helper()
	r := *session(t)[19]
	r.Namespace, r.User.Name = namespace, user
	r.Object = usher.RawObject(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":%q},"data":{"x":"1"}}`, namespace))
	return &r
}

func offer(e *candidate.Evaluator, r *usher.Request) {
	e.Offer(r, &usher.Decision{Verdict: usher.Allow})
}

// running runs an evaluator, and returns what ends that and its programs.
func running(t *testing.T, e *candidate.Evaluator, end chan struct{}) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { e.Run(ctx) })
	return func() {
		close(end)
		cancel()
		ended.Wait()
	}
}

// statesOf returns the states by namespace.
func statesOf(e *candidate.Evaluator) map[string]rule.CandidateState {
	states := map[string]rule.CandidateState{}
	for _, s := range e.States() {
		states[s.Ref.Namespace] = s
	}
	return states
}

// TestNeverEnding: evaluations of candidates of a namespace that never end stop its candidates, and nothing of others:
// those of the cluster see its requests, too.
func TestNeverEnding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		e := candidate.New(candidate.Options{Facts: facts()})
		all := []compile.Compiled{fine(t, "shop"), fine(t, "")}
		evil := []string{"evil-0", "evil-1", "evil-2"}
		for _, namespace := range evil {
			all = append(all, attacking(t, namespace, func() { <-end }))
		}
		e.Update(all, func() []compile.Compiled { return nil })
		stop := running(t, e, end)
		const rounds = 60
		for i := range rounds {
			for _, namespace := range append(evil, "shop") {
				for range 3 {
					offer(e, denied(t, namespace, fmt.Sprint("user-", i)))
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		states := statesOf(e)
		if got := states["shop"].Counts; got.NewlyDenied != rounds*3 || got.Skipped > 0 || states["shop"].NotEffective != "" {
			t.Errorf("shop: %+v", states["shop"])
		}
		if got := states[""].Counts; got.NewlyDenied != rounds*3*4 || got.Skipped > 0 || states[""].NotEffective != "" {
			t.Errorf("of the cluster: %+v", states[""])
		}
		for _, namespace := range evil {
			if s := states[namespace]; s.Counts.Seen > 0 || s.Counts.Skipped != rounds*3 || !strings.Contains(s.NotEffective, "has not ended") {
				t.Errorf("%s: %+v", namespace, s)
			}
		}
		if late := e.Overruns().Late; len(late) != len(evil) {
			t.Errorf("%d evaluations run, want one for each namespace", len(late))
		}
		stop()
	})
}

// TestPoisonedCluster: an object on which a candidate of the cluster never ends stops it for the namespace of the
// object, and not for others.
func TestPoisonedCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var poisoned atomic.Bool
		e := candidate.New(candidate.Options{Facts: facts()})
		e.Update([]compile.Compiled{attacking(t, "", func() {
			if poisoned.Load() {
				<-end
			}
		})}, func() []compile.Compiled { return nil })
		stop := running(t, e, end)
		poisoned.Store(true)
		offer(e, denied(t, "evil", "eve"))
		time.Sleep(time.Second)
		poisoned.Store(false)
		time.Sleep(9 * time.Second)
		for range 10 {
			offer(e, denied(t, "evil", "eve"))
			offer(e, denied(t, "shop", "eve"))
		}
		time.Sleep(10 * time.Second)
		if s := e.States()[0]; s.Counts.NewlyDenied != 10 || s.Counts.Skipped != 11 || s.NotEffective != "" {
			t.Errorf("got %+v", s)
		}
		stop()
	})
}

// TestTooManyNeverEnd: evaluations that never end take a bounded number of processors, and what is not evaluated
// because of them says so.
func TestTooManyNeverEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		e := candidate.New(candidate.Options{Facts: facts()})
		all := []compile.Compiled{fine(t, "shop"), fine(t, "")}
		for i := range 20 {
			all = append(all, attacking(t, fmt.Sprint("evil-", i), func() { <-end }))
		}
		e.Update(all, func() []compile.Compiled { return nil })
		stop := running(t, e, end)
		for range 10 {
			for i := range 20 {
				offer(e, denied(t, fmt.Sprint("evil-", i), "eve"))
			}
			time.Sleep(5 * time.Second)
		}
		offer(e, denied(t, "shop", "jane"))
		time.Sleep(time.Minute)
		states := statesOf(e)
		if late := len(e.Overruns().Late); late < 4 || late > 6 {
			t.Errorf("%d evaluations run", late)
		}
		if s := states["shop"]; s.Counts.Skipped != 1 || !strings.Contains(s.NotEffective, "have not ended") {
			t.Errorf("shop: %+v", s)
		}
		if s := states[""]; s.Counts.NewlyDenied != 201 || s.NotEffective != "" {
			t.Errorf("of the cluster: %+v", s)
		}
		stop()
	})
}

// TestSlowTenant: candidates of a namespace whose evaluations take as long as they may cost others a bounded delay,
// and none of their requests; those of the cluster not even that.
func TestSlowTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		// Nobody knows before who is slow: each has a first turn.
		longest, known := map[string]time.Duration{}, time.Now().Add(20*time.Second)
		e := candidate.New(candidate.Options{Facts: facts(), Differs: func(d *rule.CandidateDifference) {
			if namespace := d.Candidate.Namespace; d.At.After(known) {
				longest[namespace] = max(longest[namespace], time.Since(d.At))
			}
		}})
		all := []compile.Compiled{fine(t, "shop"), fine(t, "")}
		const attackers = 10
		for i := range attackers {
			all = append(all, attacking(t, fmt.Sprint("evil-", i), func() { time.Sleep(400 * time.Millisecond) }))
		}
		e.Update(all, func() []compile.Compiled { return nil })
		stop := running(t, e, end)
		const rounds = 200
		for range rounds {
			for i := range attackers {
				offer(e, denied(t, fmt.Sprint("evil-", i), "eve"))
			}
			for range 5 {
				offer(e, denied(t, "shop", "jane"))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		states := statesOf(e)
		if s := states["shop"]; s.Counts.NewlyDenied != rounds*5 || s.Counts.Skipped > 0 || longest["shop"] > 2*time.Second {
			t.Errorf("shop: %+v, up to %s later", s, longest["shop"])
		}
		if s := states[""]; s.Counts.NewlyDenied != rounds*(5+attackers) || s.Counts.Skipped > 0 || longest[""] > 100*time.Millisecond {
			t.Errorf("of the cluster: %+v, up to %s later", s, longest[""])
		}
		seen := int64(0)
		for i := range attackers {
			seen += states[fmt.Sprint("evil-", i)].Counts.Seen
		}
		// A quarter of a processor, for some 210 s.
		if seen < 100 || seen > 140 {
			t.Errorf("%d evaluations of 400ms", seen)
		}
		stop()
	})
}

// TestManyWait: a namespace whose requests wait in large numbers loses some of them to others that have few.
func TestManyWait(t *testing.T) {
	t.Parallel()
	var held atomic.Int64
	seen := 0
	e := candidate.New(candidate.Options{Facts: facts(), Hold: func(n int64) (func(), bool) {
		held.Add(n)
		return func() { held.Add(-n) }, true
	}, Differs: func(d *rule.CandidateDifference) {
		if d.Request.User.Name == "jane" {
			seen++
		}
	}})
	e.Update([]compile.Compiled{fine(t, "")}, func() []compile.Compiled { return nil })
	const others = 50
	for i := range 2 {
		for range 2000 {
			offer(e, denied(t, fmt.Sprint("evil-", i), "eve"))
		}
	}
	before := e.States()[0].Counts.Skipped
	for i := range others {
		offer(e, denied(t, fmt.Sprint("n", i), "jane"))
	}
	if e.Waiting() > 8<<20 || e.Waiting() != held.Load() {
		t.Errorf("%d bytes wait, %d are held", e.Waiting(), held.Load())
	}
	got := counted(t, e)
	if dropped := got.Skipped - before; dropped > others || got.Seen+got.Skipped != 4000+others || held.Load() != 0 || seen != others {
		t.Errorf("%+v, %d of them dropped, %d of others seen, %d are held", got, dropped, seen, held.Load())
	}
}
