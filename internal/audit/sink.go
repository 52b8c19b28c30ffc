package audit

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/jsontree"
)

// A Sink keeps the objects of one kind that a stream reads: a [stream.Sink]. Its methods are called
// one at a time.
type Sink struct {
	auditor *Auditor
	kind    *kind
	// metadata says that objects have their metadata only.
	metadata bool
	pace     pace
	text     []byte
	// identity are the paths of what is known of an object in any case.
	identity *usher.Paths
}

// Sink returns the sink for the objects of a kind.
func (a *Auditor) Sink(of result.Kind) *Sink {
	return &Sink{auditor: a, kind: a.kind(of), pace: pace{pacer: a.pacer}, identity: identity()}
}

// MetadataSink returns a sink for a kind of which only the metadata is read. When policies read
// more, it keeps no changes, and has the kind read once more: by another sink then.
func (a *Auditor) MetadataSink(of result.Kind) *Sink {
	s := a.Sink(of)
	s.metadata = true
	return s
}

func identity() *usher.Paths {
	paths := &usher.Paths{}
	paths.Add("metadata", "namespace")
	paths.Add("metadata", "name")
	paths.Add("metadata", "uid")
	return paths
}

// Begin says that all objects are read, from the first one.
func (s *Sink) Begin() {
	a, k := s.auditor, s.kind
	a.mu.Lock()
	defer a.mu.Unlock()
	k.mark++
	k.reading, k.requested, k.called = true, false, false
	k.began, k.planned = time.Now(), k.plan != nil
}

// Set has an object that is new, has changed, or is as before.
func (s *Sink) Set(raw []byte) error {
	began := time.Now()
	err := s.set(raw)
	s.pace.spend(time.Since(began))
	return err
}

func (s *Sink) set(raw []byte) error {
	a, k := s.auditor, s.kind
	end, skipIndex, err := jsontree.Prescan(raw, 0, maxDepth, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", k.title(), err)
	}
	o := jsontree.NewObject(raw[:end], skipIndex).(*usher.Object)
	at, uid, err := s.identify(o)
	if err != nil {
		return err
	}
	a.mu.Lock()
	plan, extent := k.plan, k.extent
	a.mu.Unlock()
	if plan == nil {
		return nil
	}
	if s.metadata && !plan.MetadataOnly() {
		s.present(at)
		return nil
	}
	if s.text, err = o.AppendPart(s.text[:0], extent.paths); err != nil {
		return fmt.Errorf("read %s %s/%s: %w", k.title(), at.namespace, at.name, err)
	}
	p, keep := a.set(k, extent, at, uid, s.text)
	if keep == keptForNow && !a.relieve() {
		keep = kept
	}
	if p != nil && keep != kept {
		a.judgeAtOnce(k, p, s.text)
	}
	return nil
}

// Delete has the last state of an object that is gone.
func (s *Sink) Delete(raw []byte) error {
	at, _, err := s.identify(usher.RawObject(raw))
	if err != nil {
		return err
	}
	a, k := s.auditor, s.kind
	a.mu.Lock()
	defer a.mu.Unlock()
	k.hear()
	l := k.lots[at.namespace]
	if l == nil {
		return nil
	}
	if _, known := l.objects[at.name]; known {
		a.forget(k, l, at.name)
		a.touch(l.namespace)
	}
	if _, known := l.omitted[a.hashName(at.name)]; known {
		delete(l.omitted, a.hashName(at.name))
		a.omit(k, l, -1)
	}
	a.abandon(k, l)
	return nil
}

// End says that all objects have been read: those that were not Set since Begin are gone.
func (s *Sink) End() {
	a, k := s.auditor, s.kind
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range k.lots {
		a.sweep(k, l)
	}
	lacking := k.plan != nil && (!k.planned || s.metadata && !k.plan.MetadataOnly())
	k.reading, k.read = false, k.plan != nil && !lacking
	now := time.Now()
	took := now.Sub(k.began)
	k.earliest, k.returns = now.Add(max(rereadPause, 10*took)), now.Add(max(returnPause, 10*took))
	k.hear()
	a.touchName("")
	// A policy may have begun to read more meanwhile.
	if k.blocked > 0 || lacking {
		a.request(k)
	}
}

// Heard says that the API server confirmed that all is current.
func (s *Sink) Heard() {
	a := s.auditor
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed := s.kind.err != nil; failed && !s.kind.reading {
		a.touchName("")
	}
	s.kind.hear()
}

// Fail has the reason why objects cannot be read for the moment.
func (s *Sink) Fail(err error) {
	a, k := s.auditor, s.kind
	a.mu.Lock()
	defer a.mu.Unlock()
	if k.err == nil {
		k.since = time.Now()
	}
	if k.err == nil || k.err.Error() != err.Error() {
		a.touchName("")
	}
	k.err = err
}

// hear notes that the API server has said something. What it says while all is read does not mean
// that all is well.
func (k *kind) hear() {
	if k.reading {
		return
	}
	k.heard = time.Now()
	k.err, k.since = nil, time.Time{}
}

// present notes that an object is still there.
func (s *Sink) present(at place) {
	a, k := s.auditor, s.kind
	a.mu.Lock()
	defer a.mu.Unlock()
	a.request(k)
	l := k.lots[at.namespace]
	if l == nil {
		return
	}
	if o, known := l.objects[at.name]; known {
		o.mark = k.mark
		l.objects[at.name] = o
	}
	if _, known := l.omitted[a.hashName(at.name)]; known {
		l.omitted[a.hashName(at.name)] = k.mark
	}
}

// sweep forgets the objects of a lot that the full read has not had.
func (a *Auditor) sweep(k *kind, l *lot) {
	swept := false
	for name, o := range l.objects {
		if o.mark != k.mark {
			a.forget(k, l, name)
			swept = true
		}
	}
	gone := 0
	for hash, mark := range l.omitted {
		if mark != k.mark {
			delete(l.omitted, hash)
			gone++
		}
	}
	a.omit(k, l, -gone)
	if swept {
		a.touch(l.namespace)
	}
	a.abandon(k, l)
}

// maxDepth is how deep values may be nested.
const maxDepth = 1000

var errNoName = errors.New("read object: it has no name")

// identify returns where an object is. The texts are copies.
func (s *Sink) identify(o *usher.Object) (place, types.UID, error) {
	tree, err := o.Part(s.identity)
	if err != nil {
		return place{}, "", fmt.Errorf("read object: %w", err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	uid, _ := metadata["uid"].(string)
	if name == "" {
		return place{}, "", errNoName
	}
	if !s.kind.of.Namespaced {
		namespace = ""
	}
	return place{namespace, name}, types.UID(uid), nil
}
