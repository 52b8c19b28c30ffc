// Package existing reads the objects that exist in a cluster: their kinds, one page after the other.
package existing

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/kind"
)

const (
	// PageSize is how many objects are read with one request.
	PageSize = 500
	// factTTL is longer than a scan: facts are read once.
	factTTL = time.Hour
)

// Connect connects to a cluster that is read.
func Connect(config *rest.Config) (*clients.Set, error) {
	// What limits the load is that there is one request at a time.
	config.QPS = -1
	return clients.Connect(config)
}

// Facts returns the facts of a cluster, each as it was when it was first read.
func Facts(clients *clients.Set, from *facts.Flags) fact.Resolver {
	return fact.Remembered(cached.New(from.FromCluster(clients), factTTL))
}

// Discover returns the resources that an API server serves, the preferred versions first, and the groups of
// which it does not say.
func Discover(discover discovery.DiscoveryInterface) ([]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, lists, err := discover.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &partial):
		return kind.InOrder(groups, lists), partial.Groups, nil
	case err != nil:
		return nil, nil, fmt.Errorf("discover kinds: %w", err)
	}
	return kind.InOrder(groups, lists), nil, nil
}

// Pages calls each for all pages of a list. A list that expires is read on from where it was, as
// kubectl does: API servers offer that once after a page.
func Pages(ctx context.Context, from dynamic.ResourceInterface, each func(*unstructured.UnstructuredList) error) error {
	options, expired := metav1.ListOptions{Limit: PageSize}, false
	for {
		page, err := from.List(ctx, options)
		if next := inconsistent(err); next != "" && options.Continue != "" && !expired {
			options.Continue, expired = next, true
			continue
		}
		if err != nil {
			return err
		}
		if err := each(page); err != nil {
			return err
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
		expired = false
	}
}

// inconsistent returns the token with which to read on after a list has expired; empty if it has not.
func inconsistent(err error) string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}
