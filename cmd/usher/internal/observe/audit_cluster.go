package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/resources"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/kind"
)

const (
	// pageSize is how many objects are read with one request.
	pageSize = 500
	// factTTL is longer than a scan: facts are read once.
	factTTL = time.Hour
)

// auditCluster judges the objects of a cluster.
func (f *auditFlags) auditCluster(cmd *cobra.Command, s cli.Streams) (*format.Report, error) {
	config, err := cluster.Find(f.replicas.Kubeconfig, f.replicas.Context)
	if err != nil {
		return nil, err
	}
	clients, err := connect(config)
	if err != nil {
		return nil, err
	}
	stored, forbidden, err := policies.FromCluster(cmd, s, clients.Policies, f.namespace)
	if err != nil {
		return nil, err
	}
	// Policies that decide authorization requests say nothing of objects.
	forbidden = slices.DeleteFunc(forbidden, func(f policies.Forbidden) bool { return f.Kind.Authorizes })
	set, err := policies.UsableWith(cmd, s, f.policies, stored, &f.limits)
	if err != nil && (len(f.whatIf) == 0 || len(f.policies)+len(stored) > 0) {
		return nil, policies.Without(forbidden, err)
	}
	if err != nil {
		if set, err = policies.None(&f.limits); err != nil {
			return nil, err
		}
	}
	sc, err := f.scan(cmd, s, set.Elsewhere(stored), factsOf(clients, &f.facts))
	if err != nil {
		return nil, err
	}
	for _, kind := range forbidden {
		sc.cannotRead(result.Kind{Resource: kind.Kind.GroupVersionResource(), Kind: kind.Kind.Kind}, kind.Err)
	}
	r := reading{scan: sc, client: clients.Facts, namespace: f.namespace}
	if err := r.run(cmd.Context(), s, clients.Kube.Discovery()); err != nil {
		return nil, err
	}
	report := sc.report()
	if f.namespace != "" && report.Nothing() {
		if _, err := clients.Kube.CoreV1().Namespaces().Get(cmd.Context(), f.namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("-n: %w", err)
		}
	}
	return report, nil
}

// connect connects to a cluster that is read.
func connect(config *rest.Config) (*clients.Set, error) {
	// What limits the load is that there is one request at a time.
	config.QPS = -1
	return clients.Connect(config)
}

// factsOf returns the facts of a cluster, each as it was when it was first read.
func factsOf(clients *clients.Set, from *facts.Flags) fact.Resolver {
	return fact.Remembered(cached.New(from.FromCluster(clients), factTTL))
}

// Cluster judges the objects of a cluster, or of one of its namespaces, by policies that are not in
// force. The policies of the cluster are not read, and nothing is written to it.
func Cluster(cmd *cobra.Command, s cli.Streams, config *rest.Config, set policies.Set, namespace string) (*format.Report, error) {
	clients, err := connect(config)
	if err != nil {
		return nil, err
	}
	sc := newScan(set, nil, judge.Options{Facts: factsOf(clients, &facts.Flags{}), Engine: engine.Options{FailurePolicy: usher.Fail}})
	r := reading{scan: sc, client: clients.Facts, namespace: namespace}
	if err := r.run(cmd.Context(), s, clients.Kube.Discovery()); err != nil {
		return nil, err
	}
	return sc.report(), nil
}

// A reading reads the objects of a cluster, one page after the other, and has them judged.
type reading struct {
	*scan

	client    dynamic.Interface
	namespace string
}

// run reads all kinds for which there are policies.
func (r *reading) run(ctx context.Context, s cli.Streams, discover discovery.DiscoveryInterface) error {
	kinds, err := r.discovered(discover)
	if err != nil {
		return err
	}
	start := time.Now()
	r.total.Store(int64(len(kinds)))
	stop := cli.ShowProgress(s.Err, func() string {
		n := r.done.Load()
		return fmt.Sprintf("%d of %d kinds, %s, %.0f a second", r.read.Load(), r.total.Load(), cli.Count(int(n), "object", "objects"), float64(n)/time.Since(start).Seconds())
	})
	defer stop()
	for _, kind := range kinds {
		n, err := r.kind(ctx, kind)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.cannotRead(kind, err)
		default:
			r.kinds = append(r.kinds, result.KindState{Kind: kind, Objects: n, Complete: true, Heard: time.Now()})
		}
		r.read.Add(1)
	}
	return nil
}

// discovered returns the kinds that the cluster serves and for which there are policies, sorted.
func (r *reading) discovered(discover discovery.DiscoveryInterface) ([]result.Kind, error) {
	groups, lists, err := discover.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	if partial != nil {
		for gv, why := range partial.Groups {
			r.cannotRead(result.Kind{Resource: gv.WithResource("*"), Kind: "*"}, why)
		}
	}
	lists = kind.InOrder(groups, lists)
	versions := resources.Versions(lists, "list")
	r.inForce.in(versions)
	if r.whatIf != nil {
		r.whatIf.in(versions)
	}
	var kinds []result.Kind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discover kinds: %w", err)
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			kind := result.Kind{Resource: gv.WithResource(resource.Name), Kind: resource.Kind, Namespaced: resource.Namespaced}
			listed := slices.Contains(resource.Verbs, "list")
			if strings.Contains(resource.Name, "/") || r.namespace != "" && !kind.Namespaced || !listed && !resources.Stored(resource) {
				continue
			}
			if len(r.policiesFor(kind)) == 0 {
				continue
			}
			if !listed {
				r.cannotRead(kind, errors.New("the API server does not list objects of this kind"))
				continue
			}
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b result.Kind) int { return strings.Compare(a.Resource.String(), b.Resource.String()) })
	return kinds, nil
}

// kind reads all objects of a kind, and returns how many there are.
func (r *reading) kind(ctx context.Context, kind result.Kind) (int, error) {
	var from dynamic.ResourceInterface = r.client.Resource(kind.Resource)
	if r.namespace != "" {
		from = r.client.Resource(kind.Resource).Namespace(r.namespace)
	}
	n := 0
	err := pages(ctx, from, func(page *unstructured.UnstructuredList) error {
		n += len(page.Items)
		return r.judge(ctx, objectsOf(page, kind))
	})
	return n, err
}

// pages calls each for all pages of a list. A list that expires is read on from where it was, as
// kubectl does: API servers offer that once after a page.
func pages(ctx context.Context, from dynamic.ResourceInterface, each func(*unstructured.UnstructuredList) error) error {
	options, expired := metav1.ListOptions{Limit: pageSize}, false
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

func objectsOf(page *unstructured.UnstructuredList, kind result.Kind) []object {
	found := make([]object, len(page.Items))
	for i := range page.Items {
		found[i] = object{kind: kind, tree: page.Items[i].Object}
	}
	return found
}

// policiesFor returns the policies to judge objects of a kind by, those in force and those of
// --what-if.
func (sc *scan) policiesFor(kind result.Kind) []usher.PolicyRef {
	refs := sc.some(sc.inForce.plan(kind))
	if sc.whatIf != nil {
		refs = append(refs, sc.some(sc.whatIf.plan(kind))...)
	}
	return refs
}

// cannotRead adds a result for each policy that is for a kind that cannot be read.
func (sc *scan) cannotRead(kind result.Kind, err error) {
	sc.kinds = append(sc.kinds, result.KindState{Kind: kind, Err: err, Since: time.Now()})
	about := result.Identity{APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Kind}
	current := sc.inForce
	if sc.whatIf != nil {
		current = sc.whatIf
	}
	refs := sc.some(current.plan(kind))
	if len(refs) == 0 {
		refs = []usher.PolicyRef{{}}
	}
	message := fmt.Sprintf("%s cannot be read: %v", kind.Resource.GroupResource(), err)
	for _, ref := range refs {
		one := format.Result{Result: result.Result{Object: about, Policy: ref, Status: result.Error, Message: message}}
		current.results = append(current.results, one)
		current.count(ref, result.Error, 1)
	}
}

func (f *auditFlags) judging(resolver fact.Resolver) judge.Options {
	return judge.Options{Facts: resolver, Engine: engine.Options{FailurePolicy: usher.Fail}, HTTP: f.http}
}
