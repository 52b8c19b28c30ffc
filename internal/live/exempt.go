package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// tryExemption adds to what trying a policy that is written finds why an exemption or a candidate will not be
// effective, as its status will say. Enforced are the policies in force. Those
// that are suspended exist: an exemption may be from them.
func (o Options) tryExemption(enforced, suspended []compile.Compiled, elsewhere []api.Policy) func(context.Context, compile.Compiled) []rule.Problem {
	return func(ctx context.Context, c compile.Compiled) []rule.Problem {
		problems := o.Trial(ctx, c)
		if c.Exemption == nil && c.Candidate == nil {
			return problems
		}
		later := exemptsLater(c, enforced, suspended)
		others := slices.Clone(enforced)
		if c.Exemption != nil {
			others = append(others, suspended...)
		}
		others = slices.DeleteFunc(others, func(other compile.Compiled) bool { return other.Ref == c.Ref })
		for _, p := range compile.Ineffective(append(others, c), elsewhere, o.Engine.Now()) {
			if p.Policy == c.Ref && p.Field != "spec.expiresAt" {
				later = append(later, p)
			}
		}
		return append(problems, later...)
	}
}

// exemptsLater returns a warning if an exemption is from suspended policies, and from none in force.
func exemptsLater(c compile.Compiled, enforced, suspended []compile.Compiled) []rule.Problem {
	if c.Exemption == nil {
		return nil
	}
	from := func(p compile.Compiled) bool {
		_, ok := c.Exemption.For(p.Ref)
		return ok
	}
	i := slices.IndexFunc(suspended, from)
	if i < 0 || slices.ContainsFunc(enforced, from) {
		return nil
	}
	return []rule.Problem{c.Place(rule.Problem{
		Severity: rule.Warning, Field: "spec.policyRefs", What: fmt.Sprintf("%s is suspended: the exemption counts when it is in force again", suspended[i].Ref),
	})}
}

// Exemptions returns the state of each exemption, in force or not, with its uses so far.
func (l *Live) Exemptions() []rule.ExemptionState {
	return l.uses.of(l.current.Load().exemptions)
}

// exemptionStates returns the states of exemptions, without their uses. A problem of all policies
// that concerns one of them is ineffective.
func exemptionStates(versions []*version, ineffective []rule.Problem) []rule.ExemptionState {
	var states []rule.ExemptionState
	for _, v := range versions {
		if kind, ok := api.KindOf(v.newest.Policy.Object); !ok || !kind.Exempts {
			continue
		}
		state := rule.ExemptionState{
			Ref: v.newest.Ref, UID: uid(v.newest.Policy), Generation: v.newest.Policy.Object.GetGeneration(),
			Created:  v.newest.Policy.Object.GetCreationTimestamp().Time,
			Problems: slices.Clone(v.newest.Problems),
		}
		if v.good != nil && v.good.Exemption != nil {
			state.Generation, state.Expires = v.good.Policy.Object.GetGeneration(), v.good.Exemption.Expires
		}
		for _, p := range ineffective {
			if p.Policy == state.Ref {
				state.Problems = append(state.Problems, p)
			}
		}
		state.NotEffective = notEffective(v, state.Problems)
		states = append(states, state)
	}
	return states
}

// notEffective returns why none of the policies to which an exemption refers exempts a request; empty
// if one may.
func notEffective(v *version, problems []rule.Problem) string {
	if v.good == nil || v.good.Exemption == nil {
		return ""
	}
	first := ""
	for i := range v.good.Exemption.Policies {
		field := fmt.Sprintf("spec.policyRefs[%d].name", i)
		n := slices.IndexFunc(problems, func(p rule.Problem) bool { return p.Field == field })
		if n < 0 {
			return ""
		}
		if first == "" {
			first = fmt.Sprintf("%s: %s; %s", field, problems[n].Text(), problems[n].Do)
		}
	}
	return first
}

// uses counts how exemptions are used. A new version of an exemption continues the count.
type uses struct {
	// wake tells that there are other exemptions, whose ends have to be awaited.
	wake chan struct{}

	mu    sync.Mutex
	known map[usher.PolicyRef]*use
}

type use struct {
	uid   types.UID
	count int64
	last  time.Time
}

func newUses() *uses {
	return &uses{wake: make(chan struct{}, 1), known: map[usher.PolicyRef]*use{}}
}

// expect forgets exemptions that are gone.
func (u *uses) expect(states []rule.ExemptionState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := make(map[usher.PolicyRef]*use, len(states))
	for i := range states {
		s := &states[i]
		if of := u.known[s.Ref]; of != nil && of.uid == s.UID {
			known[s.Ref] = of
			continue
		}
		known[s.Ref] = &use{uid: s.UID}
	}
	u.known = known
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// count counts the exemptions that a decision used, each once.
func (u *uses) count(r *usher.Request, d *usher.Decision) {
	if r.DryRun {
		return
	}
	var counted []usher.PolicyRef
	for i := range d.Findings {
		for j := range d.Findings[i].Exemptions {
			ref := d.Findings[i].Exemptions[j].PolicyRef
			if slices.Contains(counted, ref) {
				continue
			}
			counted = append(counted, ref)
			u.add(ref)
		}
	}
}

func (u *uses) add(ref usher.PolicyRef) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if of := u.known[ref]; of != nil {
		of.count++
		of.last = time.Now()
	}
}

func (u *uses) of(states []rule.ExemptionState) []rule.ExemptionState {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Clone(states)
	for i := range all {
		if of := u.known[all[i].Ref]; of != nil && of.uid == all[i].UID {
			all[i].Uses, all[i].LastUsed = of.count, of.last
		}
	}
	return all
}

// expire reports exemptions when they end, until ctx is done: nothing else changes then.
func (l *Live) expire(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.uses.wake:
		case <-timer.C:
			l.updating.Lock()
			l.update(l.sets)
			l.updating.Unlock()
		}
		timer.Reset(l.untilNextEnd())
	}
}

// untilNextEnd returns how long it takes until the next exemption ends, and an hour at most: the
// clock may be set.
func (l *Live) untilNextEnd() time.Duration {
	// An update that has just made other exemptions known is not in force before it ends.
	l.updating.Lock()
	defer l.updating.Unlock()
	now, wait := l.options.Engine.Now(), time.Hour
	for _, s := range l.current.Load().exemptions {
		if s.Expires.After(l.judged) {
			wait = min(wait, max(s.Expires.Sub(now), 0))
		}
	}
	return wait
}
