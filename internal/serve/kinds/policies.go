package kinds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/serve/page"
	clustersource "github.com/usher-dev/usher/source/cluster"
)

// Policies compares the kinds of policies of a cluster with those of this version: CRDs are
// upgraded apart from the server, and the API server drops fields that a CRD does not have.
type Policies struct {
	schemas  openapi.Client
	readings func() []clustersource.Reading
	log      *slog.Logger
	// served are the documents of the cluster with their versions, and changed is called when these
	// are others: kinds may have come or gone.
	served  map[string]string
	changed func()

	mu sync.Mutex
	// urls are those of the schemas that were read; they change with the schemas.
	urls map[schema.GroupVersion]string
	// dropped are the fields that the CRD of a kind does not have.
	dropped map[string][]string
}

// recheck is the interval at which the list of schemas is read, which tells whether one has changed.
const recheck = 20 * time.Second

// namedFields is how many dropped fields are named.
const namedFields = 5

// NewPolicies returns a comparison of the kinds that schemas has, and of how they are read; schemas may be nil.
// It calls changed when the cluster may have other kinds than before.
func NewPolicies(schemas openapi.Client, readings func() []clustersource.Reading, changed func(), log *slog.Logger) *Policies {
	return &Policies{schemas: schemas, readings: readings, log: log, changed: changed, urls: map[schema.GroupVersion]string{}, dropped: map[string][]string{}}
}

// Run reads the schemas whenever they change, until ctx is done.
func (p *Policies) Run(ctx context.Context) error {
	if p.schemas == nil {
		return nil
	}
	repeat(ctx, recheck, func() {
		if err := p.Read(); err != nil {
			p.log.Debug("schemas of policies are not read", "error", err)
		}
	})
	return nil
}

// Read reads the schemas that have changed.
func (p *Policies) Read() error {
	paths, err := p.schemas.Paths()
	if err != nil {
		return fmt.Errorf("list OpenAPI documents: %w", err)
	}
	p.compare(paths)
	byGroup := map[schema.GroupVersion][]api.Kind{}
	for _, kind := range api.Kinds() {
		byGroup[kind.GroupVersion()] = append(byGroup[kind.GroupVersion()], kind)
	}
	var errs []error
	for gv, kinds := range byGroup {
		document, ok := paths["apis/"+gv.String()]
		if !ok {
			p.note(gv, "", kinds, nil)
			continue
		}
		url := document.ServerRelativeURL()
		if p.urls[gv] == url && !p.older(kinds) {
			continue
		}
		set, err := schemasOf(document, kinds)
		if err != nil {
			errs = append(errs, fmt.Errorf("read OpenAPI document of %s: %w", gv, err))
			continue
		}
		p.note(gv, url, kinds, set)
	}
	return errors.Join(errs...)
}

// older reports whether one of the kinds lacks fields. Its schemas are read again each time: a busy API
// server may list a document before it serves it.
func (p *Policies) older(kinds []api.Kind) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(kinds, func(of api.Kind) bool { return len(p.dropped[of.Kind]) > 0 })
}

// compare finds out whether the cluster serves other kinds than before, as far as its schemas tell.
func (p *Policies) compare(paths map[string]openapi.GroupVersion) {
	served := make(map[string]string, len(paths))
	for path, document := range paths {
		served[path] = document.ServerRelativeURL()
	}
	before := p.served
	if p.served = served; before != nil && !maps.Equal(before, served) {
		p.changed()
	}
}

func schemasOf(document openapi.GroupVersion, kinds []api.Kind) (*kind.Set, error) {
	raw, err := document.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	list := &metav1.APIResourceList{GroupVersion: kinds[0].GroupVersion().String()}
	for i := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: kinds[i].Resource, Kind: kinds[i].Kind, Namespaced: kinds[i].Namespaced})
	}
	set := kind.Discovered([]*metav1.APIResourceList{list})
	return set, set.AddDocument(raw)
}

// note stores which fields the kinds of a group lack; set is nil if the group is not served.
func (p *Policies) note(gv schema.GroupVersion, url string, kinds []api.Kind, set *kind.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.urls[gv] = url
	for i := range kinds {
		name := kinds[i].Kind
		var dropped []string
		if set != nil {
			dropped = lacks(set, &kinds[i])
		}
		if slices.Equal(dropped, p.dropped[name]) {
			continue
		}
		delete(p.dropped, name)
		if len(dropped) == 0 {
			p.log.Info("the CRD has all fields of this version", "kind", name)
			continue
		}
		p.dropped[name] = dropped
		p.log.Warn("the CRD of this kind is older than Usher: the API server drops fields of policies", "kind", name, "fields", some(dropped), "do", applyCRDs)
	}
}

// lacks returns the fields of a kind that its schema does not have, without those below others.
func lacks(set *kind.Set, of *api.Kind) []string {
	start := set.Schema(of.GroupVersionKind)
	if start == nil {
		return nil
	}
	dropped := map[string]bool{}
	for _, path := range of.Fields() {
		if step := set.Follow(start, path); step.Wrong > 0 {
			dropped[strings.ReplaceAll(strings.Join(path[:step.Wrong], "."), ".[]", "[]")] = true
		}
	}
	return slices.Sorted(maps.Keys(dropped))
}

const (
	applyCRDs = "apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds"
	applyRole = "apply the chart of this version, whose ClusterRole grants get, list and watch"
)

// some names some fields.
func some(fields []string) string {
	if len(fields) <= namedFields {
		return strings.Join(fields, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(fields[:namedFields], ", "), len(fields)-namedFields)
}

// A kindState is how a kind of policy of the cluster differs from that of this version.
type kindState string

// The states of kinds. Older is that of a kind whose CRD lacks fields.
const (
	kindRead      kindState = "read"
	kindOlder     kindState = "older"
	kindAbsent    kindState = "absent"
	kindForbidden kindState = "forbidden"
	kindFailing   kindState = "failing"
)

// state returns the state of a kind, and a sentence about it.
func (p *Policies) state(r *clustersource.Reading) (kindState, string) {
	switch {
	case errors.Is(r.Err, clustersource.ErrAbsent):
		return kindAbsent, "the cluster has no such kind: " + applyCRDs
	case errors.Is(r.Err, clustersource.ErrForbidden):
		return kindForbidden, "Usher may not read them: " + applyRole
	case r.Err != nil:
		return kindFailing, "they cannot be read now: " + r.Err.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if dropped := p.dropped[r.Kind.Kind]; len(dropped) > 0 {
		return kindOlder, "its CRD lacks " + some(dropped) + ", which the API server drops: " + applyCRDs
	}
	return kindRead, ""
}

// Count returns how many kinds are in each state.
func (p *Policies) Count() map[string]int {
	counts := map[string]int{}
	for _, state := range []kindState{kindRead, kindOlder, kindAbsent, kindForbidden, kindFailing} {
		counts[string(state)] = 0
	}
	for _, r := range p.readings() {
		state, _ := p.state(&r)
		counts[string(state)]++
	}
	return counts
}

// Describe writes which kinds differ from those of this version.
func (p *Policies) Describe(b *page.Page) {
	for _, r := range p.readings() {
		state, text := p.state(&r)
		if text == "" {
			continue
		}
		b.Fail(r.Kind.Kind)
		if b.Named {
			b.Namef("  %s: %s\n", r.Kind.Kind, text)
		} else {
			fmt.Fprintf(b, "  %s: %s\n", r.Kind.Kind, state)
		}
	}
}
