package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"
)

var (
	// ErrTimeout is the error of a request whose worker was killed because it took too long.
	ErrTimeout = errors.New("no answer in time")
	// ErrStarved is, together with ErrTimeout, the error of a request that hardly got the processor: the
	// machine was busy, and the request may be a quick one.
	ErrStarved = errors.New("it hardly had the processor")
	// ErrMemory is the error of a request whose worker ran out of memory.
	ErrMemory = errors.New("it needs more memory than it may have")
	// ErrCrashed is the error of a request whose worker crashed, or sent an invalid answer.
	ErrCrashed = errors.New("the worker crashed")
	// ErrBusy is the error of a request when too many requests of the same tenant already wait.
	ErrBusy = errors.New("too many requests of the same namespace wait")
	// ErrUnavailable is the error of a request when no worker can be started, or the pool is closed.
	ErrUnavailable = errors.New("there is no worker")
)

// errPreempted is the error of a request that took too long for the last worker of normal priority.
var errPreempted = errors.New("it took longer than others can wait")

// errNotInstalled prevents that a program is started as a worker that does not call Main.
var errNotInstalled = errors.New("the program does not call Main")

// Options configure a [Pool]. The zero value works.
type Options struct {
	// Workers is the maximum number of workers with a request, by default GOMAXPROCS but at most 4. If
	// that is more than one, there is also a spare worker, for requests of unproven tenants.
	Workers int
	// Memory is the memory limit of each worker for its requests in bytes, by default 128 MiB. A
	// worker has some 15 MiB when it starts.
	Memory int64
	// Slice is the CPU time after which the worker of a request gets the low priority, by default 25
	// ms. After that, requests of the same tenant have the low priority for a while.
	Slice time.Duration
	// Idle is how long workers stay after a request if there is no Hold, by default a minute.
	Idle time.Duration
	// Log gets a record for each worker that ended abnormally; nil means none.
	Log *slog.Logger
	// Did, unless nil, is told of each job before it is done, and returns a function that is called with its
	// error.
	Did func(ctx context.Context, kind, tenant string) func(error)
	// program is the program to start as a worker; the running program if empty.
	program string
}

// MinMemory is the minimum memory limit with which a worker is useful.
const MinMemory = 32 << 20

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 4)
	}
	if o.Memory <= 0 {
		o.Memory = 128 << 20
	}
	o.Memory = max(o.Memory, MinMemory)
	if o.Slice <= 0 {
		o.Slice = 25 * time.Millisecond
	}
	if o.Idle <= 0 {
		o.Idle = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// most returns the maximum number of workers. One may be spare: it replaces one that is lowered or
// killed, so that no request waits for a process to start.
func (o *Options) most() int {
	if o.Workers > 1 {
		return o.Workers + 1
	}
	return o.Workers
}

// A Pool starts workers and assigns requests to them. It starts workers when they are needed, and
// one in advance. It is safe for concurrent use.
//
// Workers have a priority. A worker whose request takes long gets the low priority, and keeps it: a
// process cannot raise its priority again.
type Pool struct {
	options Options
	starter *starter

	mu      sync.Mutex
	closed  bool
	workers workers
	lanes   lanes
	holds   int
	lastUse time.Time
	// evaluates says that there were requests other than background jobs.
	evaluates bool
	// kinds are those of the requests so far.
	kinds    []Kind
	sweeping bool
	// failures counts the starts that have failed since one succeeded; until retry there is no
	// further start.
	failures int
	failure  error
	retry    time.Time
	counts   Stats
}

// Workers are the workers of a pool by priority.
type workers [priorities]set

// A set are the workers of a priority.
type set struct {
	// total includes workers that are being started.
	total, starting int
	idle            []*process
}

// suffices reports whether a request finds a worker of this priority, and the next one as well.
func (s *set) suffices(at priority, workers int) bool {
	return len(s.idle) > 0 && (at == low || s.total > 1 || workers == 1)
}

// working counts the workers with a request.
func (s *set) working() int { return s.total - s.starting - len(s.idle) }

// New returns a pool. It starts nothing before the first request.
func New(o Options) *Pool {
	o = o.withDefaults()
	return &Pool{options: o, starter: newStarter(o), lanes: newLanes(o.Workers)}
}

// Shared returns the pool of programs that configure none.
var Shared = sync.OnceValue(func() *Pool { return New(Options{}) })

// Hold keeps workers running until Release is called the same number of times.
func (p *Pool) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
}

// Release reverts one Hold.
func (p *Pool) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds--
	p.sweepLater()
}

// Close ends all workers. Requests in flight fail.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for at := range p.workers {
		p.workers.endIdle(priority(at))
		p.lanes.fail(priority(at), fmt.Errorf("%w: closed", ErrUnavailable))
	}
	// The end of the thread that started the workers also ends busy workers.
	close(p.starter.quit)
}

// endIdle ends the workers of a priority that have no request.
func (w *workers) endIdle(at priority) {
	for _, idle := range w[at].idle {
		go idle.kill()
	}
	w[at].total -= len(w[at].idle)
	w[at].idle = nil
}

// Do sends a job to a worker. It waits for a worker until ctx is done, and for the answer up to the
// limit of the job. If the caller gives up earlier, the request continues and counts against its
// tenant. Do returns how long the caller waited for the answer of the worker; 0 means that the
// request was not sent. The error is that of ctx, one of this package, or that of the payload.
func (p *Pool) Do(ctx context.Context, job Job) (reply []byte, took time.Duration, err error) {
	if p.options.program == "" && !Installed(job.Kind) {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, errNotInstalled)
	}
	if p.options.Did != nil {
		did := p.options.Did(ctx, job.Kind.String(), job.Tenant)
		defer func() { did(err) }()
	}
	if job.Background && job.Tenant != "" && job.Limit > quick {
		first := job
		first.Limit = quick
		reply, took, err = p.do(ctx, first)
		if !errors.Is(err, ErrTimeout) || ctx.Err() != nil {
			return reply, took, err
		}
	}
	return p.do(ctx, job)
}

// quick is how long a background job of a tenant has at first. One that takes longer begins again when those of
// other tenants had their turn.
const quick = 250 * time.Millisecond

func (p *Pool) do(ctx context.Context, job Job) ([]byte, time.Duration, error) {
	// A job that is repeated has the low priority, so that no other request needs its worker.
	for range 3 {
		reply, took, err := p.try(ctx, &job)
		if !errors.Is(err, errPreempted) {
			return reply, took, err
		}
	}
	return nil, job.Limit, fmt.Errorf("%w: %w", ErrTimeout, errPreempted)
}

func (p *Pool) try(ctx context.Context, job *Job) ([]byte, time.Duration, error) {
	turn, err := p.acquire(ctx, job)
	if err != nil {
		return nil, 0, err
	}
	w := turn.worker
	payload, err := job.Payload()
	if err == nil && len(payload) > largestRequest {
		err = fmt.Errorf("a request of %d bytes: at most %d are allowed", len(payload), largestRequest)
	}
	if err != nil {
		_ = p.release(w, turn, outcome{})
		return nil, 0, err
	}
	begin, cpu := time.Now(), p.begin(ctx, turn, job, payload)
	reply, last, err := w.await()
	if errors.Is(err, errGivenUp) {
		go func() {
			_, last, err := w.await()
			_, _ = p.finish(turn, begin, cpu, last, err)
		}()
		return nil, max(time.Since(begin), 1), fmt.Errorf("given up: %w", Ended(ctx))
	}
	used, err := p.finish(turn, begin, cpu, last, err)
	if job.Used != nil {
		job.Used(used)
	}
	return reply, max(time.Since(begin), 1), err
}

// longestWait limits the wait for a worker if the context of the caller has no deadline.
const longestWait = 30 * time.Second

// acquire returns the turn of a job when it has a worker.
func (p *Pool) acquire(ctx context.Context, job *Job) (*turn, error) {
	if ctx.Err() != nil {
		return nil, Ended(ctx)
	}
	wanted, _ := ctx.Value(wantedKey{}).(int)
	turn, err := p.queue(job, size{wanted, job.Size})
	if err != nil {
		return nil, err
	}
	select {
	case <-turn.granted:
		// No timers for a worker that is idle.
		return turn, turn.err
	default:
	}
	var cause error
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	select {
	case <-turn.granted:
		return turn, turn.err
	case <-ctx.Done():
		cause = Ended(ctx)
	case <-timer.C:
		cause = context.DeadlineExceeded
	}
	what := fmt.Sprintf("wait for one of %d workers", p.options.Workers)
	p.mu.Lock()
	left := p.lanes.leave(turn)
	if left {
		p.counts.Waited += time.Since(turn.since)
	}
	if p.lanes.rest(turn.lane) > 0 {
		what += ", after requests of the same tenant that took too much"
	}
	p.mu.Unlock()
	if !left && turn.err != nil {
		return nil, turn.err
	}
	if !left {
		// The turn got a worker after the caller gave up.
		_ = p.release(turn.worker, turn, outcome{})
	}
	return nil, fmt.Errorf("%s: %w", what, cause)
}

// queue adds a request to its lane. It may already have its turn when queue returns.
func (p *Pool) queue(job *Job, size size) (*turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("%w: closed", ErrUnavailable)
	}
	p.lastUse = time.Now()
	p.evaluates = p.evaluates || !job.Background
	if !slices.Contains(p.kinds, job.Kind) {
		p.kinds = append(p.kinds, job.Kind)
	}
	turn, ok := p.lanes.join(laneKey{job.Tenant, job.Background}, size)
	if !ok {
		p.counts.Refused++
		return nil, fmt.Errorf("%w (%d)", ErrBusy, longestLane)
	}
	if p.workers[p.lanes.priority(turn.lane)].total == 0 && time.Now().Before(p.retry) {
		p.lanes.leave(turn)
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, p.failure)
	}
	p.grant()
	return turn, nil
}

// An outcome is the result of a request.
type outcome struct {
	took, cpu time.Duration
	// last says that the worker takes no further request.
	last bool
	err  error
}

// release makes a worker available after a request, or replaces it if that was its last. It returns
// the error of the request.
func (p *Pool) release(w *process, t *turn, o outcome) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.preempted && o.err != nil {
		o.err = errPreempted
	}
	p.lastUse = time.Now()
	w.turn, w.used = nil, p.lastUse
	u := usage{cpu: o.cpu, long: o.cpu >= p.options.Slice && !t.lane.background, ended: o.err != nil && !w.preempted && !errors.Is(o.err, ErrStarved), recycled: o.err == nil && o.last}
	if o.last {
		u.cpu += w.startup
	}
	p.lanes.done(t, u)
	if rest := p.lanes.rest(t.lane); rest > 0 {
		p.grantAfter(rest)
	}
	p.counts.count(o)
	set := &p.workers[w.priority]
	switch {
	case w.preempted:
		go w.kill()
	case o.last || p.closed:
		set.total--
		go w.kill()
	default:
		set.idle = append(set.idle, w)
	}
	p.log(t.lane, o)
	p.grant()
	return o.err
}

// logPause is the minimum time between two log records about a tenant.
const logPause = 10 * time.Second

// log logs that a worker was killed because of a request.
func (p *Pool) log(lane *lane, o outcome) {
	if o.err == nil || errors.Is(o.err, errPreempted) || p.closed || p.lastUse.Sub(lane.logged) < logPause {
		return
	}
	lane.logged = p.lastUse
	p.options.Log.Warn("a worker was ended", "tenant", lane.tenant, "after", o.took, "err", o.err)
}
