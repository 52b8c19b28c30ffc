package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/audit/store"
	"github.com/usher-dev/usher/internal/jsontree"
)

// A Sink keeps the objects of one kind that a stream reads: a [stream.Sink]. Its methods are called
// one at a time.
type Sink struct {
	*store.Kind

	worker *worker
	of     result.Kind
	// metadata says that objects have their metadata only.
	metadata bool
	share    *queue.Share
	text     []byte
	// identity are the paths of what is known of an object in any case.
	identity *usher.Paths
}

// Sink returns the sink for the objects of a kind.
func (a *Auditor) Sink(of result.Kind) *Sink {
	return &Sink{worker: a.worker, of: of, Kind: a.kind(of), share: a.worker.limiter.Share(), identity: identity()}
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

// Set has an object that is new, has changed, or is as before.
func (s *Sink) Set(raw []byte) error {
	began := time.Now()
	err := s.set(raw)
	s.share.Spend(time.Since(began))
	return err
}

func (s *Sink) set(raw []byte) error {
	end, skipIndex, err := jsontree.Prescan(raw, 0, maxDepth, nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Kind, err)
	}
	o := jsontree.NewObject(raw[:end], skipIndex).(*usher.Object)
	at, uid, err := s.identify(o)
	if err != nil {
		return err
	}
	plan, selection := s.Source()
	if plan == nil {
		return nil
	}
	if s.metadata && !plan.MetadataOnly() {
		s.Present(at)
		return nil
	}
	if s.text, err = o.AppendPart(s.text[:0], plan.PathsIn(selection.Paths, at.Namespace, at.Name)); err != nil {
		return fmt.Errorf("read %s %s: %w", s.Kind, at, err)
	}
	if j := s.Kind.Set(selection, at, uid, s.text); j != nil {
		s.worker.do(context.Background(), j)
	}
	return nil
}

// Delete has the last state of an object that is gone.
func (s *Sink) Delete(raw []byte) error {
	at, _, err := s.identify(usher.RawObject(raw))
	if err != nil {
		return err
	}
	s.Kind.Delete(at)
	return nil
}

// End says that all objects have been read: those that were not Set since Begin are gone.
func (s *Sink) End() { s.Kind.End(s.metadata) }

// maxDepth is how deep values may be nested.
const maxDepth = 1000

var errNoName = errors.New("read object: it has no name")

// identify returns where an object is, and its UID.
func (s *Sink) identify(o *usher.Object) (at types.NamespacedName, uid types.UID, err error) {
	tree, err := o.Part(s.identity)
	if err != nil {
		return at, "", fmt.Errorf("read object: %w", err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	id, _ := metadata["uid"].(string)
	at.Name, _ = metadata["name"].(string)
	at.Namespace, _ = metadata["namespace"].(string)
	if at.Name == "" {
		return at, "", errNoName
	}
	if !s.of.Namespaced {
		at.Namespace = ""
	}
	return at, types.UID(id), nil
}
