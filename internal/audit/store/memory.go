package store

import (
	"cmp"
	"slices"
	"time"
)

// The memory of what is kept, in bytes, with its share of the maps and lists that it is in. A test
// compares them with what the process takes.
const (
	objectBytes        = 112
	projectionBytes    = 240
	assessmentBytes    = 160
	policyResultsBytes = 16
	tallyBytes         = 160
	countBytes         = 12
	resultSetBytes     = 208
	keptResultBytes    = 56
	factSetBytes       = 144
	factUseBytes       = 72
	previousBytes      = 96
	omittedBytes       = 24
	partitionBytes     = 640
)

const (
	// maxTextShare is which part of the memory the text of one projection may take at most, as a
	// divisor.
	maxTextShare = 256
	// goal is to how many percent of the memory it is freed when there is too little, and amplePercent
	// below how many percent more is kept again. Below sparePercent a kind is read once more for the
	// objects that are not kept. Those that come back may take it up to amplePercent, and no further.
	goal         = 90
	amplePercent = 70
	sparePercent = 50
)

// A memory accounts for what is kept, by the namespace that it is kept for. The store guards it.
type memory struct {
	limit, used int64
	namespaces  map[string]*namespace
	// freed is what was used after some was freed last, at freedAt.
	freed   int64
	freedAt time.Time
}

// A namespace is what objects of a namespace take.
type namespace struct {
	name string
	// used is in bytes. refs counts what refers to it.
	used int64
	refs int
}

// namespace returns a namespace, made if necessary.
func (m *memory) namespace(name string) *namespace {
	n := m.namespaces[name]
	if n == nil {
		n = &namespace{name: name}
		m.namespaces[name] = n
	}
	return n
}

// charge counts memory for a namespace.
func (m *memory) charge(n *namespace, bytes int64) {
	n.used += bytes
	m.used += bytes
}

// hold is charge for what refers to the namespace.
func (m *memory) hold(n *namespace, bytes int64) {
	n.refs++
	m.charge(n, bytes)
}

// free is the opposite of hold. A namespace that nothing refers to is forgotten.
func (m *memory) free(n *namespace, bytes int64) {
	m.charge(n, -bytes)
	if n.refs--; n.refs == 0 && m.namespaces[n.name] == n {
		delete(m.namespaces, n.name)
	}
}

// below reports whether less than so many percent are used.
func (m *memory) below(percent int64) bool { return m.used < m.limit*percent/100 }

func (m *memory) exceeded() bool { return m.used > m.limit }

// excess is how much has to be freed, if some has to be.
func (m *memory) excess() int64 { return m.used - m.limit*goal/100 }

// relieve frees memory if there is too little. It reports whether there still is, because of what
// waits to be judged.
func (s *Store) relieve() bool {
	m := &s.memory
	if !m.exceeded() {
		return false
	}
	now := time.Now()
	if m.used <= m.freed+m.limit/50 && now.Sub(m.freedAt) <= time.Second {
		// Going through all of it takes long: not for each object.
		return true
	}
	defer func() { m.freed, m.freedAt = m.used, now }()
	s.dropTexts()
	if !m.exceeded() {
		return false
	}
	texts := int64(0)
	for _, k := range s.kinds {
		texts += k.bytes
	}
	if m.excess() > texts {
		s.omitObjects()
	}
	return m.exceeded()
}

// dropTexts no longer keeps the text of projections that are judged, of the namespaces with most of it.
func (s *Store) dropTexts() {
	texts := map[*namespace]int64{}
	for _, k := range s.kinds {
		for _, p := range k.all {
			if p.droppable() {
				texts[p.owner] += int64(len(p.text))
			}
		}
	}
	level := levelOf(texts, s.memory.excess())
	for _, k := range s.kinds {
		before := k.dropped
		for _, p := range k.all {
			if p.droppable() && texts[p.owner] > level {
				texts[p.owner] -= int64(len(p.text))
				p.drop()
			}
		}
		if k.dropped > before && before == 0 {
			s.touch("")
		}
	}
}

// omitObjects no longer audits objects of the namespaces that take most.
func (s *Store) omitObjects() {
	used := map[*namespace]int64{}
	for _, n := range s.memory.namespaces {
		used[n] = n.used
	}
	level := levelOf(used, s.memory.excess())
	for _, k := range s.kinds {
		for _, part := range k.partitions {
			for name, o := range part.objects {
				if part.namespace.used <= level {
					break
				}
				if part.omitted == nil {
					part.omitted = map[uint64]uint32{}
				}
				k.forget(part, name)
				part.omitted[s.hashName(name)] = o.generation
				k.omit(part, 1)
			}
		}
	}
}

// levelOf returns how much each may keep so that all together have excess less.
func levelOf(all map[*namespace]int64, excess int64) int64 {
	ordered := make([]int64, 0, len(all))
	for _, bytes := range all {
		ordered = append(ordered, bytes)
	}
	slices.SortFunc(ordered, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, bytes := range ordered {
		next := int64(0)
		if i+1 < len(ordered) {
			next = ordered[i+1]
		}
		n := int64(i + 1)
		if excess <= n*(bytes-next) {
			return bytes - (excess+n-1)/n
		}
		excess -= n * (bytes - next)
	}
	return 0
}
