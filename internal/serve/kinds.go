package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
)

// kinds has the kinds of a cluster and the schemas of those that policies name.
type kinds struct {
	scopes *scopes
	log    *slog.Logger

	mu        sync.Mutex
	documents map[schema.GroupVersion][]byte
	fetched   map[schema.GroupVersion]time.Time
	refreshed time.Time
	// set is the result for from and this number of documents.
	set  *kind.Set
	from *discovered
	of   int
}

// refetch is how long schemas are used before they are read again, also if there were none.
const refetch = time.Minute

// rescan is the minimum time between two reads of discovery because a kind was not found.
const rescan = 5 * time.Second

func newKinds(s *scopes, log *slog.Logger) *kinds {
	return &kinds{scopes: s, log: log, documents: map[schema.GroupVersion][]byte{}, fetched: map[schema.GroupVersion]time.Time{}}
}

// find returns the kinds of the cluster, for [trial.Options]. Until discovery has been read these are the
// recorded ones. It does not wait for API servers longer than ctx.
func (k *kinds) find(ctx context.Context, recorded *kind.Set, of []schema.GroupVersionKind) *kind.Set {
	set := k.current(recorded)
	for _, gvk := range of {
		if set == nil || !set.Has(gvk) {
			k.within(ctx, k.rescan)
			set = k.current(recorded)
			break
		}
	}
	if set == nil {
		return recorded
	}
	for _, gvk := range of {
		if set.Has(gvk) && set.Schema(gvk) == nil {
			k.within(ctx, func() { k.fetch(gvk.GroupVersion()) })
		}
	}
	return k.current(recorded)
}

// within calls f and waits for it, but only until ctx is done.
func (k *kinds) within(ctx context.Context, f func()) {
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
func (k *kinds) current(recorded *kind.Set) *kind.Set {
	from := k.scopes.lists.Load()
	if from == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set != nil && k.from == from && k.of == len(k.documents) {
		return k.set
	}
	set := kind.Discovered(from.lists).Schemas(recorded)
	set.Complete = from.complete
	for gv, raw := range k.documents {
		if err := set.AddDocument(raw); err != nil {
			k.log.Debug("schemas are not used", "group", gv.String(), "error", err)
		}
	}
	k.set, k.from, k.of = set, from, len(k.documents)
	return set
}

func (k *kinds) rescan() {
	k.mu.Lock()
	due := time.Since(k.refreshed) > rescan
	if due {
		k.refreshed = time.Now()
	}
	k.mu.Unlock()
	if due {
		k.scopes.read()
	}
}

// fetch reads the schemas of a group and version.
func (k *kinds) fetch(gv schema.GroupVersion) {
	k.mu.Lock()
	due := time.Since(k.fetched[gv]) > refetch
	k.fetched[gv] = time.Now()
	k.mu.Unlock()
	if !due {
		return
	}
	raw, err := k.document(gv)
	if err != nil {
		k.log.Debug("schemas are not read", "group", gv.String(), "error", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.documents[gv] = raw
	k.set = nil
}

func (k *kinds) document(gv schema.GroupVersion) ([]byte, error) {
	paths, err := k.scopes.discovery.OpenAPIV3().Paths()
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

// reviewTimeout bounds how long an API server may take for one question.
const reviewTimeout = 3 * time.Second

// readable returns an error if this server may not read objects of a kind.
func (m *clusterRuntime) readable(ctx context.Context, of schema.GroupVersionKind) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	resource, err := m.resolver.Resource(ctx, of)
	if err != nil {
		return nil //nolint:nilerr // Another check reports unknown kinds.
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: resource.Group, Version: resource.Version, Resource: resource.Resource},
	}}
	answer, err := m.Clients.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || answer.Status.Allowed {
		return nil //nolint:nilerr // Report only what is certain.
	}
	return fmt.Errorf("Usher may not get %s", resource.GroupResource()) //nolint:staticcheck // The text continues a sentence.
}
