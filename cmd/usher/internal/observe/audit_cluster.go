package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/existing"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/resources"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// auditCluster judges the objects of a cluster.
func (f *auditFlags) auditCluster(cmd *cobra.Command, s cli.Streams) (*format.Report, error) {
	config, err := cluster.Find(f.replicas.Kubeconfig, f.replicas.Context)
	if err != nil {
		return nil, err
	}
	clients, err := existing.Connect(config)
	if err != nil {
		return nil, err
	}
	stored, forbidden, err := policies.FromCluster(cmd, s, clients.Policies, f.namespace)
	if err != nil {
		return nil, err
	}
	forbidden = policies.OfWrites(forbidden)
	set, err := policies.UsableWith(cmd, s, f.policies, stored, &f.limits)
	if err != nil {
		if missing := cluster.NoNamespace(cmd.Context(), clients.Facts, f.namespace); missing != nil {
			return nil, fmt.Errorf("-n: %w", missing)
		}
		return nil, policies.Without(forbidden, f.inNamespace(forbidden, err))
	}
	o := f.judging(existing.Facts(clients, &f.facts))
	o.Unsent = unsent(cmd.Context(), clients.Kube)
	sc, err := f.scan(cmd, s, set.Elsewhere(stored), o)
	if err != nil {
		return nil, err
	}
	var leftOut []string
	for _, kind := range forbidden {
		if f.namespace != "" && !kind.Kind.Namespaced {
			// Its users need not have these rights.
			leftOut = append(leftOut, kind.Kind.GroupVersionResource().GroupResource().String())
			continue
		}
		sc.cannotRead(result.Kind{Resource: kind.Kind.GroupVersionResource(), Kind: kind.Kind.Kind}, kind.Err)
	}
	r := reading{scan: sc, client: clients.Facts, namespace: f.namespace}
	report, err := r.report(cmd.Context(), s, clients.Kube.Discovery())
	if err != nil {
		return nil, err
	}
	sc.noteExcluding(cmd, s, set.Rules)
	report.LeftOut = leftOut
	return report, nil
}

// inNamespace adds to an error of a user who may not read all policies that -n audits one namespace.
func (f *auditFlags) inNamespace(forbidden []policies.Forbidden, err error) error {
	if f.namespace != "" || len(forbidden) == 0 {
		return err
	}
	return fmt.Errorf("%w (without -n: -n %s audits one namespace)", err, cluster.NamespaceOf(f.replicas.Kubeconfig, f.replicas.Context))
}

// Cluster judges the objects of a cluster, or of one of its namespaces, by policies that are not in
// force. The policies of the cluster are not read, and nothing is written to it.
func Cluster(cmd *cobra.Command, s cli.Streams, config *rest.Config, set policies.Set, namespace string) (*format.Report, error) {
	clients, err := existing.Connect(config)
	if err != nil {
		return nil, err
	}
	sc := newScan(set, judge.Options{
		Facts: existing.Facts(clients, &facts.Flags{}), Engine: engine.Options{FailurePolicy: usher.Fail}, Unsent: unsent(cmd.Context(), clients.Kube),
	})
	r := reading{scan: sc, client: clients.Facts, namespace: namespace}
	return r.report(cmd.Context(), s, clients.Kube.Discovery())
}

// unsent returns what says why API servers do not send a request to Usher: as it is registered, or as it is by default.
func unsent(ctx context.Context, kube kubernetes.Interface) func(*usher.Request) string {
	o, ok := webhookconfig.LeavingOut(ctx, kube, webhookconfig.DefaultName)
	if !ok {
		o.Namespace = cluster.DefaultNamespace
	}
	return o.Unsent
}

// A reading reads the objects of a cluster, one page after the other, and has them judged.
type reading struct {
	*scan

	client    dynamic.Interface
	namespace string
}

// report reads and judges the objects. If there are none, and no such namespace, that is an error.
func (r *reading) report(ctx context.Context, s cli.Streams, discover discovery.DiscoveryInterface) (*format.Report, error) {
	if err := r.run(ctx, s, discover); err != nil {
		return nil, err
	}
	report := r.scan.report()
	if report.Nothing() {
		if err := cluster.NoNamespace(ctx, r.client, r.namespace); err != nil {
			return nil, fmt.Errorf("-n: %w", err)
		}
	}
	return report, nil
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
	lists, failed, err := existing.Discover(discover)
	if err != nil {
		return nil, err
	}
	for gv, why := range failed {
		r.cannotRead(result.Kind{Resource: gv.WithResource("*"), Kind: "*"}, why)
	}
	versions := resources.Versions(lists, "list")
	r.in(versions)
	var kinds []result.Kind
	resources.Each(lists, func(kind result.Kind, resource *metav1.APIResource) {
		listed := resources.Unoffered(resource, "list")
		switch {
		case r.namespace != "" && !kind.Namespaced || listed != nil && !resources.Stored(resource), len(r.policiesFor(kind)) == 0:
		case listed != nil:
			r.cannotRead(kind, listed)
		default:
			kinds = append(kinds, kind)
		}
	})
	slices.SortFunc(kinds, func(a, b result.Kind) int { return strings.Compare(a.Resource.String(), b.Resource.String()) })
	return kinds, nil
}

// kind reads all objects of a kind, and returns how many there are.
func (r *reading) kind(ctx context.Context, kind result.Kind) (int, error) {
	n := 0
	err := existing.Pages(ctx, r.client.Resource(kind.Resource).Namespace(r.namespace), func(page *unstructured.UnstructuredList) error {
		n += len(page.Items)
		return r.judgeAll(ctx, objectsOf(page, kind))
	})
	return n, err
}

func objectsOf(page *unstructured.UnstructuredList, kind result.Kind) []object {
	found := make([]object, len(page.Items))
	for i := range page.Items {
		found[i] = object{kind: kind, tree: page.Items[i].Object}
	}
	return found
}

// policiesFor returns the policies to judge objects of a kind by.
func (sc *scan) policiesFor(kind result.Kind) []usher.PolicyRef { return sc.some(sc.plan(kind)) }

// cannotRead adds a result for each policy that is for a kind that cannot be read.
func (sc *scan) cannotRead(kind result.Kind, err error) {
	sc.kinds = append(sc.kinds, result.KindState{Kind: kind, Err: err, Since: time.Now()})
	about := result.Identity{APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Kind}
	refs := sc.policiesFor(kind)
	if len(refs) == 0 {
		refs = []usher.PolicyRef{{}}
	}
	message := fmt.Sprintf("%s cannot be read: %v", kind.Resource.GroupResource(), err)
	for _, ref := range refs {
		one := format.Result{Result: result.Result{Object: about, Policy: ref, Status: result.Error, Message: message}}
		if apierrors.IsForbidden(err) {
			one.Forbidden = kind.Resource.GroupResource().String()
		}
		sc.results = append(sc.results, one)
		sc.count(ref, result.Error, 1)
	}
}

func (f *auditFlags) judging(resolver fact.Resolver) judge.Options {
	return judge.Options{Facts: resolver, Engine: engine.Options{FailurePolicy: usher.Fail}, HTTP: f.http}
}
