package engine

import (
	"context"
	"maps"
	"strings"
	"sync"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
)

// Entries is a [usher.Decider] that decides requests which name an entry by the rules that
// belong to it. It is safe for concurrent use.
type Entries struct {
	usher.Decider

	rules []rule.Rule
	some  map[string]*some
}

// A some decides by some of the rules. It is made when it is first asked: most clusters ask
// few of the entries that there may be.
type some struct {
	rules   func() []rule.Rule
	decider func() usher.Decider
}

// NewEntries returns a Decider for rules and the entries that there may be: see
// [rule.Coverage.Entries]. all decides by all rules, and by returns what decides by some.
func NewEntries(rules []rule.Rule, names []string, all usher.Decider, by func([]rule.Rule) usher.Decider) *Entries {
	e := &Entries{Decider: all, rules: rules, some: map[string]*some{}}
	for _, name := range names {
		at, _ := rule.ParseEntry(name)
		if at.Whole() {
			continue
		}
		own := sync.OnceValue(func() []rule.Rule { return at.Of(rules) })
		e.some[name] = &some{own, sync.OnceValue(func() usher.Decider {
			if at.Part == rule.Metadata && at.Phase == usher.Mutate {
				return metadataOnly(by(own()))
			}
			return by(own())
		})}
	}
	return e
}

// Decide implements [usher.Decider].
func (e *Entries) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if r.Entry == "" {
		return e.Decider.Decide(ctx, r)
	}
	if known := e.some[r.Entry]; known != nil {
		return known.decider().Decide(ctx, r)
	}
	if none(r.Entry) {
		return usher.Decision{Verdict: usher.Allow}, nil
	}
	return e.Decider.Decide(ctx, r)
}

// Known reports whether an entry is one for all rules, or some rules belong to it.
func (e *Entries) Known(name string) bool {
	at, ok := rule.ParseEntry(name)
	return name == "" || e.some[name] != nil || ok && at.Whole()
}

// Rules returns the rules that belong to an entry, in evaluation order; all of them if the
// name is empty. They are shared: do not change them.
func (e *Entries) Rules(name string) []rule.Rule {
	known := e.some[name]
	switch {
	case known != nil:
		return known.rules()
	case none(name):
		return nil
	}
	return e.rules
}

// none reports whether an entry that no rule is known to belong to has none: the registration
// may be ahead of the policies that are in force here, or behind them. What is no name of an
// entry is decided by all rules.
func none(name string) bool {
	at, ok := rule.ParseEntry(name)
	return ok && !at.Whole()
}

// metadataOnly has next decide on objects whose status or finalize subresource is written,
// before the API server has put back what cannot be changed there: next sees the object that
// is stored, with the metadata that is to become its own, and changes nothing else.
func metadataOnly(next usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		stored, err := withMetadata(r)
		if err != nil {
			return undecodable(ctx, r, err)
		}
		d, err := next.Decide(ctx, stored)
		if err != nil {
			return d, err
		}
		d.Patch = ofMetadata(d.Patch)
		for i := range d.Findings {
			f := &d.Findings[i]
			if f.Patch = ofMetadata(f.Patch); f.Outcome == usher.Changed && len(f.Patch) == 0 {
				f.Outcome = usher.Passed
			}
		}
		return d, nil
	})
}

// withMetadata returns the request with the old object in place of the object, but for its
// metadata.
func withMetadata(r *usher.Request) (*usher.Request, error) {
	object, err := r.Object.Tree()
	if err != nil {
		return nil, err
	}
	old, err := r.OldObject.Tree()
	if err != nil {
		return nil, err
	}
	if object == nil || old == nil {
		return r, nil
	}
	stored := maps.Clone(old)
	stored["metadata"] = object["metadata"]
	changed := *r
	changed.Object = usher.TreeObject(stored)
	return &changed, nil
}

// ofMetadata returns what of a patch changes metadata.
func ofMetadata(patch usher.Patch) usher.Patch {
	var kept usher.Patch
	for _, op := range patch {
		if strings.HasPrefix(op.Path, "/metadata/") {
			kept = append(kept, op)
		}
	}
	return kept
}
