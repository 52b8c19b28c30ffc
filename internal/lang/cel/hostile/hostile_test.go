//go:build unix

package hostile_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	engineauthz "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/index"
	indexauthz "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/hostile"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/trial"
)

var (
	attack = flag.Duration("hostile", shortly, "how long hostile programs are tried; longer than the default prints figures")
	seed   = flag.Uint64("seed", 1, "which programs are tried")
)

// Limits of a step. They are generous: what they are about takes minutes, or gigabytes.
const (
	// deadlineAfter is when a step has to end, and mostTime the processor time that it may take.
	deadlineAfter, mostTime = 2 * time.Second, 5 * time.Second
	// shortly is how long programs are tried in tests.
	shortly = 20 * time.Second
	// mostFailures is after how many the test ends.
	mostFailures = 10
	// tenantMemory and clusterMemory are what a step may allocate; explaining may take four times as much. That
	// is more than what policies may keep: what walks through a value makes parts of it, and drops them, up to a
	// byte each nanosecond of the time that they may take.
	tenantMemory, clusterMemory = 1 << 30, 2 << 30
	// minimizing is how long smaller programs are looked for.
	minimizing = 20 * time.Second
)

// TestMain lets the evaluator of CUE run in processes of its own.
func TestMain(m *testing.M) {
	cue.Main()
	os.Exit(m.Run())
}

// An attacker tries programs.
type attacker struct {
	t        *testing.T
	requests map[usher.Phase]*usher.Request
	facts    fact.Resolver
	trial    *trial.Trial
	shadow   *candidate.Evaluator

	// program is what is tried, and figures are those of all steps.
	program *hostile.Expression
	figures []figure
	// failures are programs that failed.
	failures int
	// alone and beside are how long the honest policy takes when nothing else is done, and while others decide.
	alone, beside []time.Duration
	refused       map[string]int
}

// A figure is what a step took.
type figure struct {
	step, program   string
	processor, wall time.Duration
	bytes           int64
	failed          bool
}

// TestHostile tries hostile programs: each step with each of them ends soon, takes little, and has an answer
// or an error, and an honest policy beside them decides.
func TestHostile(t *testing.T) { //nolint:paralleltest // it measures the whole process
	env, err := cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{library.JSONPatch()}})
	if err != nil {
		t.Fatal(err)
	}
	a := &attacker{t: t, requests: requests(t), facts: cluster(), trial: trial.New(trial.Options{}), shadow: candidate.New(candidate.Options{Facts: cluster()}), refused: map[string]int{}}
	g := hostile.New(env.Functions(), *seed)
	programs := 0
	for end := time.Now().Add(*attack); time.Now().Before(end) && a.failures < mostFailures; programs++ {
		p := g.Next()
		a.try(&p, programs)
	}
	t.Logf("%d programs of %d forms, %d steps", programs, g.Functions(), len(a.figures))
	if state := a.shadow.Overruns(); state.Overruns > 0 {
		t.Errorf("%d evaluations of candidates went on after their time: %+v", state.Overruns, state.Late)
	}
	a.print()
}

// try tries a program in one place, which is another one the next time.
func (a *attacker) try(p *hostile.Expression, i int) {
	all := uses(p, i)
	u := all[i%len(all)]
	a.program = p
	first := len(a.figures)
	a.tryUse(&u)
	if slices.ContainsFunc(a.figures[first:], func(f figure) bool { return f.failed }) {
		a.explain(p, &u, i)
	}
}

// explain finds the smallest program that fails the same way.
func (a *attacker) explain(p *hostile.Expression, u *use, i int) {
	a.failures++
	all := a.figures
	defer func() { a.figures = all }()
	failed := func() bool {
		return slices.ContainsFunc(a.figures, func(f figure) bool { return f.failed })
	}
	end := time.Now().Add(minimizing)
	least := p.Minimal(func(smaller hostile.Expression) bool {
		if time.Now().After(end) {
			return false
		}
		a.figures = nil
		for _, again := range uses(&smaller, i) {
			if again.name == u.name {
				a.program = &smaller
				a.tryUse(&again)
			}
		}
		return failed()
	})
	a.t.Errorf("%s: %s\nminimal: %s", u.name, p.Text(), least.Text())
}

func (a *attacker) tryUse(u *use) {
	var compiled []compile.Compiled
	a.step("check", u, func(ctx context.Context) error {
		compiled = nil
		for _, text := range u.policies {
			policy, err := api.Decode([]byte(text))
			if err != nil {
				return fmt.Errorf("decode: %w", err)
			}
			compiled = append(compiled, compile.Options{}.Policy(ctx, policy))
		}
		return nil
	})
	for i := range compiled {
		for _, p := range rule.Errors(compiled[i].Problems) {
			a.refused[clip(p.What, 60)]++
		}
	}
	if u.access {
		a.access(u, compile.Access(compiled))
		return
	}
	a.admission(u, compiled)
}

func (a *attacker) admission(u *use, compiled []compile.Compiled) {
	rules := compile.Order(compiled)
	e := engine.New(index.New(rules), a.facts, engine.Options{})
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		r := a.requests[phase]
		var d usher.Decision
		measured := a.measureHonest()
		a.step("decide "+string(phase), u, func(ctx context.Context) (err error) {
			d, err = e.Decide(ctx, r)
			if err == nil && phase == usher.Validate && !u.hides && !slices.ContainsFunc(d.Findings, isHonest) {
				return errNotHonest
			}
			return err
		})
		measured()
		a.step("explain "+string(phase), u, func(ctx context.Context) error {
			_, err := explain.Of(ctx, rules, r, d, explain.Options{Facts: a.facts})
			return err
		})
	}
	a.propose(u, compiled)
	a.step("audit", u, func(ctx context.Context) error {
		plan := judge.New(compile.Order(compiled), judge.Options{Facts: a.facts}).Plan(result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true})
		if plan == nil {
			return nil
		}
		_, err := plan.Judge(ctx, configMap(), nil)
		return err
	})
	a.step("try", u, func(ctx context.Context) error {
		for i := range compiled {
			a.trial.Try(ctx, compiled[i])
		}
		return nil
	})
}

// measureHonest has the honest policy decide by itself, and then again and again until the returned function is
// called. It does so for people only: machines that test are busy.
func (a *attacker) measureHonest() (end func()) {
	if *attack <= shortly {
		return func() {}
	}
	policy, err := api.Decode([]byte(honest))
	if err != nil {
		a.t.Fatal(err)
	}
	e := engine.New(index.New(compile.Policy(policy).Rules), a.facts, engine.Options{})
	decide := func(took *[]time.Duration) {
		start := time.Now()
		if d, err := e.Decide(context.Background(), a.requests[usher.Validate]); err == nil && d.Verdict == usher.Deny {
			*took = append(*took, time.Since(start))
		}
	}
	decide(&a.alone)
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			decide(&a.beside)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (a *attacker) access(u *use, rules []*authz.Rule) {
	e := engineauthz.New(indexauthz.New(rules), engineauthz.Options{})
	r := a.requests[usher.Authorize]
	a.step("authorize", u, func(ctx context.Context) error {
		d, err := e.Decide(ctx, r)
		if err == nil && d.Verdict != usher.Deny {
			return errNotHonest
		}
		return err
	})
	a.step("explain access", u, func(ctx context.Context) error {
		_, err := e.Explain(ctx, r)
		return err
	})
}

var errNotHonest = errors.New("the honest policy did not decide")

func isHonest(f usher.Finding) bool {
	return f.Policy.Name == "honest" && f.Outcome == usher.Rejected
}

// step does f within its limits.
func (a *attacker) step(name string, u *use, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(a.t.Context(), deadlineAfter)
	defer cancel()
	start, began, allocated := processorTime(a.t), time.Now(), allocations()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if panicked := recover(); panicked != nil {
				done <- fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
			}
		}()
		done <- f(ctx)
	}()
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-done:
			waiting = false
		case <-time.After(100 * time.Millisecond):
			if processorTime(a.t)-start > 4*mostTime {
				a.t.Fatalf("%s %s does not end: %s", u.name, name, a.program.Text())
			}
		}
	}
	figure := figure{step: u.name + ": " + name, program: a.program.Text(), processor: processorTime(a.t) - start, wall: time.Since(began), bytes: allocations() - allocated}
	limit := int64(clusterMemory)
	if u.tenant {
		limit = tenantMemory
	}
	if strings.HasPrefix(name, "explain") {
		limit *= 4
	}
	switch {
	case figure.processor > mostTime:
		figure.failed = true
		a.t.Logf("%s took %v", figure.step, figure.processor)
	case figure.bytes > limit && name != "try":
		figure.failed = true
		a.t.Logf("%s allocated %d MiB", figure.step, figure.bytes>>20)
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		figure.failed = true
		a.t.Logf("%s: %v", figure.step, err)
	}
	a.figures = append(a.figures, figure)
}

// print prints the figures, for people.
func (a *attacker) print() {
	if *attack <= shortly && !testing.Verbose() {
		return
	}
	for what, all := range map[string][]time.Duration{"alone": a.alone, "beside": a.beside} {
		if slices.Sort(all); len(all) > 0 {
			a.t.Logf("the honest policy %s: %d decisions, median %v, p99 %v", what, len(all), all[len(all)/2], all[len(all)*99/100])
		}
	}
	for _, order := range []struct {
		what string
		by   func(a, b figure) int
	}{
		{"slowest", func(a, b figure) int { return cmp.Compare(b.processor, a.processor) }},
		{"longest", func(a, b figure) int { return cmp.Compare(b.wall, a.wall) }},
		{"largest", func(a, b figure) int { return cmp.Compare(b.bytes, a.bytes) }},
	} {
		slices.SortFunc(a.figures, order.by)
		for i := range min(12, len(a.figures)) {
			f := &a.figures[i]
			a.t.Logf("%s: %s: processor %v, wall %v, %d MiB: %s", order.what, f.step, f.processor.Round(time.Millisecond), f.wall.Round(time.Millisecond), f.bytes>>20, clip(f.program, 300))
		}
	}
	for what, n := range a.refused {
		a.t.Logf("not compiled: %d of %s", n, what)
	}
}

func clip(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), n)]
}

// processorTime is that of the process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// allocations are all that the process has made, in bytes.
func allocations() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
