package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/serve/page"
)

const (
	// checkedEvery is how often the server looks for evaluations that do not end.
	checkedEvery = 5 * time.Second
	// leastAge is how long a server runs at least before it replaces itself: a crash loop is worse than
	// evaluations that take its processors.
	leastAge = 10 * time.Minute
	// mostDelay keeps replicas that get the same objects from leaving together.
	mostDelay = time.Minute
)

// errReplaced is the error of a server that ends because evaluations do not.
var errReplaced = errors.New("ended to be replaced, since evaluations of policies do not end")

// awaitSickness waits until evaluations do not end, and reports whether that was before ctx was done.
func awaitSickness(ctx context.Context, state func() overrun.State, log *slog.Logger) bool {
	began, delay := time.Now(), rand.N(mostDelay)
	var since time.Time
	ticker := time.NewTicker(checkedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		now := time.Now()
		why := state().Sick(now)
		switch {
		case why == "":
			since = time.Time{}
			continue
		case since.IsZero():
			since = now
			log.Error("evaluations of policies do not end: the server is going to be replaced", "reason", why,
				"after", max(delay, leastAge-now.Sub(began)).Round(time.Second).String())
		}
		if now.Sub(since) >= delay && now.Sub(began) >= leastAge {
			log.Error("ending the server, to be replaced", "reason", why)
			return true
		}
	}
}

// describeOverruns writes how many evaluations go on after their time. A server that has some decides as
// others do, so it stays ready: all replicas are sent the same objects.
func describeOverruns(b *page.Page, what string, state overrun.State) {
	if len(state.Late) > 0 {
		fmt.Fprintf(b, "%s that go on after their time: %d\n", what, len(state.Late))
	}
}

// nameOverruns writes which they are.
func nameOverruns(b *page.Page, what string, state overrun.State) {
	if state.Overruns > 0 {
		fmt.Fprintf(b, "%s that went on after their time since the start: %d\n", what, state.Overruns)
	}
	for i := range state.Late {
		if i == mostNamed {
			fmt.Fprintf(b, "  and %d more\n", len(state.Late)-i)
			break
		}
		o := &state.Late[i]
		b.Namef("  %s %s, for %s in %q, since %s\n", o.Policy, o.Rule, o.User, o.Namespace, o.Due.Format(time.RFC3339))
	}
}
