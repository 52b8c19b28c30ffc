package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// Schemas has the kinds of a cluster, and the schemas of those that policies name.
type Schemas struct {
	discovery *Discovery
	log       *slog.Logger

	mu        sync.Mutex
	documents map[schema.GroupVersion][]byte
	fetched   map[schema.GroupVersion]time.Time
	refreshed time.Time
	// set is the result for from and this number of documents.
	set  *kind.Set
	from *Lists
	of   int
}

// refetch is how long schemas are used before they are read again, also if there were none.
const refetch = time.Minute

// Rescan is the minimum time between two reads of discovery because a kind was not found.
const Rescan = 5 * time.Second

// NewSchemas returns the kinds that were discovered, without schemas yet.
func NewSchemas(d *Discovery, log *slog.Logger) *Schemas {
	return &Schemas{discovery: d, log: log, documents: map[schema.GroupVersion][]byte{}, fetched: map[schema.GroupVersion]time.Time{}}
}

// Find returns the kinds of the cluster, for [trial.Options]. Until discovery has been read these are the
// recorded ones. It does not wait for API servers longer than ctx.
func (s *Schemas) Find(ctx context.Context, recorded *kind.Set, of []schema.GroupVersionKind) *kind.Set {
	set := s.current(recorded)
	for _, gvk := range of {
		if set == nil || !set.Has(gvk) {
			within(ctx, s.rescan)
			set = s.current(recorded)
			break
		}
	}
	if set == nil {
		return recorded
	}
	for _, gvk := range of {
		if set.Has(gvk) && set.Schema(gvk) == nil {
			within(ctx, func() { s.fetch(gvk.GroupVersion()) })
		}
	}
	return s.current(recorded)
}

// within calls f and waits for it, but only until ctx is done.
func within(ctx context.Context, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// current returns the set of the kinds that are known now; nil before discovery was read.
func (s *Schemas) current(recorded *kind.Set) *kind.Set {
	from := s.discovery.Lists()
	if from == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set != nil && s.from == from && s.of == len(s.documents) {
		return s.set
	}
	set := kind.Discovered(from.Resources).Schemas(recorded)
	set.Complete = from.Complete
	for gv, raw := range s.documents {
		if err := set.AddDocument(raw); err != nil {
			s.log.Debug("schemas are not used", "group", gv.String(), "error", err)
		}
	}
	s.set, s.from, s.of = set, from, len(s.documents)
	return set
}

func (s *Schemas) rescan() {
	s.mu.Lock()
	due := time.Since(s.refreshed) > Rescan
	if due {
		s.refreshed = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.discovery.Read()
	}
}

// fetch reads the schemas of a group and version.
func (s *Schemas) fetch(gv schema.GroupVersion) {
	s.mu.Lock()
	due := time.Since(s.fetched[gv]) > refetch
	s.fetched[gv] = time.Now()
	s.mu.Unlock()
	if !due {
		return
	}
	raw, err := s.document(gv)
	if err != nil {
		s.log.Debug("schemas are not read", "group", gv.String(), "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents[gv] = raw
	s.set = nil
}

func (s *Schemas) document(gv schema.GroupVersion) ([]byte, error) {
	paths, err := s.discovery.client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	at, ok := paths["apis/"+gv.String()]
	if !ok {
		return nil, fmt.Errorf("no OpenAPI document of %s", gv)
	}
	raw, err := at.Schema(runtime.ContentTypeJSON)
	if err == nil && !json.Valid(raw) {
		err = fmt.Errorf("OpenAPI document of %s is not JSON", gv)
	}
	return raw, err
}
