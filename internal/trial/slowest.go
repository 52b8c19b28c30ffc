package trial

import (
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// Slowest is a rule, and how long it took for the request for which it took longest.
type Slowest struct {
	Rule string
	Took time.Duration
}

// note notes that a rule took so long.
func (s *Slowest) note(name string, took time.Duration) {
	if s != nil && took > s.Took {
		s.Rule, s.Took = name, took
	}
}

// TooSlow says that a policy was not tried within a time: which rule is slow, and where it is said what time it has when it
// decides.
func (r Report) TooSlow(longest time.Duration) string {
	text := fmt.Sprintf("everything: that takes longer than %s", longest)
	if r.Slowest.Rule != "" {
		text += fmt.Sprintf("; %s took up to %s for one request (what it may take: %s)", r.Slowest.Rule, r.Slowest.Took.Round(time.Millisecond), limits)
	}
	return text
}

// slow is how long a rule takes for one request that is warned of because there was no time to try everything. CEL whose cost is
// counted is stopped after twice that.
const slow = 100 * time.Millisecond

// Late warns of the rule for which the time to try a policy was over. It warns of nothing if no rule took long: then the machine
// was busy, or there is much to try.
func (r Report) Late(c *compile.Compiled) []rule.Problem {
	if !r.Cut || r.Slowest.Took < slow {
		return nil
	}
	// It names no time that differs from one try to the next.
	return []rule.Problem{c.Place(rule.Problem{
		Severity: rule.Warning, Field: r.Slowest.Rule, What: "it takes so long for a request that trying the policy was stopped",
		Do: "measure it with usher explain --cost; what it may take: " + limits,
	})}
}

// limits is where it is said what time a policy has when it decides.
const limits = "docs/install.md#when-policies-are-slow-costly-or-fail"
