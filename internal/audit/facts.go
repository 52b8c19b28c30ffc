package audit

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
	slot                         uint32
	group, kind, namespace, name string
}

// useOf returns the use of a fact that is an object.
func useOf(slot uint32, ref fact.Ref) (factUse, bool) {
	if ref.Object == nil {
		return factUse{}, false
	}
	of := schema.FromAPIVersionAndKind(ref.Object.APIVersion, ref.Object.Kind)
	return factUse{slot, of.Group, of.Kind, ref.Object.Namespace, ref.Object.Name}, true
}

// meets reports whether a change may be one of what was used.
func (u factUse) meets(change factUse) bool {
	return u.group == change.group && u.kind == change.kind && same(u.namespace, change.namespace) && same(u.name, change.name)
}

// same reports whether two names may mean the same object; an empty one means any.
func same(a, b string) bool { return a == "" || b == "" || a == b }

// A factSet is the facts that policies used for an object. Equal ones are kept once.
type factSet struct {
	key   digest
	uses  []factUse
	owner *namespace
	refs  int32
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

// without returns the uses of slots that are in force and are not judged again. The set may be nil; all
// are judged again if again is nil.
func (s *factSet) without(slots map[uint32]usher.PolicyRef, again map[uint32]bool) []factUse {
	if s == nil || again == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.uses), func(u factUse) bool {
		_, known := slots[u.slot]
		return !known || again[u.slot]
	})
}

// internFacts returns the set of the facts, nil if there are none. The caller has a reference.
func (a *Auditor) internFacts(owner *namespace, uses []factUse) *factSet {
	if len(uses) == 0 {
		return nil
	}
	slices.SortFunc(uses, func(a, b factUse) int {
		return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	uses = slices.Clip(slices.Compact(uses))
	var h hasher
	for _, u := range uses {
		h.number(uint64(u.slot))
		for _, text := range []string{u.group, u.kind, u.namespace, u.name} {
			h.text(text)
		}
	}
	key := h.key()
	if known := a.factSets[key]; known != nil {
		known.refs++
		return known
	}
	for i := range uses {
		// They may be parts of the text of a projection.
		uses[i].namespace, uses[i].name = strings.Clone(uses[i].namespace), strings.Clone(uses[i].name)
	}
	s := &factSet{key: key, uses: uses, owner: owner, refs: 1}
	a.factSets[key] = s
	a.hold(owner, s.size())
	return s
}

func (a *Auditor) releaseFacts(s *factSet) {
	if s == nil {
		return
	}
	if s.refs--; s.refs == 0 {
		delete(a.factSets, s.key)
		a.unhold(s.owner, s.size())
	}
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
