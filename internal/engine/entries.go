package engine

import (
	"context"
	"maps"
	"strings"
	"sync"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// Entries is a [usher.Decider] that decides a request for an entry by the rules of that entry. It
// is safe for concurrent use.
type Entries struct {
	usher.Decider

	rules []rule.Rule
	some  map[string]*some
}

// A some decides by some of the rules. It is created on first use: most clusters use few of the
// possible entries.
type some struct {
	rules   func() []rule.Rule
	decider func() usher.Decider
}

// NewEntries returns a Decider for rules and the possible entries: see [rule.Coverage.Entries]. all
// decides by all rules, and by returns a Decider for some of them.
func NewEntries(rules []rule.Rule, names []string, all usher.Decider, by func([]rule.Rule) usher.Decider) *Entries {
	e := &Entries{Decider: all, rules: rules, some: map[string]*some{}}
	for _, name := range names {
		at, _ := rule.ParseEntry(name)
		if at.Whole() {
			continue
		}
		own := sync.OnceValue(func() []rule.Rule { return at.Of(rules) })
		e.some[name] = &some{own, sync.OnceValue(func() usher.Decider {
			if (at.Part == rule.Metadata || at.Part == rule.Beside) && at.Phase == usher.Mutate {
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

// Known reports whether an entry exists: it is for all rules, or has rules, or is for candidates.
func (e *Entries) Known(name string) bool {
	at, ok := rule.ParseEntry(name)
	return name == "" || e.some[name] != nil || ok && (at.Whole() || at.OfCandidates())
}

// Rules returns the rules of an entry, in evaluation order; all rules if the name is empty. They
// are shared: do not change them.
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

// none reports whether an entry that is not known here has no rules: the webhook configuration may
// be newer or older than the policies in force. A name that is not one of an entry is decided by
// all rules.
func none(name string) bool {
	at, ok := rule.ParseEntry(name)
	return ok && !at.Whole()
}

// metadataOnly has next decide writes of the status or finalize subresource, in which API servers
// have not yet restored the fields that cannot change: next sees the stored object with its new
// metadata, and can change nothing else.
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

// withMetadata returns the request with the old object, except for its metadata, as the object.
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

// ofMetadata returns the operations of a patch that change metadata.
func ofMetadata(patch usher.Patch) usher.Patch {
	var kept usher.Patch
	for _, op := range patch {
		if strings.HasPrefix(op.Path, "/metadata/") {
			kept = append(kept, op)
		}
	}
	return kept
}
