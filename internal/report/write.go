package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// A status is that of a policy, with the additional fields of exemptions.
type status struct {
	v1alpha1.PolicyStatus `json:",inline"`

	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
	Uses     int64        `json:"uses,omitempty"`
	// Candidate is the status of a candidate, which is written in place of the rest.
	Candidate *usherv1alpha1.PolicyCandidateStatus `json:"-"`
}

// A writer knows the current status of the policies, because it has read them and is the only one
// that writes them.
type writer struct {
	client  dynamic.Interface
	log     *slog.Logger
	limiter flowcontrol.RateLimiter

	known map[types.UID]status
	// kinds has the kinds by their names.
	kinds map[string]api.Kind
	stale time.Time
	// reads counts how often they were read.
	reads int
	// refused are the policies whose status could not be written, with the time at which
	// to try again, and mute the kinds that have no status. A log record has said so of those in told.
	refused map[types.UID]time.Time
	mute    map[string]time.Time
	told    map[string]bool
}

func newWriter(client dynamic.Interface, o Options) *writer {
	kinds := map[string]api.Kind{}
	for _, kind := range api.Kinds() {
		kinds[kind.Kind] = kind
	}
	return &writer{
		client: client, log: o.Log, kinds: kinds, mute: map[string]time.Time{}, told: map[string]bool{},
		limiter: flowcontrol.NewTokenBucketRateLimiter(float32(o.WritesPerSecond), 2*o.WritesPerSecond),
	}
}

// reload reads the status of all policies, if that was not done for some time.
func (w *writer) reload(ctx context.Context, now time.Time) error {
	if now.Before(w.stale) {
		return nil
	}
	known := map[types.UID]status{}
	for _, kind := range w.kinds {
		resource := kind.GroupVersionResource()
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, 3*requestTimeout)
			defer cancel()
			return w.client.Resource(resource).List(ctx, o)
		}
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			if policy, ok := item.(*unstructured.Unstructured); ok {
				known[policy.GetUID()] = statusOf(policy)
			}
			return nil
		})
		switch {
		case apierrors.IsForbidden(err):
			// A ClusterRole that is older than Usher does not hold up the other kinds.
			w.log.Warn("the status of policies of a kind is not read", "resource", resource.Resource, "do", "apply the chart of this version of Usher", "error", err)
		case err != nil && !apierrors.IsNotFound(err):
			// A kind whose definition is missing has no policies.
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
	}
	every := reloadEvery
	if w.known == nil {
		every = reloadFirst
	}
	if w.reads++; w.reads != 2 {
		w.refused = map[types.UID]time.Time{}
	}
	w.known, w.stale = known, now.Add(wait.Jitter(every, 0.2))
	return nil
}

// statusOf returns the status of a policy; empty if it is invalid, which replaces it.
func statusOf(policy *unstructured.Unstructured) status {
	var s status
	tree, _, err := unstructured.NestedMap(policy.Object, "status")
	if kind, _ := api.KindCalled(policy.GetKind()); kind.Candidate {
		var read usherv1alpha1.PolicyCandidateStatus
		if err != nil || tree == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &read) != nil {
			return status{}
		}
		return ofCandidate(read)
	}
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &s) != nil {
		return status{}
	}
	return s
}

// writable reports whether the status of p can be written.
func (w *writer) writable(p *rule.State, now time.Time) bool {
	_, known := w.kinds[p.Policy.Kind]
	return known && !now.Before(w.mute[p.Policy.Kind]) && !now.Before(w.refused[p.UID])
}

// write writes statuses, as fast as the limit allows. Its error is one that other policies would
// cause, too.
func (w *writer) write(ctx context.Context, due []write) error {
	refusals := 0
	for i := range due {
		item := &due[i]
		if time.Now().Before(w.mute[item.policy.Policy.Kind]) {
			continue
		}
		if err := w.limiter.Wait(ctx); err != nil {
			return err
		}
		err := w.patch(ctx, *item)
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			var gone bool
			if gone, err = w.missing(ctx, item.policy, err); gone {
				continue
			}
		}
		if err == nil {
			w.known[item.policy.UID], item.done = item.status, true
			delete(w.told, item.policy.Policy.Kind)
			refusals = 0
			continue
		}
		if refusals++; transient(err) || refusals == refusalsInRow {
			return fmt.Errorf("status of %s: %w", item.policy.Policy, err)
		}
		w.refused[item.policy.UID] = time.Now().Add(refusedFor)
		w.log.Warn("policy status refused", "policy", item.policy.Policy.String(), "again", refusedFor, "error", err)
	}
	return nil
}

// transient reports whether err is independent of the policy that was written.
func transient(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnauthorized(err)
}

// patch replaces the status of one policy, if it is still the same object and not a new one of the
// same name.
func (w *writer) patch(ctx context.Context, item write) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": item.policy.UID},
		{"op": "add", "path": "/status", "value": item.status.value()},
	})
	if err != nil {
		return err
	}
	_, err = w.resource(item.policy).Patch(ctx, item.policy.Policy.Name, types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}

func (w *writer) resource(p *rule.State) dynamic.ResourceInterface {
	kind := w.kinds[p.Policy.Kind]
	return w.client.Resource(kind.GroupVersionResource()).Namespace(p.Policy.Namespace)
}

// missing finds out what the API server did not find: the policy, which the next snapshot will omit
// or have with another UID, or the status subresource of the kind, whose CustomResourceDefinition is an
// old one. That is tried again, too: somebody may apply a new one at any time. Gone says that there is
// nothing to write; otherwise the error is the one that was given, or a new one.
//
// Policies that are deleted and created again say nothing of others: they count neither as rejections nor as
// an API server that does not answer, so that whose they are cannot keep the status of others from being written.
func (w *writer) missing(ctx context.Context, p *rule.State, given error) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stored, err := w.resource(p).Get(ctx, p.Policy.Name, metav1.GetOptions{})
	again := time.Now().Add(refusedFor)
	if apierrors.IsNotFound(err) || err == nil && stored.GetUID() != p.UID {
		w.refused[p.UID] = again
		return true, nil
	}
	if err != nil || apierrors.IsInvalid(given) {
		return false, cmp.Or(err, given)
	}
	kind := p.Policy.Kind
	if !w.told[kind] {
		w.log.Warn("policies of this kind have no status: apply the CustomResourceDefinitions of this version of Usher", "kind", kind)
	}
	w.told[kind], w.mute[kind] = true, again
	return true, nil
}
