package serve

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// scopes knows which resources of a cluster are namespaced, from discovery, which is refreshed in
// the background: requests do not wait for it.
type scopes struct {
	discovery discovery.DiscoveryInterface
	log       *slog.Logger
	known     atomic.Pointer[map[schema.GroupResource]authz.Scope]
	lists     atomic.Pointer[discovered]
	// noticed is called when discovery was read.
	noticed func()
}

// A discovered is what discovery returned, preferred versions first; complete says that all groups responded.
type discovered struct {
	lists    []*metav1.APIResourceList
	complete bool
}

// rediscover is the interval at which discovery is read.
const rediscover = time.Minute

func newScopes(d discovery.DiscoveryInterface, log *slog.Logger) *scopes {
	s := &scopes{discovery: d, log: log, noticed: func() {}}
	s.known.Store(&map[schema.GroupResource]authz.Scope{})
	return s
}

// of returns the scope of a resource, unknown until it has been discovered.
func (s *scopes) of(group, resource string) authz.Scope {
	return (*s.known.Load())[schema.GroupResource{Group: group, Resource: resource}]
}

// run reads discovery until ctx is done.
func (s *scopes) run(ctx context.Context) error {
	repeat(ctx, rediscover, s.read)
	return nil
}

// read stores the result of discovery. Groups whose servers do not respond keep their last result.
func (s *scopes) read() {
	groups, lists, err := s.discovery.ServerGroupsAndResources()
	if err != nil {
		s.log.Debug("not all resources are discovered", "error", err)
	}
	if len(lists) == 0 {
		return
	}
	lists = kind.InOrder(groups, lists)
	s.lists.Store(&discovered{lists, err == nil})
	next := map[schema.GroupResource]authz.Scope{}
	maps.Copy(next, *s.known.Load())
	for _, list := range lists {
		group, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			scope := authz.ScopeCluster
			if r.Namespaced {
				scope = authz.ScopeNamespace
			}
			next[schema.GroupResource{Group: group.Group, Resource: r.Name}] = scope
		}
	}
	s.known.Store(&next)
	s.noticed()
}
