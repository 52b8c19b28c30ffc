package enroll

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

	"github.com/usher-dev/usher/rule"
)

// The label of the objects that Usher has made and may delete.
const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "usher"
)

// An UnknownKindsError names kinds that the cluster does not have (yet). Everything else
// was registered, and they were under the names that their resources most likely will
// have. Apply again later: their resources may be called otherwise.
type UnknownKindsError struct {
	// Kinds are such as "example.com/v1 Widget", sorted.
	Kinds []string
}

// Error implements error.
func (e *UnknownKindsError) Error() string {
	return "find resources: the cluster does not have the kinds " + strings.Join(e.Kinds, ", ")
}

// A ForeignError tells that a configuration has the name of Usher's, but not its label. It
// is left as it is.
type ForeignError struct{ Kind, Name string }

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s is not Usher's, it has no label %s: %s", e.Kind, e.Name, managedBy, manager)
}

// Apply makes the registration what the coverage needs. API servers are to trust caBundle,
// in PEM; nil leaves what they trust to somebody else. It writes only what differs, by
// server-side apply, and without being able to tell the resources of all kinds nothing.
//
// Call it when the server answers: with the failure policy Fail, requests are refused from
// then on if it does not. An error that is an [UnknownKindsError] needs only patience.
func (e *Enroller) Apply(ctx context.Context, coverage rule.Coverage, caBundle []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	mutating, validating, err := e.Objects(coverage, caBundle)
	var unknown *UnknownKindsError
	if err != nil && !errors.As(err, &unknown) {
		return err
	}
	e.tellExempt(coverage)
	return errors.Join(e.applyMutating(ctx, mutating), e.applyValidating(ctx, validating), err)
}

// tellExempt logs which kinds policies name in vain, once as long as they stay the same.
func (e *Enroller) tellExempt(coverage rule.Coverage) {
	kinds := strings.Join(e.exemptKinds(coverage), ", ")
	if kinds != "" && kinds != e.told {
		e.o.Log.Warn("policies select kinds that are never sent to webhooks, so that the cluster can recover", "kinds", kinds)
	}
	e.told = kinds
}

func (e *Enroller) applyMutating(ctx context.Context, want *admissionv1.MutatingWebhookConfiguration) error {
	client := e.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	return e.apply(mutatingKind, func() error {
		got, err := client.Get(ctx, e.o.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			if !ours(got) {
				return &ForeignError{mutatingKind, e.o.Name}
			}
			if carries(got, want) && sameMutating(got.Webhooks, want.Webhooks) {
				return errSame
			}
		}
		return e.patch(want, func(data []byte, o metav1.PatchOptions) error {
			_, err := client.Patch(ctx, e.o.Name, types.ApplyPatchType, data, o)
			return err
		})
	})
}

func (e *Enroller) applyValidating(ctx context.Context, want *admissionv1.ValidatingWebhookConfiguration) error {
	client := e.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return e.apply(validatingKind, func() error {
		got, err := client.Get(ctx, e.o.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			if !ours(got) {
				return &ForeignError{validatingKind, e.o.Name}
			}
			if carries(got, want) && sameValidating(got.Webhooks, want.Webhooks) {
				return errSame
			}
		}
		return e.patch(want, func(data []byte, o metav1.PatchOptions) error {
			_, err := client.Patch(ctx, e.o.Name, types.ApplyPatchType, data, o)
			return err
		})
	})
}

// errSame ends an attempt that has nothing to write.
var errSame = errors.New("nothing to write")

// apply makes attempts until none meets another replica that writes at the same time.
func (e *Enroller) apply(kind string, attempt func() error) error {
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, attempt)
	switch {
	case errors.Is(err, errSame):
		return nil
	case err != nil:
		return fmt.Errorf("register %s %s: %w", kind, e.o.Name, err)
	}
	e.o.Log.Info("registered", "kind", kind, "name", e.o.Name)
	return nil
}

func (e *Enroller) patch(object any, send func(data []byte, o metav1.PatchOptions) error) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	force := true
	return send(data, metav1.PatchOptions{FieldManager: manager, Force: &force})
}

// ours reports whether an object is one that Usher has made.
func ours(object metav1.Object) bool { return object.GetLabels()[managedBy] == manager }

// carries reports whether got has the labels of want.
func carries(got, want metav1.Object) bool {
	labels := maps.Clone(got.GetLabels())
	maps.Copy(labels, want.GetLabels())
	return maps.Equal(labels, got.GetLabels())
}

// sameMutating reports whether the entries that are registered, those of others left out,
// are the wanted ones. Entries that somebody else has added are their business.
func sameMutating(got, want []admissionv1.MutatingWebhook) bool {
	own := slices.DeleteFunc(slices.Clone(got), func(w admissionv1.MutatingWebhook) bool { return !isEntry(w.Name) })
	return slices.EqualFunc(own, want, func(got, want admissionv1.MutatingWebhook) bool {
		if want.ClientConfig.CABundle == nil {
			want.ClientConfig.CABundle = got.ClientConfig.CABundle
		}
		return apiequality.Semantic.DeepEqual(got, want)
	})
}

func sameValidating(got, want []admissionv1.ValidatingWebhook) bool {
	own := slices.DeleteFunc(slices.Clone(got), func(w admissionv1.ValidatingWebhook) bool { return !isEntry(w.Name) })
	return slices.EqualFunc(own, want, func(got, want admissionv1.ValidatingWebhook) bool {
		if want.ClientConfig.CABundle == nil {
			want.ClientConfig.CABundle = got.ClientConfig.CABundle
		}
		return apiequality.Semantic.DeepEqual(got, want)
	})
}
