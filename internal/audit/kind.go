package audit

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// A kind is what is known of the objects of a kind.
type kind struct {
	of      result.Kind
	removed bool
	// plan is nil while no policy selects the kind.
	plan plan
	// unjudged are the rules of the plan that do not judge objects, in the order of policies.
	unjudged []judge.Unjudged
	slots    map[usher.PolicyRef]*slot
	view     *view
	lastID   uint32
	// epoch is that of the newest slot.
	epoch   uint64
	changed changed
	// extent is that of the plan, and extents are all that projections have.
	extent  *extent
	extents []*extent

	lots        map[string]*lot
	projections map[digest]*projection
	all         []*projection
	hot, cold   queue
	// objects and omitted count those that are kept and those that are not; backlog counts those to be
	// judged, blocked the projections that cannot be judged by what is kept of them.
	objects, omitted, backlog, blocked int
	// dropped counts the projections without text; bytes is the text of the others.
	dropped int
	bytes   int64
	// odd are the UIDs that are no UUIDs.
	odd map[place]types.UID

	// mark is that of the objects that the current or last full read has had.
	mark uint32
	// planned says that some policy has selected the kind since the full read began.
	reading, read, planned bool
	began                  time.Time
	heard                  time.Time
	err                    error
	since                  time.Time
	// requested says that the kind is to be read once more, and not before earliest.
	requested, called bool
	earliest          time.Time
	// returns is when it may be read once more for the objects that are not kept.
	returns time.Time
}

// A slot is a policy of a kind. It keeps its number as long as the policy is in force.
type slot struct {
	id    uint32
	ref   usher.PolicyRef
	epoch uint64
}

// A changed is the slots that are newer than an epoch.
type changed struct {
	from, to uint64
	slots    map[uint32]bool
}

// A view has the policies of a kind by the numbers of their slots. It is immutable.
type view struct {
	refs map[uint32]usher.PolicyRef
	// ranks are the positions in the order of results.
	ranks map[uint32]int
}

// An extent is the paths at which projections were made.
type extent struct {
	id    uint32
	paths *usher.Paths
	// holds says that the projections have all that the plan reads.
	holds bool
	// like is what their texts are packed with; nil if none was kept.
	like *pattern
	// unlike counts the last texts that have little in common with it, and patterns how many there were.
	unlike, patterns int
}

// A lot is the objects of a kind in one namespace.
type lot struct {
	namespace *namespace
	objects   map[string]object
	// omitted are hashes of the names of the objects that are not kept.
	omitted map[uint64]uint32
}

type object struct {
	uid        [16]byte
	projection *projection
	mark       uint32
}

// A place is where an object is.
type place struct{ namespace, name string }

func newKind(of result.Kind) *kind {
	return &kind{
		of: of, slots: map[usher.PolicyRef]*slot{}, view: &view{}, lots: map[string]*lot{}, projections: map[digest]*projection{},
		hot: newQueue(), cold: newQueue(), odd: map[place]types.UID{},
	}
}

func (k *kind) title() string {
	return k.of.Resource.GroupResource().String() + "/" + k.of.Resource.Version
}

// confidential reports whether objects hold credentials.
func (k *kind) confidential() bool { return fact.Confidential(k.of.Kind) }

// follow makes a kind follow a plan, and has it judged by the policies that have changed. The caller
// holds the lock.
func (a *Auditor) follow(k *kind, p plan, changed []usher.PolicyRef) {
	before := k.plan
	k.plan, k.unjudged = p, nil
	if p == nil {
		if before != nil {
			a.clear(k)
		}
		return
	}
	k.unjudged = p.Unjudged()
	slices.SortStableFunc(k.unjudged, func(a, b judge.Unjudged) int {
		return cmp.Or(cmp.Compare(a.Policy.Kind, b.Policy.Kind), cmp.Compare(a.Policy.Namespace, b.Policy.Namespace), cmp.Compare(a.Policy.Name, b.Policy.Name))
	})
	a.place(k, p, changed)
	k.extend(p.Paths())
	if before == nil {
		// What was read while no policy selected the kind was not kept.
		if k.mark > 0 {
			a.request(k)
		}
		a.touchName("")
	}
	for _, projection := range k.all {
		if a.stale(k, projection) {
			a.enqueue(k, projection)
		}
	}
}

// place gives each policy of a plan its slot.
func (a *Auditor) place(k *kind, p plan, changed []usher.PolicyRef) {
	slots := make(map[usher.PolicyRef]*slot, len(k.slots))
	for _, ref := range p.Policies() {
		s := k.slots[ref]
		if s == nil {
			k.lastID++
			s = &slot{id: k.lastID, ref: ref, epoch: a.epoch}
			k.epoch = a.epoch
		}
		slots[ref] = s
	}
	for _, ref := range changed {
		if s := slots[ref]; s != nil {
			s.epoch, k.epoch = a.epoch, a.epoch
		}
	}
	gone := false
	for ref := range k.slots {
		gone = gone || slots[ref] == nil
	}
	k.slots = slots
	k.view = viewOf(slots)
	if gone {
		a.touchKind(k)
	}
}

func viewOf(slots map[usher.PolicyRef]*slot) *view {
	v := &view{refs: make(map[uint32]usher.PolicyRef, len(slots)), ranks: make(map[uint32]int, len(slots))}
	ordered := make([]*slot, 0, len(slots))
	for _, s := range slots {
		ordered = append(ordered, s)
		v.refs[s.id] = s.ref
	}
	slices.SortFunc(ordered, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.ref.Kind, b.ref.Kind), cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name))
	})
	for i, s := range ordered {
		v.ranks[s.id] = i
	}
	return v
}

// extend makes projections from now on have what paths select.
func (k *kind) extend(paths *usher.Paths) {
	if k.extent == nil || !paths.Within(k.extent.paths) || !k.extent.paths.Within(paths) {
		id := uint32(1)
		if k.extent != nil {
			id = k.extent.id + 1
		}
		k.extent = &extent{id: id, paths: paths.Clone(), holds: true}
		k.extents = append(k.extents, k.extent)
	}
	used := map[*extent]bool{k.extent: true}
	if len(k.extents) > 1 {
		for _, p := range k.all {
			used[p.extent] = true
		}
	}
	k.extents = slices.DeleteFunc(k.extents, func(e *extent) bool { return !used[e] })
	for _, e := range k.extents {
		e.holds = paths.Within(e.paths)
	}
}

// clear forgets the objects of a kind.
func (a *Auditor) clear(k *kind) {
	for _, l := range k.lots {
		a.touch(l.namespace)
		for name := range l.objects {
			a.forget(k, l, name)
		}
		a.omit(k, l, -len(l.omitted))
		l.omitted = nil
		a.abandon(k, l)
	}
	for _, e := range k.extents {
		e.like, e.unlike, e.patterns = nil, 0, 0
	}
	k.slots, k.view = map[usher.PolicyRef]*slot{}, &view{}
	k.read, k.planned = false, false
	a.touchName("")
}
