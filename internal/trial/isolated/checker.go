package isolated

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"
)

// Options configure a [Checker]. The zero value works.
type Options struct {
	// Timeout is how long one policy may take, by default 2 s.
	Timeout time.Duration
	// Again is the time after which a policy that was stopped is tried once more, by default
	// [compile.Again].
	Again time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
}

// A Checker is a [compile.Checker] on the workers of a pool. It remembers which policies were stopped,
// and does not try them again before their spec or this program changes, or before some time has
// passed. It is safe for concurrent use.
type Checker struct {
	pool    *worker.Pool
	options Options

	mu      sync.Mutex
	known   map[digest]verdict
	stopped map[string]int
}

// New returns a checker on the workers of a pool.
func New(pool *worker.Pool, o Options) *Checker {
	o.Timeout, o.Again = cmp.Or(o.Timeout, 2*time.Second), cmp.Or(o.Again, compile.Again)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Checker{pool: pool, options: o, known: map[digest]verdict{}, stopped: map[string]int{}}
}

// Stopped returns how many policies were stopped so far, by reason: timeout, memory or crash.
func (c *Checker) Stopped() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return map[string]int{
		"timeout": c.stopped[v1alpha1.ReasonCompileTimeout], "memory": c.stopped[v1alpha1.ReasonCompileMemory], "crash": c.stopped[v1alpha1.ReasonCompileCrash],
	}
}

// Check implements [compile.Checker].
func (c *Checker) Check(ctx context.Context, p api.Policy, depth compile.Depth) compile.Checked {
	if !checked(p.Object) || !worker.Installed(worker.Policies) {
		return compile.Checked{}
	}
	q, err := questionOf(p.Object, depth)
	if err != nil {
		// What was decoded can be encoded.
		return compile.Checked{}
	}
	if v, ok := c.recall(p.Object, q); ok {
		return compile.Checked{Problem: c.problem(q, v, nil)}
	}
	var took time.Duration
	job := worker.Job{
		Kind: worker.Policies, Tenant: p.Object.GetNamespace(), Background: true, Limit: c.options.Timeout, Size: len(q.text),
		Used: func(cpu time.Duration) { took += cpu }, Payload: q.encode,
	}
	_, _, err = c.pool.Do(ctx, job)
	v := verdict{depth: depth, reason: reasonOf(err), until: c.options.Now().Add(c.options.Again)}
	if err != nil && v.reason == "" {
		return compile.Checked{Took: took, Problem: rule.Problem{
			Pending: true, What: fmt.Sprintf("it has not been compiled yet: %v", err), Do: "wait, or try again",
		}}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(q.digest, v)
	if v.reason != "" {
		c.stopped[v.reason]++
	}
	return compile.Checked{Took: took, Problem: c.problem(q, v, err)}
}

// encode returns the request to a worker.
func (q *question) encode() ([]byte, error) {
	return json.Marshal(request{Policy: q.text, Depth: q.depth})
}

// reasonOf returns the reason of the condition of a policy that was stopped; empty if an error is not
// one of the policy.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, worker.ErrStarved):
		return ""
	case errors.Is(err, worker.ErrTimeout):
		return v1alpha1.ReasonCompileTimeout
	case errors.Is(err, worker.ErrMemory):
		return v1alpha1.ReasonCompileMemory
	case errors.Is(err, worker.ErrCrashed):
		return v1alpha1.ReasonCompileCrash
	}
	return ""
}

// problem returns the problem of a policy, which is empty if it was not stopped.
func (c *Checker) problem(q *question, v verdict, err error) rule.Problem {
	p := rule.Problem{
		Do:      "write shorter or fewer expressions, or split the policy",
		Stopped: rule.Stopped{Reason: v.reason, Spec: q.digest.String()},
	}
	what := "compile"
	if v.depth == compile.Trying {
		what = "compile and try on sample objects"
	}
	switch v.reason {
	case "":
		return rule.Problem{}
	case v1alpha1.ReasonCompileTimeout:
		p.What = fmt.Sprintf("it takes longer than %s to %s", c.options.Timeout, what)
	case v1alpha1.ReasonCompileMemory:
		p.What = fmt.Sprintf("it needs more than %d MiB to %s", c.pool.Memory()>>20, what)
	default:
		p.What, p.Do = "the process that was to "+what+" it crashed", "write it in another way, and report this as a defect"
		if err != nil {
			p.What += ": " + err.Error()
		}
	}
	return p
}
