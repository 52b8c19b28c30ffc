// Package kinds knows which kinds a cluster has, with their scopes and schemas, and whether it serves the
// kinds of policies as this version of Usher has them.
package kinds

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

// Discovery has the resources of a cluster, which are read in the background: requests do not wait for
// them.
type Discovery struct {
	client  discovery.DiscoveryInterface
	log     *slog.Logger
	scopes  atomic.Pointer[map[schema.GroupResource]authz.Scope]
	current atomic.Pointer[Lists]
	changed chan struct{}
}

// Lists is what discovery returned, preferred versions first.
type Lists struct {
	Resources []*metav1.APIResourceList
	// Complete says that all groups responded.
	Complete bool
}

// rediscover is the interval at which discovery is read.
const rediscover = time.Minute

// Discover returns a Discovery that has read nothing yet.
func Discover(client discovery.DiscoveryInterface, log *slog.Logger) *Discovery {
	d := &Discovery{client: client, log: log, changed: make(chan struct{}, 1)}
	d.scopes.Store(&map[schema.GroupResource]authz.Scope{})
	return d
}

// Lists returns what was read last; nil if nothing was.
func (d *Discovery) Lists() *Lists { return d.current.Load() }

// Changed tells one receiver when there are other Lists.
func (d *Discovery) Changed() <-chan struct{} { return d.changed }

// Scope returns the scope of a resource, unknown until it has been discovered.
func (d *Discovery) Scope(group, resource string) authz.Scope {
	return (*d.scopes.Load())[schema.GroupResource{Group: group, Resource: resource}]
}

// Run reads discovery until ctx is done.
func (d *Discovery) Run(ctx context.Context) error {
	repeat(ctx, rediscover, d.Read)
	return nil
}

// Read reads discovery. Groups whose servers do not respond keep their last result.
func (d *Discovery) Read() {
	groups, lists, err := d.client.ServerGroupsAndResources()
	if err != nil {
		d.log.Debug("not all resources are discovered", "error", err)
	}
	if len(lists) == 0 {
		return
	}
	lists = kind.InOrder(groups, lists)
	d.current.Store(&Lists{lists, err == nil})
	next := map[schema.GroupResource]authz.Scope{}
	maps.Copy(next, *d.scopes.Load())
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
	d.scopes.Store(&next)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
