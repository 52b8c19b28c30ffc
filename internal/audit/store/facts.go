package store

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

// A factUse is an object that a policy used as a fact, or objects of a namespace or of everywhere.
type factUse struct {
	policy                       uint32
	group, kind, namespace, name string
}

// useOf returns the use of a fact that is an object.
func useOf(policy uint32, ref fact.Ref) (factUse, bool) {
	o, ok := ref.(*fact.Object)
	if !ok {
		return factUse{}, false
	}
	of := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	return factUse{policy, of.Group, of.Kind, o.Namespace, o.Name}, true
}

// meets reports whether a change may be one of what was used.
func (u factUse) meets(change factUse) bool {
	return u.group == change.group && u.kind == change.kind && same(u.namespace, change.namespace) && same(u.name, change.name)
}

// same reports whether two names may mean the same object; an empty one means any.
func same(a, b string) bool { return a == "" || b == "" || a == b }

// A factSet is the facts that policies used for an object.
type factSet struct {
	interned

	uses []factUse
}

func (s *factSet) meets(change factUse) bool {
	return slices.ContainsFunc(s.uses, func(u factUse) bool { return u.meets(change) })
}

func (s *factSet) size() int64 {
	size := int64(factSetBytes)
	for _, u := range s.uses {
		size += factUseBytes + int64(len(u.namespace)+len(u.name))
	}
	return size
}

// remaining returns the uses of policies that are in force and do not judge again. The set may be nil; all
// judge again if again is nil.
func (s *factSet) remaining(inForce map[uint32]usher.PolicyRef, again map[uint32]bool) []factUse {
	if s == nil || again == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.uses), func(u factUse) bool {
		_, known := inForce[u.policy]
		return !known || again[u.policy]
	})
}

// facts returns the set of facts that were used; nil if there are none.
func (p *pool) facts(owner *namespace, uses []factUse) *factSet {
	if len(uses) == 0 {
		return nil
	}
	slices.SortFunc(uses, func(a, b factUse) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	uses = slices.Clip(slices.Compact(uses))
	h := p.hasher.reset()
	for _, u := range uses {
		h.number(uint64(u.policy))
		for _, text := range [...]string{u.group, u.kind, u.namespace, u.name} {
			h.text(text)
		}
	}
	key := h.key()
	if known, ok := p.factSets.lookup(key); ok {
		return known
	}
	for i := range uses {
		// They may be parts of the text of a projection.
		uses[i].namespace, uses[i].name = strings.Clone(uses[i].namespace), strings.Clone(uses[i].name)
	}
	return p.factSets.add(key, owner, &factSet{uses: uses})
}

// factMemory is how many changes of facts are remembered. What was judged before them is judged again
// with all of its facts.
const factMemory = 256

// A factLog has the latest changes of facts.
type factLog struct {
	// seq counts all changes.
	seq  uint64
	last []factUse
}

func (l *factLog) add(change factUse) {
	l.seq++
	if len(l.last) == factMemory {
		l.last = l.last[:copy(l.last, l.last[1:])]
	}
	l.last = append(l.last, change)
}

// changed reports whether a fact of a set may have changed since seen.
func (l *factLog) changed(s *factSet, seen uint64) bool {
	if l.seq == seen {
		return false
	}
	return slices.ContainsFunc(s.uses, func(u factUse) bool { return l.met(u, seen) })
}

// met reports whether what was used may have changed since seen.
func (l *factLog) met(u factUse, seen uint64) bool {
	since := l.seq - seen
	if since > uint64(len(l.last)) {
		return true
	}
	return slices.ContainsFunc(l.last[uint64(len(l.last))-since:], u.meets)
}
