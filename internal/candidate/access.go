package candidate

import (
	"context"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
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
	inForce map[*lane]*authzengine.Engine
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
	a := access{options: e.options.Access, inForce: map[*lane]*authzengine.Engine{}, beside: map[*compared]usher.Decider{}, of: map[*authz.Rule][]*compared{}}
	all := authzindex.New(compile.Access(inForce))
	for _, l := range []*lane{e.cluster, e.tenants} {
		options := *a.options
		options.Overruns = l.overruns
		a.inForce[l] = authzengine.New(all, options)
	}
	var rules []*authz.Rule
	for _, c := range candidates {
		if !c.authorizes() {
			continue
		}
		a.beside[c] = a.inForce[e.laneOf(c.of.Ref.Namespace)].Beside(c.affected, c.accessIs)
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

// concerns reports for which lanes a candidate has a rule for a request to authorize.
func (a *access) concerns(r *usher.Request) (cluster, tenants bool) {
	if a.index == nil {
		return false, false
	}
	q := authz.QueryOf(r, a.options.Scope)
	a.index.Matching(&q, func(place int32) bool {
		for _, c := range a.of[a.index.Rules()[place]] {
			cluster, tenants = cluster || c.of.Ref.Namespace == "", tenants || c.of.Ref.Namespace != ""
		}
		return !cluster || !tenants
	})
	return cluster, tenants
}

// concerning returns the candidates of a lane that have a rule for a request to authorize.
func (a *access) concerning(r *usher.Request, in *lane) []*compared {
	if a.index == nil {
		return nil
	}
	var all []*compared
	known := map[*compared]bool{}
	q := authz.QueryOf(r, a.options.Scope)
	a.index.Matching(&q, func(place int32) bool {
		for _, c := range a.of[a.index.Rules()[place]] {
			if own := c.of.Ref.Namespace != ""; !known[c] && own == in.tenants {
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
	cluster, tenants := s.access.concerns(r)
	if cluster {
		e.wait(s, e.cluster, &waiting{request: r, at: time.Now(), only: only, turn: turns.OfUser(r.User.Name), bytes: sizeOf(r)})
	}
	if tenants {
		e.wait(s, e.tenants, &waiting{request: r, at: time.Now(), only: only, turn: r.Namespace, bytes: sizeOf(r)})
	}
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

// authorize has each candidate of a lane evaluated for a request to authorize.
func (e *Evaluator) authorize(ctx context.Context, l *lane, w *waiting, s *set, concerned []*compared) {
	was, ok := decided(ctx, s.access.inForce[l], w.request)
	if !ok {
		skipped(concerned)
		return
	}
	for i, c := range concerned {
		is, ok := decided(ctx, s.access.beside[c], w.request)
		if !ok {
			skipped(concerned[i:])
			return
		}
		e.countAccess(c, w, &was, &is)
	}
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
