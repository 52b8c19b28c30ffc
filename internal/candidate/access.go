package candidate

import (
	"context"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/compile"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/turns"
)

// An access has the candidates with authorization policies. Each decides among all the others in force, which
// have it in common. It is immutable.
type access struct {
	options *authzengine.Options
	inForce *authzengine.Engine
	beside  map[*compared]usher.Decider
	// index has the rules of all, of has whose they are.
	index *authzindex.Index
	of    map[*authz.Rule][]*compared
}

// accessOf returns those among the candidates that are about authorization policies.
func (e *Evaluator) accessOf(candidates []*compared, inForce []compile.Compiled) access {
	if e.options.Access == nil || !slices.ContainsFunc(candidates, (*compared).authorizes) {
		return access{}
	}
	a := access{options: e.options.Access, beside: map[*compared]usher.Decider{}, of: map[*authz.Rule][]*compared{}}
	a.inForce = authzengine.New(authzindex.New(compile.Access(inForce)), *a.options)
	var rules []*authz.Rule
	for _, c := range candidates {
		if !c.authorizes() {
			continue
		}
		a.beside[c] = a.inForce.Beside(c.affected, c.accessIs)
		for _, r := range slices.Concat(c.accessWas, c.accessIs) {
			if len(a.of[r]) == 0 {
				rules = append(rules, r)
			}
			if !slices.Contains(a.of[r], c) {
				a.of[r] = append(a.of[r], c)
			}
		}
	}
	a.index = authzindex.New(rules)
	return a
}

// concerns reports whether a candidate has a rule for a request to authorize.
func (a *access) concerns(r *usher.Request) bool {
	some := false
	if a.index != nil {
		q := authz.QueryOf(r, a.options.Scope)
		a.index.Matching(&q, func(int32) bool {
			some = true
			return false
		})
	}
	return some
}

// concerning returns the candidates that have a rule for a request to authorize.
func (a *access) concerning(r *usher.Request) []*compared {
	if a.index == nil {
		return nil
	}
	var all []*compared
	known := map[*compared]bool{}
	q := authz.QueryOf(r, a.options.Scope)
	a.index.Matching(&q, func(place int32) bool {
		for _, c := range a.of[a.index.Rules()[place]] {
			if !known[c] {
				known[c] = true
				all = append(all, c)
			}
		}
		return true
	})
	return all
}

// OfferAccess has the candidates evaluated for a request to authorize that was decided, unless they are busy.
// only is the verdict that the answer can have besides no opinion; empty for every one.
func (e *Evaluator) OfferAccess(r *usher.Request, only usher.Verdict) {
	s := e.current.Load()
	if !s.access.concerns(r) {
		return
	}
	w := &waiting{request: r, at: time.Now(), only: only, turn: "authorize " + turns.OfUser(r.User.Name), bytes: sizeOf(r)}
	if w.bytes > largest || !e.take(w) {
		skipped(s.concerning(r))
		return
	}
	e.work.Add(w.turn, r.User.Name, w, queue.Low)
}

// sizeOf returns how many bytes a request to authorize takes.
func sizeOf(r *usher.Request) int64 {
	n := overhead + len(r.User.Name) + len(r.Namespace) + len(r.Name) + len(r.Access.Path)
	sizes := func(texts []string) {
		for _, text := range texts {
			n += len(text) + 16
		}
	}
	sizes(r.User.Groups)
	for key, values := range r.User.Extra {
		n += len(key)
		sizes(values)
	}
	for _, all := range [][]usher.Requirement{r.Access.Labels, r.Access.Fields} {
		for i := range all {
			n += len(all[i].Key)
			sizes(all[i].Values)
		}
	}
	return int64(n)
}

// authorize has each candidate evaluated for a request to authorize.
func (e *Evaluator) authorize(ctx context.Context, w *waiting, s *set, concerned []*compared) {
	was, ok := decided(ctx, s.access.inForce, w.request)
	if !ok {
		skipped(concerned)
		return
	}
	for _, c := range concerned {
		is, ok := decided(ctx, s.access.beside[c], w.request)
		if !ok {
			skipped([]*compared{c})
			continue
		}
		e.countAccess(c, w, &was, &is)
	}
}

// decided returns a decision; false if it takes too long.
func decided(ctx context.Context, by usher.Decider, r *usher.Request) (usher.Decision, bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d, err := by.Decide(ctx, r)
	return d, err == nil && ctx.Err() == nil
}

// countAccess counts how decisions about a request to authorize differ.
func (e *Evaluator) countAccess(c *compared, w *waiting, was, is *usher.Decision) {
	said := func(d *usher.Decision) usher.Verdict {
		if w.only != "" && d.Verdict != w.only {
			return usher.NoOpinion
		}
		return d.Verdict
	}
	before, now := said(was), said(is)
	answer := *is
	answer.Verdict = now
	e.counts(c, w, &answer, func(kind string) bool {
		switch kind {
		case "denied":
			return before != now && now == usher.Deny
		case "allowed":
			return before != now && now == usher.Allow
		case "noOpinion":
			return before != now && now == usher.NoOpinion
		case "failing":
			return c.fails(is) && !c.fails(was)
		}
		return false
	})
}

// fails reports whether a policy that the candidate affects has failed.
func (c *compared) fails(d *usher.Decision) bool {
	return slices.ContainsFunc(d.Findings, func(f usher.Finding) bool { return f.Outcome == usher.Failed && c.affected[f.Policy] })
}
