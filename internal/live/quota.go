package live

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// A Quota limits the policies of each kind in a namespace, so that the authors of one namespace do
// not use up memory and time of all. It does not limit cluster policies and policies from files,
// which operators provide.
type Quota struct {
	// Policies is the maximum number, by default 100; negative means no limit.
	Policies int
	// Bytes is the maximum of their total length as JSON without metadata and status, by default 1
	// MiB; negative means no limit.
	Bytes int
}

func (q Quota) withDefaults() Quota {
	return Quota{Policies: cmp.Or(q.Policies, 100), Bytes: cmp.Or(q.Bytes, 1<<20)}
}

// exceeded names the limit that this many policies of this many bytes exceed; "" if none.
func (q Quota) exceeded(policies, bytes int) (what, flag string) {
	switch {
	case q.Policies >= 0 && policies > q.Policies:
		return fmt.Sprintf("%d policies of this kind", q.Policies), "--namespace-policies"
	case q.Bytes >= 0 && bytes > q.Bytes:
		return fmt.Sprintf("%d bytes of policies of this kind", q.Bytes), "--namespace-policy-bytes"
	}
	return "", ""
}

// group is what a quota applies to.
type group struct{ namespace, kind string }

// usage has the lengths of the policies of a group, by name.
type usage map[group]map[string]int

// lengths caches the lengths of policies, which are immutable.
type lengths map[api.Object]int

// of returns the length of a policy.
func (l lengths) of(object api.Object) int {
	if n, ok := l[object]; ok {
		return n
	}
	text, err := json.Marshal(api.Spec(object))
	if err != nil {
		// A spec that cannot be encoded does not compile either.
		return 0
	}
	return len(text)
}

// apply returns the policies above the quota, with the problem of each, and the totals. The oldest
// policies stay; of two of the same age, the first by name.
func (q Quota) apply(refs []usher.PolicyRef, policies []api.Policy, known lengths) (map[int]rule.Problem, usage, lengths) {
	groups := map[group][]int{}
	for i, ref := range refs {
		if ref.Namespace != "" && policies[i].Position("").File == "" {
			g := group{ref.Namespace, ref.Kind}
			groups[g] = append(groups[g], i)
		}
	}
	surplus, all, next := map[int]rule.Problem{}, make(usage, len(groups)), lengths{}
	for g, members := range groups {
		slices.SortFunc(members, func(a, b int) int {
			older, younger := policies[a].Object.GetCreationTimestamp(), policies[b].Object.GetCreationTimestamp()
			return cmp.Or(older.Compare(younger.Time), cmp.Compare(refs[a].Name, refs[b].Name))
		})
		all[g] = make(map[string]int, len(members))
		count, bytes := 0, 0
		for _, i := range members {
			n := known.of(policies[i].Object)
			next[policies[i].Object], all[g][refs[i].Name] = n, n
			if what, flag := q.exceeded(count+1, bytes+n); what != "" {
				surplus[i] = rule.Problem{
					Policy: refs[i], Severity: rule.Error,
					What: fmt.Sprintf("it is not in force: namespace %s may have %s, and older ones come first", g.namespace, what),
					Do:   "delete or shorten some, or ask an operator of Usher to raise " + flag,
				}
				continue
			}
			count, bytes = count+1, bytes+n
		}
	}
	return surplus, all, next
}

// pending is how long a policy counts that was admitted, and that no source has: its writer may have been refused
// afterwards.
const pending = 10 * time.Second

// A tally has what counts against the quota when a policy is written: the policies of the sources, and
// those admitted here that these do not have yet.
type tally struct {
	quota Quota
	now   func() time.Time

	mu       sync.Mutex
	stored   usage
	admitted map[group]map[string]admission
}

// An admission is of a policy of this length, and counts until then.
type admission struct {
	length int
	until  time.Time
}

// update replaces the policies that sources have.
func (t *tally) update(stored usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored = stored
	for g, policies := range t.admitted {
		maps.DeleteFunc(policies, func(name string, a admission) bool {
			length, ok := stored[g][name]
			return ok && length == a.length || t.now().After(a.until)
		})
		if len(policies) == 0 {
			delete(t.admitted, g)
		}
	}
}

// check returns why a policy may not be written, if it would exceed the quota in number or in
// length. An existing policy may always become shorter.
func (t *tally) check(policy, old api.Object) []rule.Problem { return t.weigh(policy, old, false) }

// admit is check, and counts the policy from now on.
func (t *tally) admit(policy, old api.Object) []rule.Problem { return t.weigh(policy, old, true) }

func (t *tally) weigh(policy, old api.Object, admits bool) []rule.Problem {
	name := compile.Ref(policy)
	if name.Namespace == "" {
		return nil
	}
	length := lengths{}.of(policy)
	grows := old == nil || length > (lengths{}).of(old)
	g := group{name.Namespace, name.Kind}
	t.mu.Lock()
	defer t.mu.Unlock()
	if grows {
		if problems := t.exceeds(g, name, length, old == nil); len(problems) > 0 {
			return problems
		}
	}
	if admits {
		if t.admitted[g] == nil {
			t.admitted[g] = map[string]admission{}
		}
		t.admitted[g][name.Name] = admission{length, t.now().Add(pending)}
	}
	return nil
}

// exceeds returns the problem if a policy of this length is too much for its group.
func (t *tally) exceeds(g group, name usher.PolicyRef, length int, created bool) []rule.Problem {
	others := t.lengthsOf(g)
	delete(others, name.Name)
	held := 0
	for _, n := range others {
		held += n
	}
	count := 0 // The policy exists already.
	if created {
		count = len(others) + 1
	}
	what, flag := t.quota.exceeded(count, held+length)
	if what == "" {
		return nil
	}
	return []rule.Problem{{
		Policy: name, Severity: rule.Error,
		What: fmt.Sprintf("namespace %s may have %s, and has %d of %d bytes already", name.Namespace, what, len(others), held),
		Do:   "delete or shorten some, or ask an operator of Usher to raise " + flag,
	}}
}

// lengthsOf returns the lengths of the policies of a group by name. What was admitted and never stored is forgotten: somebody
// may refuse after Usher whatever a tenant writes.
func (t *tally) lengthsOf(g group) map[string]int {
	all := make(map[string]int, len(t.stored[g])+1)
	maps.Copy(all, t.stored[g])
	for name, a := range t.admitted[g] {
		if t.now().After(a.until) {
			delete(t.admitted[g], name)
			continue
		}
		all[name] = a.length
	}
	return all
}
