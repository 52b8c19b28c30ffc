package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// paramsTimeout is how long one of them may take to read.
const paramsTimeout = 5 * time.Second

// params says which bindings have no params, and which data of policies cannot be read. Without them a policy does
// nothing, or denies everything, and nobody would know why.
type params struct {
	wake chan struct{}

	mu       sync.Mutex
	expected []compile.Need
	problems []rule.Problem
}

func newParams() *params { return &params{wake: make(chan struct{}, 1)} }

// expect records what the policies in force need, and wakes the goroutine that reads them.
func (p *params) expect(all []compile.Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = all
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// found returns the problems of the last time.
func (p *params) found() []rule.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problems
}

func (p *params) due() []compile.Need {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

// put keeps problems. It reports whether they differ from the ones before.
func (p *params) put(problems []rule.Problem) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(p.problems, problems) {
		return false
	}
	p.problems = problems
	return true
}

// unanswered returns which policies need facts that nobody resolves: they fail.
func unanswered(facts fact.Resolver, enforced []compile.Compiled) []rule.Problem {
	if facts != nil {
		return nil
	}
	var problems []rule.Problem
	for i := range enforced {
		if what := enforced[i].ReadsBeside(); what != "" {
			problems = append(problems, enforced[i].Place(rule.Problem{
				Severity: rule.Mistake, Field: "spec", What: "it reads " + what + ", which this program has no facts for, and fails for the requests that need it",
				Do: "give the program facts (live.Options.Facts)",
			}))
		}
	}
	return problems
}

// readParams reads what policies need after each update and from time to time, until ctx is
// done.
func (l *Live) readParams(ctx context.Context) {
	ticker := time.NewTicker(tryAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.params.wake:
		case <-ticker.C:
		}
		var problems []rule.Problem
		for _, p := range l.params.due() {
			reading, cancel := context.WithTimeout(ctx, paramsTimeout)
			value, err := l.options.Facts.Resolve(reading, p.Ref)
			cancel()
			if problem, absent := p.Problem(value, err); absent {
				problems = append(problems, problem)
			}
		}
		if ctx.Err() == nil && l.params.put(problems) {
			l.updating.Lock()
			l.update(l.sets)
			l.updating.Unlock()
		}
	}
}
