// Package secret keeps values in a Secret, together with other replicas.
package secret

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// ManagedBy and Manager are the label of the Secrets that Usher creates.
const (
	ManagedBy = "app.kubernetes.io/managed-by"
	Manager   = "usher"
)

// timeout is how long an API server may take for one update.
const timeout = 15 * time.Second

// A Client reads and writes the Secrets of one namespace, like a client of client-go.
type Client interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// A Keeper keeps values in one Secret.
type Keeper struct {
	Client          Client
	Namespace, Name string
	// Type is that of a Secret that is created.
	Type corev1.SecretType
	// Purpose says in errors what is kept, and Rights what the service account lacks if it is forbidden.
	Purpose, Rights string
}

// Update puts into the Secret what next makes of it; next gets nil if there is none, and returns nil if nothing
// has to be written. If another replica writes at the same time, its values count: next is called again.
func (k *Keeper) Update(ctx context.Context, next func(*corev1.Secret) (map[string][]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	isRace := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, isRace, func() error { return k.attempt(ctx, next) })
	hint := ""
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		hint = "; let Usher's service account " + k.Rights
	case apierrors.IsNotFound(err):
		hint = "; the namespace has to exist: kubectl create namespace " + k.Namespace
	}
	return fmt.Errorf("keep %s in Secret %s/%s: %w%s", k.Purpose, k.Namespace, k.Name, err, hint)
}

// attempt reads the Secret once and writes it at most once. The API server detects conflicts by its resource version.
func (k *Keeper) attempt(ctx context.Context, next func(*corev1.Secret) (map[string][]byte, error)) error {
	found, err := k.Client.Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = nil, nil
	}
	if err != nil {
		return err
	}
	data, err := next(found)
	switch {
	case err != nil || data == nil:
		return err
	case found == nil:
		made := metav1.ObjectMeta{Name: k.Name, Namespace: k.Namespace, Labels: map[string]string{ManagedBy: Manager}}
		_, err = k.Client.Create(ctx, &corev1.Secret{ObjectMeta: made, Type: k.Type, Data: data}, metav1.CreateOptions{})
		return err
	}
	found = found.DeepCopy()
	found.Data = data
	_, err = k.Client.Update(ctx, found, metav1.UpdateOptions{})
	return err
}
