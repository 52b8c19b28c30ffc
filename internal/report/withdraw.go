package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// The last replica that stops writes that into policies within withdrawTimeout, into
	// withdrawParallel at a time.
	withdrawTimeout  = 10 * time.Second
	withdrawParallel = 8
)

// Withdraw writes into the status of every policy that it is not enforced, with a reason, and
// returns the number of written policies. It is for when no replica is left to write status.
func Withdraw(ctx context.Context, client dynamic.Interface, reason, message string) (int, error) {
	w := newWriter(client, Options{Log: slog.New(slog.DiscardHandler), WritesPerSecond: 1})
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(withdrawParallel)
	var written atomic.Int32
	var errs []error
	for name, kind := range w.kinds {
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(kind.GroupVersionResource()).List(ctx, o)
		}
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			policy, ok := item.(*unstructured.Unstructured)
			if !ok {
				return nil
			}
			status := statusOf(policy)
			if !withdraw(&status.PolicyStatus, reason, message) {
				return nil
			}
			ref := usher.PolicyRef{Kind: name, Namespace: policy.GetNamespace(), Name: policy.GetName()}
			group.Go(func() error {
				err := w.patch(ctx, write{policy: &rule.State{Policy: ref, UID: policy.GetUID()}, status: status})
				// Ignore a policy that was deleted, or deleted and created again.
				if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("status of %s: %w", ref, err)
				}
				written.Add(1)
				return nil
			})
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			// The other kinds are written nevertheless.
			errs = append(errs, fmt.Errorf("list %s: %w", kind.Resource, err))
		}
	}
	err := errors.Join(append(errs, group.Wait())...)
	return int(written.Load()), err
}

// withdraw changes a status that says that the policy may be enforced, or that the exemption is in force, and
// reports whether it did.
func withdraw(status *v1alpha1.PolicyStatus, reason, message string) bool {
	enforced := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEnforced)
	for _, instead := range []string{usherv1alpha1.ConditionValid, usherv1alpha1.ConditionEvaluated} {
		if enforced == nil {
			enforced = meta.FindStatusCondition(status.Conditions, instead)
		}
	}
	if enforced == nil {
		return false
	}
	// The reason that no server is left is one that is not true any more once Usher is uninstalled.
	stale := enforced.Reason == v1alpha1.ReasonNoServer && reason != enforced.Reason
	if enforced.Status == metav1.ConditionFalse && !stale {
		return false
	}
	if enforced.Status != metav1.ConditionFalse {
		enforced.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
	}
	enforced.Status, enforced.Reason, enforced.Message = metav1.ConditionFalse, reason, message
	return true
}

// withdrawn reports whether a status says that no server is left, or that Usher is uninstalled.
func withdrawn(status v1alpha1.PolicyStatus) bool {
	enforced := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEnforced)
	return enforced != nil && (enforced.Reason == v1alpha1.ReasonNoServer || enforced.Reason == v1alpha1.ReasonUninstalled)
}

// withdraw writes that nothing is enforced any more, unless another replica is alive. The Lease of
// this one is deleted already.
func (r *Reporter) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	peers, err := r.replicas.Peers(ctx)
	if err != nil {
		r.options.Log.Warn("status of policies may still say that they are enforced", "error", err)
		return
	}
	for _, peer := range peers {
		if peer.Live && time.Since(peer.Renewed) < replicas.Expiry {
			return
		}
	}
	n, err := Withdraw(ctx, r.policies, v1alpha1.ReasonNoServer,
		"the last server of Usher has ended: the failurePolicy of the webhook configurations answers")
	if err != nil {
		r.options.Log.Warn("status of policies may still say that they are enforced", "error", err)
		return
	}
	if n > 0 {
		r.options.Log.Info("no server is left: policies are not enforced any more", "policies", n)
	}
}
