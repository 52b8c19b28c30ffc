package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

var (
	// ErrTimeout is the error of a request whose worker was killed because it took too long.
	ErrTimeout = errors.New("no answer in time")
	// ErrMemory is the error of a request whose worker ran out of memory.
	ErrMemory = errors.New("it needs more memory than it may have")
	// ErrCrashed is the error of a request whose worker crashed, or answered something else.
	ErrCrashed = errors.New("the worker crashed")
	// ErrBusy is the error of a request when too many of the same tenant wait already.
	ErrBusy = errors.New("too many requests of the same namespace wait")
	// ErrUnavailable is the error of a request when no worker can be started, or the pool is closed.
	ErrUnavailable = errors.New("there is no worker")
)

// errNotInstalled keeps programs from being started that do not know that they are workers.
var errNotInstalled = errors.New("the program does not call Main")

// Options configure a [Pool]. The zero value works.
type Options struct {
	// Workers is how many workers there are at most, by default GOMAXPROCS but at most 4.
	Workers int
	// Memory is how many bytes each of them may take for its requests, by default 128 MiB. A worker
	// has some 15 MiB when it starts.
	Memory int64
	// Idle is how long workers that nobody holds stay after a request, by default a minute.
	Idle time.Duration
	// Log gets a record for each worker that did not end as it should; nil means none.
	Log *slog.Logger
	// program is what is started as a worker, the running program if empty.
	program string
}

// MinMemory is the least memory that a worker can do something useful with.
const MinMemory = 32 << 20

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 4)
	}
	if o.Memory <= 0 {
		o.Memory = 128 << 20
	}
	o.Memory = max(o.Memory, MinMemory)
	if o.Idle <= 0 {
		o.Idle = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Pool has workers and shares them out. It starts them when they are needed, and one more ahead
// of the next need. It is safe for concurrent use.
type Pool struct {
	options Options
	// starts are run by the thread that lives as long as the pool, until quit is closed.
	starts chan func()
	quit   chan struct{}

	mu     sync.Mutex
	closed bool
	// total counts the workers, those that are being started included.
	total, starting int
	idle            []*process
	lanes           lanes
	holds           int
	lastUse         time.Time
	sweeping        bool
	// failures counts the starts that have failed since one succeeded; until retry there is none.
	failures int
	failure  error
	retry    time.Time
	stats    Stats
}

// Stats are counts since the pool was made.
type Stats struct {
	// Workers are running now.
	Workers int
	// Started, Overran, OutOfMemory, Crashed and Recycled count workers: all, and those that
	// ended in these ways.
	Started, Overran, OutOfMemory, Crashed, Recycled int
}

// New returns a pool. It starts nothing before the first request.
func New(o Options) *Pool {
	o = o.withDefaults()
	p := &Pool{options: o, starts: make(chan func()), quit: make(chan struct{}), lanes: newLanes(o.Workers)}
	go p.startOnOneThread()
	return p
}

// startOnOneThread runs starts on a thread that ends with the pool.
func (p *Pool) startOnOneThread() {
	holdThread()
	for {
		select {
		case start := <-p.starts:
			start()
		case <-p.quit:
			return
		}
	}
}

// Hold keeps workers running until Release is called as often.
func (p *Pool) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
}

// Release takes back a Hold.
func (p *Pool) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds--
	p.sweepLater()
}

// Stats returns the counts so far.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Workers = p.total - p.starting
	return s
}

// Close ends all workers. Requests under way fail.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for _, w := range p.idle {
		go w.kill()
	}
	p.total -= len(p.idle)
	p.idle = nil
	p.lanes.fail(fmt.Errorf("%w: closed", ErrUnavailable))
	// The thread that started the workers goes, and takes those with it that are busy.
	close(p.quit)
}

// Do asks a worker. It waits for one until ctx is done, and for the answer for at most limit;
// a request that its caller gave up goes on until then, and counts against its tenant. It
// returns how long the caller waited for the answer of the worker; 0 means that the request was
// not sent. The error is ctx's own or one of the package.
func (p *Pool) Do(ctx context.Context, tenant string, limit time.Duration, payload []byte) ([]byte, time.Duration, error) {
	if len(payload) > largestRequest {
		return nil, 0, fmt.Errorf("a request of %d bytes: at most %d are allowed", len(payload), largestRequest)
	}
	w, err := p.acquire(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	type result struct {
		reply []byte
		err   error
	}
	results := make(chan result, 1)
	begin := time.Now()
	go func() {
		reply, last, err := w.ask(payload, limit)
		p.release(w, tenant, time.Since(begin), last, err)
		results <- result{reply, err}
	}()
	select {
	case r := <-results:
		return r.reply, max(time.Since(begin), 1), r.err
	case <-ctx.Done():
		return nil, max(time.Since(begin), 1), fmt.Errorf("given up: %w", Ended(ctx))
	}
}

// Ended returns why ctx is done, as its error and as the cause that it was given.
func Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// longestWait bounds the wait for a worker of callers whose context has no end.
const longestWait = 30 * time.Second

// acquire returns a worker for a request of a tenant, when it is the tenant's turn.
func (p *Pool) acquire(ctx context.Context, tenant string) (*process, error) {
	if ctx.Err() != nil {
		return nil, Ended(ctx)
	}
	turn, err := p.queue(tenant)
	if err != nil {
		return nil, err
	}
	var cause error
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	select {
	case <-turn.granted:
		return turn.worker, turn.err
	case <-ctx.Done():
		cause = Ended(ctx)
	case <-timer.C:
		cause = context.DeadlineExceeded
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes.leave(turn) {
		return nil, fmt.Errorf("wait for one of %d workers: %w", p.options.Workers, cause)
	}
	return turn.worker, turn.err
}

// queue lets a request wait for its turn, which may have come already.
func (p *Pool) queue(tenant string) (*turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, fmt.Errorf("%w: closed", ErrUnavailable)
	case p.total == 0 && time.Now().Before(p.retry):
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, p.failure)
	}
	p.lastUse = time.Now()
	turn, ok := p.lanes.join(tenant)
	if !ok {
		return nil, fmt.Errorf("%w (%d)", ErrBusy, longestLane)
	}
	p.grant()
	return turn, nil
}

// grant gives idle workers to those whose turn it is, and starts what is missing.
func (p *Pool) grant() {
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		if !p.lanes.grant(p.idle[last], p.total-p.starting, time.Now()) {
			break
		}
		p.idle = p.idle[:last]
	}
	// A request that still waits may not have an idle worker, but may have another one.
	needed := len(p.idle) == 0 || len(p.lanes.order) > 0
	if needed && p.starting == 0 && p.total < p.options.Workers && !p.closed && !time.Now().Before(p.retry) {
		p.start()
	}
}

// start starts a worker in the background.
func (p *Pool) start() {
	p.total++
	p.starting++
	go func() {
		w, err := p.launch()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.starting--
		if err == nil && p.closed {
			p.total--
			go w.kill()
			return
		}
		if err != nil {
			p.fail(err)
			return
		}
		p.failures = 0
		p.stats.Started++
		p.idle = append(p.idle, w)
		p.grant()
		p.sweepLater()
	}()
}

// launch starts a worker on the thread that lives as long as the pool.
func (p *Pool) launch() (w *process, err error) {
	path := p.options.program
	if path == "" {
		if !Installed() {
			return nil, errNotInstalled
		}
		if path, err = self(); err != nil {
			return nil, fmt.Errorf("start worker: %w", err)
		}
	}
	done := make(chan struct{})
	begin := func() {
		defer close(done)
		w, err = start(path, p.options.Memory)
	}
	select {
	case p.starts <- begin:
		<-done
	case <-p.quit:
		return nil, ErrUnavailable
	}
	if err == nil {
		err = w.greet()
	}
	return w, err
}

// fail takes note of a worker that could not be started: the next try is later and later.
func (p *Pool) fail(err error) {
	p.total--
	p.failures++
	p.failure = err
	wait := min(100*time.Millisecond<<min(p.failures-1, 10), 10*time.Second)
	p.retry = time.Now().Add(wait)
	p.options.Log.Error("cannot start a worker for CUE", "err", err, "retry", wait)
	if p.total == 0 {
		p.lanes.fail(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
}

// release takes back a worker after a request, or replaces it if that was its last.
func (p *Pool) release(w *process, tenant string, took time.Duration, last bool, err error) {
	if last && err == nil {
		go w.kill()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.lastUse = now
	p.lanes.done(tenant, took, err, now)
	switch {
	case last || p.closed:
		p.total--
		p.count(err)
	default:
		p.idle = append(p.idle, w)
	}
	if p.closed {
		if !last {
			p.idle = nil
			go w.kill()
		}
		return
	}
	if err != nil {
		p.options.Log.Warn("a worker for CUE was ended", "namespace", tenant, "after", took, "err", err)
	}
	p.grant()
}

func (p *Pool) count(err error) {
	switch {
	case err == nil:
		p.stats.Recycled++
	case errors.Is(err, ErrTimeout):
		p.stats.Overran++
	case errors.Is(err, ErrMemory):
		p.stats.OutOfMemory++
	default:
		p.stats.Crashed++
	}
}

// sweepLater sees to it that workers which nobody needs any more end.
func (p *Pool) sweepLater() {
	if p.sweeping || p.closed {
		return
	}
	p.sweeping = true
	time.AfterFunc(p.options.Idle, p.sweep)
}

func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeping = false; p.holds > 0 || p.closed {
		return
	}
	if time.Since(p.lastUse) >= p.options.Idle {
		for _, w := range p.idle {
			go w.kill()
		}
		p.total -= len(p.idle)
		p.idle = nil
	}
	if p.total > 0 {
		p.sweepLater()
	}
}
