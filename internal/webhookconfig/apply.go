package webhookconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/usher-dev/usher/internal/rule"
)

// The label of the objects that Usher has made and may delete.
const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "usher"
)

// An IncompleteError reports what is missing, although everything else was registered.
type IncompleteError struct {
	// Kinds are those that the cluster does not have (yet), such as "example.com/v1 Widget",
	// sorted. They were registered under the most likely names of their resources. Apply again
	// later: their resources may have other names.
	Kinds []string
	// Dropped are entries for converted objects that are too many, sorted: policies that name
	// only their versions do not see requests in others.
	Dropped []string
}

// Error implements error.
func (e *IncompleteError) Error() string {
	var texts []string
	if len(e.Kinds) > 0 {
		texts = append(texts, "find resources: the cluster does not have the kinds "+strings.Join(e.Kinds, ", "))
	}
	if len(e.Dropped) > 0 {
		texts = append(texts, fmt.Sprintf("policies name more than %d sets of versions of a kind: %s are left out, so policies that name only these versions do not see "+
			"requests in others; name fewer combinations of versions", maxConverted, strings.Join(e.Dropped, ", ")))
	}
	return strings.Join(texts, "; ")
}

// A ForeignError reports that a configuration has the name of Usher's, but not its label. It is
// left as it is.
type ForeignError struct{ Kind, Name string }

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s is not Usher's, it has no label %s: %s", e.Kind, e.Name, managedBy, manager)
}

// Apply writes the webhook configurations that the coverage needs. caBundle is the CA that API
// servers trust, in PEM; with nil, Apply does not change it. It writes only differences, by
// server-side apply, and nothing if it cannot map all kinds to resources.
//
// Call it when the server is ready: with the failure policy Fail, requests are denied from then on
// if it is not. After an [IncompleteError], call it again later.
func (e *Applier) Apply(ctx context.Context, coverage rule.Coverage, caBundle []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	mutating, validating, err := e.Objects(coverage, caBundle)
	var unknown *IncompleteError
	if err != nil && !errors.As(err, &unknown) {
		return err
	}
	e.tellExempt(coverage)
	registration := e.kube.AdmissionregistrationV1()
	return errors.Join(
		applyTo(ctx, e, mutatingKind, registration.MutatingWebhookConfigurations(), mutating, sameMutating, staleMutating),
		applyTo(ctx, e, validatingKind, registration.ValidatingWebhookConfigurations(), validating, sameValidating, staleValidating),
		err,
	)
}

// tellExempt logs the kinds that policies select and API servers never send, once until they change.
func (e *Applier) tellExempt(coverage rule.Coverage) {
	kinds := strings.Join(e.exemptKinds(coverage), ", ")
	if kinds != "" && kinds != e.told {
		e.o.Log.Warn("policies select kinds that are never sent to webhooks, so that the cluster can recover", "kinds", kinds)
	}
	e.told = kinds
}

// A client reads and writes the configurations of one phase.
type client[C metav1.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (C, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (C, error)
}

// applyTo writes the configuration of one phase, unless the one that is registered is the same.
// Another replica may write at the same time: then it tries again. The stale entries, which another
// field manager owns, too, such as one that has restored a backup, are not removed by applying.
func applyTo[C metav1.Object](
	ctx context.Context, e *Applier, kind string, c client[C], want C, same func(got, want C) bool, stale func(got, want C) map[int]string,
) error {
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, func() error {
		got, err := c.Get(ctx, e.o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case !ours(got):
			return &ForeignError{kind, e.o.Name}
		case carries(got, want) && same(got, want):
			return errSame
		}
		data, err := json.Marshal(want)
		if err != nil {
			return err
		}
		force := true
		got, err = c.Patch(ctx, e.o.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: manager, Force: &force})
		if err != nil {
			return err
		}
		return removeEntries(ctx, e, c, stale(got, want))
	})
	switch {
	case errors.Is(err, errSame):
		return nil
	case err != nil:
		return fmt.Errorf("register %s %s: %w", kind, e.o.Name, err)
	}
	e.o.Log.Info("registered", "kind", kind, "name", e.o.Name)
	return nil
}

// removeEntries removes entries by index, if they still have their names.
func removeEntries[C metav1.Object](ctx context.Context, e *Applier, c client[C], stale map[int]string) error {
	if len(stale) == 0 {
		return nil
	}
	var operations []map[string]any
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(stale))) {
		path := fmt.Sprintf("/webhooks/%d", i)
		operations = append(operations, map[string]any{"op": "test", "path": path + "/name", "value": stale[i]}, map[string]any{"op": "remove", "path": path})
	}
	data, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	_, err = c.Patch(ctx, e.o.Name, types.JSONPatchType, data, metav1.PatchOptions{FieldManager: manager})
	return err
}

// staleEntries are the indexes and names of entries of Usher that the rules in force do not need.
func staleEntries[W any](got, want []W, name func(*W) string) map[int]string {
	stale := map[int]string{}
	for i := range got {
		n := name(&got[i])
		if isEntry(n) && !slices.ContainsFunc(want, func(w W) bool { return name(&w) == n }) {
			stale[i] = n
		}
	}
	return stale
}

func staleMutating(got, want *admissionv1.MutatingWebhookConfiguration) map[int]string {
	return staleEntries(got.Webhooks, want.Webhooks, func(w *admissionv1.MutatingWebhook) string { return w.Name })
}

func staleValidating(got, want *admissionv1.ValidatingWebhookConfiguration) map[int]string {
	return staleEntries(got.Webhooks, want.Webhooks, func(w *admissionv1.ValidatingWebhook) string { return w.Name })
}

// errSame ends an attempt that has nothing to write.
var errSame = errors.New("nothing to write")

// ours reports whether an object is one that Usher has made.
func ours(object metav1.Object) bool { return object.GetLabels()[managedBy] == manager }

// carries reports whether got has the labels and annotations of want.
func carries(got, want metav1.Object) bool {
	has := func(got, want map[string]string) bool {
		for name, value := range want {
			if there, ok := got[name]; !ok || there != value {
				return false
			}
		}
		return true
	}
	return has(got.GetLabels(), want.GetLabels()) && has(got.GetAnnotations(), want.GetAnnotations())
}

// same reports whether the registered entries are the expected ones. It ignores entries that others
// have added. of returns the name of an entry and its client configuration.
func same[W any](got, want []W, of func(*W) (string, *admissionv1.WebhookClientConfig)) bool {
	own := slices.DeleteFunc(slices.Clone(got), func(w W) bool {
		name, _ := of(&w)
		return !isEntry(name)
	})
	return slices.EqualFunc(own, want, func(got, want W) bool {
		_, there := of(&got)
		if _, c := of(&want); c.CABundle == nil {
			c.CABundle = there.CABundle
		}
		return apiequality.Semantic.DeepEqual(got, want)
	})
}

func sameMutating(got, want *admissionv1.MutatingWebhookConfiguration) bool {
	return same(got.Webhooks, want.Webhooks, func(w *admissionv1.MutatingWebhook) (string, *admissionv1.WebhookClientConfig) {
		return w.Name, &w.ClientConfig
	})
}

func sameValidating(got, want *admissionv1.ValidatingWebhookConfiguration) bool {
	return same(got.Webhooks, want.Webhooks, func(w *admissionv1.ValidatingWebhook) (string, *admissionv1.WebhookClientConfig) {
		return w.Name, &w.ClientConfig
	})
}
