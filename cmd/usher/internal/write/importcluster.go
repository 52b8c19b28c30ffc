package write

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/convert"
)

// A clusterSource reads the policies of another engine from a cluster. It sends nothing but reads.
type clusterSource struct {
	enabled             bool
	kubeconfig, context string
}

func (c *clusterSource) register(flags *pflag.FlagSet) {
	flags.BoolVar(&c.enabled, "from-cluster", false, "read the cluster of the kubeconfig; nothing is written to it")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; for --from-cluster (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig (default: the current one)")
}

// How much is read: more is an error.
const (
	pageOfPolicies = 500
	mostPolicies   = 20_000
)

// definitionsOfKinds is the resource of CustomResourceDefinitions.
var definitionsOfKinds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// read returns the objects of an engine, and the definitions of the kinds that the cluster has.
func (c *clusterSource) read(ctx context.Context, is func(map[string]any) bool) (found []convert.Foreign, others []map[string]any, err error) {
	config, err := cluster.Find(c.kubeconfig, c.context)
	if err != nil {
		return nil, nil, fmt.Errorf("import from a cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("find cluster: %w", err)
	}
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("find cluster: %w", err)
	}
	served, err := discovered.ServerPreferredResources()
	if failed, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); partly {
		// The groups of other engines matter to nobody here.
		err = nil
		for of, cause := range failed.Groups {
			if is(map[string]any{"apiVersion": of.String(), "kind": "Policy"}) {
				err = fmt.Errorf("%s: %w", of, cause)
			}
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("discover the resources of the cluster: %w", err)
	}
	for _, list := range served {
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !is(map[string]any{"apiVersion": list.GroupVersion, "kind": r.Kind}) {
				continue
			}
			of, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return nil, nil, fmt.Errorf("discover the resources of the cluster: %w", err)
			}
			all, err := listAll(ctx, client, of.WithResource(r.Name))
			if err != nil {
				return nil, nil, err
			}
			for _, object := range all {
				found = append(found, convert.Foreign{Object: object, File: "the cluster"})
			}
		}
	}
	others, err = listAll(ctx, client, definitionsOfKinds)
	return found, others, err
}

// listAll returns all objects of a resource, without what API servers and controllers write.
func listAll(ctx context.Context, client dynamic.Interface, of schema.GroupVersionResource) ([]map[string]any, error) {
	var all []map[string]any
	options := metav1.ListOptions{Limit: pageOfPolicies}
	for {
		page, err := client.Resource(of).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", of.GroupResource(), err)
		}
		for i := range page.Items {
			unstructured.RemoveNestedField(page.Items[i].Object, "status")
			page.Items[i].SetManagedFields(nil)
			all = append(all, page.Items[i].Object)
		}
		if len(all) > mostPolicies {
			return nil, fmt.Errorf("list %s: there are more than %d: name files", of.GroupResource(), mostPolicies)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}
