package live

import (
	"context"
	"slices"
	"sync"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// Compiled returns the policies in force as they are compiled, the last good version of each, and
// after them those that API servers enforce themselves. OnUpdate tells when they have changed; it
// may call Compiled. The first call after a change compiles what API servers enforce. Policies that
// are the same as before have the same rules. They are shared: do not change them.
func (l *Live) Compiled() []compile.Compiled {
	current := l.current.Load()
	return slices.Concat(current.enforced, l.others.compiled(current.elsewhere, current.enforced, l.options.Compile))
}

// Enforced returns the policies in force as they are compiled: those of Compiled without the ones that
// API servers enforce. They are shared: do not change them.
func (f *inForce) Enforced() []compile.Compiled { return f.current.Load().enforced }

// Named returns the policies that there are: those in force, those that are not, and those that API servers enforce.
func (f *inForce) Named() []usher.PolicyRef {
	current := f.current.Load()
	var all []usher.PolicyRef
	for i := range current.policies {
		all = append(all, current.policies[i].Policy)
	}
	for _, policy := range current.elsewhere {
		all = append(all, compile.Ref(policy.Object))
	}
	return all
}

// NamedByCandidates returns the candidates that there are, and the policies that those embed and replace which compile.
func (f *inForce) NamedByCandidates() []usher.PolicyRef {
	all := slices.DeleteFunc(f.Named(), func(ref usher.PolicyRef) bool {
		kind, known := api.KindCalled(ref.Kind)
		return !known || !kind.Candidate
	})
	for _, c := range f.Enforced() {
		if c.Candidate == nil {
			continue
		}
		if c.Candidate.Replaces.Name != "" {
			all = append(all, c.Candidate.Replaces)
		}
		for i := range c.Candidate.Policies {
			all = append(all, c.Candidate.Policies[i].Ref)
		}
	}
	return all
}

// others compiles the policies that API servers enforce, once they are needed.
type others struct {
	mu    sync.Mutex
	known map[usher.PolicyRef]*compile.Compiled
}

// compiled returns policies as they are compiled, without those that are enforced here as well. A
// part that cannot be compiled here is one that fails.
func (o *others) compiled(policies []api.Policy, enforced []compile.Compiled, options compile.Options) []compile.Compiled {
	if len(policies) == 0 {
		return nil
	}
	here := make(map[usher.PolicyRef]bool, len(enforced))
	for i := range enforced {
		here[enforced[i].Ref] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	known := make(map[usher.PolicyRef]*compile.Compiled, len(policies))
	all := make([]compile.Compiled, 0, len(policies))
	for _, policy := range policies {
		ref := compile.Ref(policy.Object)
		if here[ref] || known[ref] != nil {
			continue
		}
		c := o.known[ref]
		if c == nil || !(&version{newest: *c}).holds(policy) {
			newest := options.Policy(context.Background(), policy)
			newest.Elsewhere = true
			c = &newest
		}
		known[ref] = c
		all = append(all, *c)
	}
	o.known = known
	return all
}

// sameOnes reports whether two lists have the same versions of the same policies.
func sameOnes(a, b []api.Policy) bool {
	return slices.EqualFunc(a, b, func(a, b api.Policy) bool { return a.Object == b.Object || same(a.Object, b.Object) })
}
