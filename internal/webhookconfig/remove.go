package webhookconfig

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Remove deletes the webhook configurations. It ignores those that do not exist; those that are not
// Usher's are left, with a [ForeignError]. It needs no running server.
func (e *Applier) Remove(ctx context.Context) error {
	return Remove(ctx, e.kube, e.o.Name, func(kind, name string) {
		e.o.Log.Info("registration removed", "kind", kind, "name", name)
	})
}

// Remove deletes the configurations with a name, like [Applier.Remove], and reports each that it
// has deleted. It tries both, even after an error.
func Remove(ctx context.Context, kube kubernetes.Interface, name string, deleted func(kind, name string)) error {
	client := kube.AdmissionregistrationV1()
	remove := func(kind string, get func() (metav1.Object, error), del func(metav1.DeleteOptions) error) error {
		object, err := get()
		if err == nil && !ours(object) {
			return &ForeignError{kind, name}
		}
		if err == nil {
			uid := object.GetUID()
			err = del(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("remove %s %s: %w", kind, name, err)
		}
		deleted(kind, name)
		return nil
	}
	validating, mutating := client.ValidatingWebhookConfigurations(), client.MutatingWebhookConfigurations()
	return errors.Join(
		remove(validatingKind, func() (metav1.Object, error) {
			return validating.Get(ctx, name, metav1.GetOptions{})
		}, func(o metav1.DeleteOptions) error { return validating.Delete(ctx, name, o) }),
		remove(mutatingKind, func() (metav1.Object, error) {
			return mutating.Get(ctx, name, metav1.GetOptions{})
		}, func(o metav1.DeleteOptions) error { return mutating.Delete(ctx, name, o) }),
	)
}
