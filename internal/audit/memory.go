package audit

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// The memory of what is kept, in bytes, with its share of the maps and lists that it is in. A test
// compares them with what the process takes.
const (
	objectBytes     = 112
	projectionBytes = 240
	rowBytes        = 160
	loudBytes       = 16
	quietBytes      = 160
	countBytes      = 12
	saidBytes       = 208
	findingBytes    = 56
	factSetBytes    = 144
	factUseBytes    = 72
	waitingBytes    = 96
	omittedBytes    = 24
	lotBytes        = 640
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

// A namespace is what objects of a namespace take.
type namespace struct {
	name string
	// used is in bytes. holds counts what refers to it.
	used  int64
	holds int
}

// namespace returns a namespace, made if necessary.
func (a *Auditor) namespace(name string) *namespace {
	n := a.namespaces[name]
	if n == nil {
		n = &namespace{name: name}
		a.namespaces[name] = n
	}
	return n
}

// expel forgets a namespace that nothing refers to.
func (a *Auditor) expel(n *namespace) {
	if n.holds == 0 && a.namespaces[n.name] == n {
		delete(a.namespaces, n.name)
	}
}

// lot returns the lot of a namespace, made if necessary.
func (a *Auditor) lot(k *kind, name string) *lot {
	l := k.lots[name]
	if l == nil {
		l = &lot{namespace: a.namespace(strings.Clone(name)), objects: map[string]object{}}
		k.lots[l.namespace.name] = l
		a.hold(l.namespace, lotBytes)
	}
	return l
}

// hashName returns a hash of a name. Nobody can find two names with the same one: the seed is secret.
func (a *Auditor) hashName(name string) uint64 { return maphash.String(a.seed, name) }

// abandon removes a lot without objects.
func (a *Auditor) abandon(k *kind, l *lot) {
	if len(l.objects) == 0 && len(l.omitted) == 0 && k.lots[l.namespace.name] == l {
		delete(k.lots, l.namespace.name)
		a.unhold(l.namespace, lotBytes)
	}
}

// charge counts memory for a namespace.
func (a *Auditor) charge(n *namespace, bytes int64) {
	n.used += bytes
	a.used += bytes
}

// hold is charge for what refers to the namespace.
func (a *Auditor) hold(n *namespace, bytes int64) {
	n.holds++
	a.charge(n, bytes)
}

func (a *Auditor) unhold(n *namespace, bytes int64) {
	a.charge(n, -bytes)
	n.holds--
	a.expel(n)
}

// ample reports whether there is memory to keep more than is needed.
func (a *Auditor) ample() bool { return a.used < a.options.Memory*amplePercent/100 }

// spare reports whether there is memory for objects that are not kept.
func (a *Auditor) spare() bool { return a.used < a.options.Memory*sparePercent/100 }

// omit counts objects that are not kept, fewer if n is negative. The caller holds the lock.
func (a *Auditor) omit(k *kind, l *lot, n int) {
	if n == 0 {
		return
	}
	k.omitted += n
	a.charge(l.namespace, int64(n)*omittedBytes)
	a.touch(l.namespace)
	a.touchName("")
}

// relieve frees memory if there is too little. It reports whether there still is, because of what
// waits to be judged.
func (a *Auditor) relieve() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used <= a.options.Memory {
		return false
	}
	// Going through all of it takes long: not for each object.
	if now := time.Now(); a.used > a.freed+a.options.Memory/50 || now.Sub(a.freedAt) > time.Second {
		defer func() { a.freed, a.freedAt = a.used, now }()
	} else {
		return true
	}
	a.dropTexts()
	if a.used <= a.options.Memory {
		return false
	}
	waiting := int64(0)
	for _, k := range a.ring {
		waiting += k.bytes
	}
	if a.used-waiting > a.options.Memory*goal/100 {
		a.omitObjects()
	}
	return a.used > a.options.Memory
}

// dropTexts no longer keeps the text of projections that are judged, of the namespaces with most of it.
func (a *Auditor) dropTexts() {
	texts := map[*namespace]int64{}
	for _, k := range a.ring {
		for _, p := range k.all {
			if p.text != nil && (!p.pending || p.blocked) {
				texts[p.owner] += int64(len(p.text))
			}
		}
	}
	level := levelOf(texts, a.used-a.options.Memory*goal/100)
	for _, k := range a.ring {
		before := k.dropped
		for _, p := range k.all {
			if p.text != nil && (!p.pending || p.blocked) && texts[p.owner] > level {
				texts[p.owner] -= int64(len(p.text))
				a.drop(k, p)
			}
		}
		if k.dropped > before && before == 0 {
			a.touchName("")
		}
	}
}

// omitObjects no longer audits objects of the namespaces that take most.
func (a *Auditor) omitObjects() {
	used := map[*namespace]int64{}
	for _, n := range a.namespaces {
		used[n] = n.used
	}
	level := levelOf(used, a.used-a.options.Memory*goal/100)
	for _, k := range a.ring {
		for _, l := range k.lots {
			for name, o := range l.objects {
				if l.namespace.used <= level {
					break
				}
				if l.omitted == nil {
					l.omitted = map[uint64]uint32{}
				}
				a.forget(k, l, name)
				l.omitted[a.hashName(name)] = o.mark
				a.omit(k, l, 1)
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
