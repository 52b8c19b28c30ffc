package cue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/usher-dev/usher/internal/breaker"
	"github.com/usher-dev/usher/internal/lang/worker"
)

var (
	// ErrOverrun is the error of an evaluation that took too long or too much memory.
	ErrOverrun = errors.New("no answer within its limits")
	// ErrSuspended is the error of a program that is not run for a while, because it has
	// overrun its limits repeatedly.
	ErrSuspended = breaker.ErrSuspended
	// ErrTooLarge is the error of an input or result that is too large.
	ErrTooLarge = errors.New("too large")
	// ErrNoEvaluator is the error of an evaluation in a program that has no evaluator: see [Main].
	ErrNoEvaluator = errors.New("this program does not run CUE's evaluator")
)

// Limits bound what CUE may take. A zero field means its default.
type Limits struct {
	// Timeout is how long one evaluation may take, by default 2 s.
	Timeout time.Duration
	// CompileTimeout is the same for the evaluation without input by which Compile checks a source,
	// by default 2 s.
	CompileTimeout time.Duration

	// Overruns is how many evaluations of one program on the objects of one writer may overrun,
	// within ten times Suspension, before the program is suspended for this writer. The default is 3.
	Overruns int
	// Suspension is for how long a program is suspended, by default 30 s. Then one evaluation is
	// tried; if it takes too long again, the next suspension is twice as long, up to 16 times.
	Suspension time.Duration

	// Values and Bytes limit the input of one evaluation: the values of the JSON tree, including
	// containers (by default 200,000), and the total length of its strings and field names (by
	// default 4 MiB).
	Values, Bytes int
	// Result limits the result, in bytes of JSON, by default 1 MiB.
	Result int
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Timeout, 2*time.Second)
	setDefault(&l.CompileTimeout, 2*time.Second)
	setDefault(&l.Overruns, 3)
	setDefault(&l.Suspension, 30*time.Second)
	setDefault(&l.Values, 200_000)
	setDefault(&l.Bytes, 4<<20)
	setDefault(&l.Result, 1<<20)
	return l
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// An Evaluator is where CUE's evaluator runs. It is safe for concurrent use.
type Evaluator struct {
	limits Limits
	now    func() time.Time
	// place is nil if there is none.
	place place
	// analysing has an entry while a source of a namespace is analysed.
	analysing chan struct{}
}

func newEvaluator(l Limits, at place) *Evaluator {
	return &Evaluator{limits: l.withDefaults(), now: time.Now, place: at, analysing: make(chan struct{}, 1)}
}

// A place is where evaluations run. It returns how long the evaluation took; 0 means that it did
// not start.
type place interface {
	do(ctx context.Context, tenant string, limit time.Duration, r *request, source string) (*response, time.Duration, error)
	hold()
	release()
}

// tenantOf names the tenant that is charged for an evaluation: the namespace of the policy or,
// since cluster policies apply to everybody's objects, that of the object.
func tenantOf(p *Program, writer string) string {
	if p.tenant != "" || writer == "" {
		return p.tenant
	}
	user, namespace, _ := strings.Cut(writer, "\x00")
	if namespace == "" {
		return "objects of " + user
	}
	return "objects in " + namespace
}

// OnWorkers returns an evaluator that runs on the workers of a pool.
func OnWorkers(pool *worker.Pool, l Limits) *Evaluator {
	return newEvaluator(l, &workers{pool, l.withDefaults().Result})
}

// InProcess returns an evaluator that runs in this process, where an evaluation can neither be
// stopped nor limited in memory: one that takes too long continues in the background. Use it only
// if the operators of the program write all policies.
func InProcess(l Limits) *Evaluator {
	return newEvaluator(l, &process{slots: make(chan struct{}, runtime.GOMAXPROCS(0)), server: newServer()})
}

// None returns an evaluator that evaluates nothing.
func None() *Evaluator { return newEvaluator(Limits{}, nil) }

// shared is the evaluator of programs that bring none.
var shared = sync.OnceValue(func() *Evaluator { return OnWorkers(worker.Shared(), Limits{}) })

// Default returns the evaluator that the whole process shares: on workers if the program has
// called [Main], otherwise one that evaluates nothing.
func Default() *Evaluator {
	if worker.Installed(worker.CUE) {
		return shared()
	}
	return None()
}

// ask sends a request to the place.
func (e *Evaluator) ask(ctx context.Context, tenant string, limit time.Duration, r *request, source string) (*response, time.Duration, error) {
	if e.place == nil {
		return nil, 0, ErrNoEvaluator
	}
	return e.place.do(ctx, tenant, limit, r, source)
}

// evaluate runs p on an input of this writer, unless p is suspended.
func (e *Evaluator) evaluate(ctx context.Context, p *Program, writer string, r *request) (*response, error) {
	retry, err := p.breaker.Allow(e.now(), writer)
	if err != nil {
		return nil, fmt.Errorf("evaluate cue: %w", err)
	}
	answer, took, err := e.ask(ctx, tenantOf(p, writer), e.limits.Timeout, r, p.source)
	verdict := verdictOf(err, took, e.limits.Timeout)
	if verdict == breaker.Overran && worker.IsBackground(ctx) {
		// It had less of the processor than one for which somebody waits.
		verdict = breaker.Unknown
	}
	p.breaker.Report(e.now(), breaker.Limits{Overruns: e.limits.Overruns, Suspension: e.limits.Suspension}, writer, retry, verdict)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("evaluate cue: %w", err)
	}
	return answer, nil
}

// verdictOf returns what an evaluation shows about its program. A timeout of its caller is an
// overrun only if the evaluation had a fair share of the time; a caller that disconnected shows
// nothing.
func verdictOf(err error, took, limit time.Duration) breaker.Verdict {
	switch {
	case errors.Is(err, worker.ErrStarved):
		return breaker.Unknown
	case errors.Is(err, ErrOverrun):
		return breaker.Overran
	case took == 0, errors.Is(err, context.Canceled):
		return breaker.Unknown
	case errors.Is(err, context.DeadlineExceeded):
		if took >= limit/4 {
			return breaker.Overran
		}
		return breaker.Unknown
	}
	return breaker.Answered
}

// Workers are a place: processes that are killed when they exceed their limits.
type workers struct {
	pool   *worker.Pool
	result int
}

func (w *workers) hold()    { w.pool.Hold() }
func (w *workers) release() { w.pool.Release() }

func (w *workers) do(ctx context.Context, tenant string, limit time.Duration, r *request, source string) (*response, time.Duration, error) {
	answer, took, err := w.send(ctx, tenant, limit, r)
	if err == nil && answer.Unknown {
		again := *r
		again.Source = source
		answer, took, err = w.send(ctx, tenant, limit, &again)
	}
	return answer, took, err
}

func (w *workers) send(ctx context.Context, tenant string, limit time.Duration, r *request) (*response, time.Duration, error) {
	job := worker.Job{Kind: worker.CUE, Tenant: tenant, Background: r.Check || worker.IsBackground(ctx), Limit: limit, Payload: r.encode}
	reply, took, err := w.pool.Do(ctx, job)
	switch {
	case errors.Is(err, worker.ErrTimeout), errors.Is(err, worker.ErrMemory), errors.Is(err, worker.ErrCrashed):
		return nil, took, fmt.Errorf("%w: %w", ErrOverrun, err)
	case err != nil:
		return nil, took, err
	}
	answer, err := read(reply, w.result)
	return answer, took, err
}

// A process is a place: the current process.
type process struct {
	// slots holds one entry for each evaluation under way, those that were given up included.
	slots  chan struct{}
	mu     sync.Mutex
	server server
}

func (*process) hold()    {}
func (*process) release() {}

func (p *process) do(ctx context.Context, _ string, limit time.Duration, r *request, source string) (*response, time.Duration, error) {
	again, err := r.withInput()
	if err != nil {
		return nil, 0, err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("wait for one of %d evaluations to end: %w", cap(p.slots), worker.Ended(ctx))
	}
	answers := make(chan *response, 1)
	begin := time.Now()
	again = new(*again)
	again.Source = source
	go func() {
		defer func() { <-p.slots }()
		defer func() {
			if panicked := recover(); panicked != nil {
				answers <- &response{Error: fmt.Sprintf("the evaluator panicked: %v", panicked)}
			}
		}()
		answers <- p.answer(again)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case answer := <-answers:
		return answer, max(time.Since(begin), 1), nil
	case <-timer.C:
		return nil, limit, fmt.Errorf("%w: given up after %s", ErrOverrun, limit)
	case <-ctx.Done():
		return nil, max(time.Since(begin), 1), fmt.Errorf("given up: %w", worker.Ended(ctx))
	}
}

func (p *process) answer(r *request) *response {
	p.mu.Lock()
	n, answer := p.server.native(r)
	p.mu.Unlock()
	if n == nil {
		return answer
	}
	return n.answer(r)
}
