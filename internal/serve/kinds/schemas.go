package kinds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"

	"github.com/usher-dev/usher/internal/kind"
)

// Schemas has the kinds of a cluster, and the schemas of those that policies name.
type Schemas struct {
	discovery *Discovery
	log       *slog.Logger

	mu        sync.Mutex
	documents map[schema.GroupVersion]document
	refreshed time.Time
	// listed is what the API server had when it was asked last.
	listed   map[string]openapi.GroupVersion
	listedAt time.Time
	// set is the result for from; nil if documents have changed since.
	set  *kind.Set
	from *Lists
}

// A document has the schemas of a group and version.
type document struct {
	// raw is nil if it could not be read.
	raw []byte
	// url changes with the schemas; it was first seen at since.
	url         string
	since, read time.Time
}

const (
	// refetch is how long passes before schemas that could not be read are read again.
	refetch = time.Minute
	// Relist is the minimum time between two reads of the list of documents.
	Relist = time.Second
	// settle is how long a document may lag behind the list: a busy API server may list one before it serves it.
	settle = 5 * time.Second
)

// Rescan is the minimum time between two reads of discovery because a kind was not found.
const Rescan = 5 * time.Second

// NewSchemas returns the kinds that were discovered, without schemas yet.
func NewSchemas(d *Discovery, log *slog.Logger) *Schemas {
	return &Schemas{discovery: d, log: log, documents: map[schema.GroupVersion]document{}}
}

// Find returns the kinds of the cluster, for [trial.Options]. Until discovery has been read these are the
// recorded ones. Schemas that are not recorded are read again when they change. It does not wait for API
// servers longer than ctx.
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
		if gv := gvk.GroupVersion(); set.Has(gvk) && (set.Schema(gvk) == nil || s.served(gv)) {
			within(ctx, func() { s.fetch(gv) })
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
	if s.set != nil && s.from == from {
		return s.set
	}
	set := kind.Discovered(from.Resources).Schemas(recorded)
	set.Complete = from.Complete
	for gv, of := range s.documents {
		if of.raw == nil {
			continue
		}
		if err := set.AddDocument(of.raw); err != nil {
			s.log.Debug("schemas are not used", "group", gv.String(), "error", err)
		}
	}
	s.set, s.from = set, from
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

// served reports whether schemas of a group and version are those that the API server serves.
func (s *Schemas) served(gv schema.GroupVersion) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.documents[gv].raw != nil
}

// fetch reads the schemas of a group and version, unless those that were read are the ones that the API
// server lists.
func (s *Schemas) fetch(gv schema.GroupVersion) {
	listed := s.list()["apis/"+gv.String()]
	if listed == nil {
		return
	}
	now, url := time.Now(), listed.ServerRelativeURL()
	s.mu.Lock()
	of := s.documents[gv]
	if of.url != url {
		of.since = now
	} else if !of.due(now) {
		s.mu.Unlock()
		return
	}
	of.url, of.read = url, now
	s.documents[gv] = of
	s.mu.Unlock()
	raw, err := listed.Schema(runtime.ContentTypeJSON)
	if err == nil && !json.Valid(raw) {
		err = errors.New("it is not JSON")
	}
	if err != nil {
		s.log.Debug("schemas are not read", "group", gv.String(), "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if of = s.documents[gv]; of.url == url && !bytes.Equal(of.raw, raw) {
		of.raw = raw
		s.documents[gv], s.set = of, nil
	}
}

// due reports whether the document at the same URL is read again.
func (d document) due(now time.Time) bool {
	if d.raw == nil {
		return now.Sub(d.read) > refetch
	}
	return d.read.Before(d.since.Add(settle)) && now.Sub(d.read) >= Relist
}

// list returns the documents that the API server has, by path.
func (s *Schemas) list() map[string]openapi.GroupVersion {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.listedAt) < Relist {
		return s.listed
	}
	s.listedAt = time.Now()
	s.mu.Unlock()
	listed, err := s.discovery.client.OpenAPIV3().Paths()
	s.mu.Lock()
	if err != nil {
		s.log.Debug("schemas are not listed", "error", err)
		return s.listed
	}
	s.listed = listed
	return listed
}
