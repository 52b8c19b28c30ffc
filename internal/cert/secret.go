package cert

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

const (
	// lookEvery is how often a Secret is read: how long replicas may differ.
	lookEvery = time.Minute
	// requestTimeout is how long an API server may take.
	requestTimeout = 15 * time.Second
)

// Secrets are those of one namespace. The clients of client-go are such.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// FromSecret returns a certificate of a CA of its own that replicas share: both are kept in a
// Secret, which is created if it does not exist or is empty, and read again every minute. All
// replicas should have the same hosts, the names of their Service.
//
// Certificates are renewed 90 days ahead. When the CA is renewed, clients get both the old and the
// new one, and the new one is not used until a day later: see [Serving.CA] and [Serving.Changes].
//
// It needs to get, create and update the Secret. Nothing is put in the place of values
// that somebody else has made.
func FromSecret(ctx context.Context, secrets Secrets, namespace, name string, o Options) (*Serving, error) {
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	k := &secretKeeper{secrets: secrets, namespace: namespace, name: name, maker: &maker{hosts: o.Hosts, now: time.Now}}
	s := &Serving{log: o.Log, every: lookEvery, load: k.renew}
	return s.start(ctx)
}

// A secretKeeper makes certificates and keeps them in a Secret.
type secretKeeper struct {
	secrets         Secrets
	namespace, name string
	maker           *maker
	// known are the last values: a Secret that was deleted is recreated with them.
	known map[string][]byte
}

// renew returns what the Secret holds, after putting something better into it if it has to.
func (k *secretKeeper) renew(ctx context.Context, last *identity) (*identity, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var next *identity
	// Another replica may do the same at the same time: then its values count.
	err := retry.OnError(retry.DefaultBackoff, isRace, func() (err error) {
		next, err = k.attempt(ctx, last == nil)
		return err
	})
	if err != nil {
		hint := ""
		switch {
		case apierrors.IsForbidden(err):
			hint = "; let Usher's service account get, create and update Secrets there"
		case apierrors.IsNotFound(err):
			hint = "; the namespace has to exist: kubectl create namespace " + k.namespace
		}
		return nil, fmt.Errorf("keep certificate in Secret %s/%s: %w%s", k.namespace, k.name, err, hint)
	}
	if last != nil && bytes.Equal(next.certPEM, last.certPEM) && bytes.Equal(next.keyPEM, last.keyPEM) && bytes.Equal(next.caPEM, last.caPEM) {
		return last, nil
	}
	return next, nil
}

func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// attempt reads the Secret once and writes it at most once.
func (k *secretKeeper) attempt(ctx context.Context, starting bool) (*identity, error) {
	secret, err := k.secrets.Get(ctx, k.name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, err
	}
	found := k.known
	if !missing {
		found = secret.Data
	}
	r := &rotation{maker: k.maker}
	values, err := r.next(found, starting)
	if err != nil {
		return nil, err
	}
	switch {
	case missing:
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: k.name, Namespace: k.namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "usher"},
			},
			Type: corev1.SecretTypeTLS,
			Data: values,
		}
		_, err = k.secrets.Create(ctx, secret, metav1.CreateOptions{})
	case !r.changed:
	default:
		secret = secret.DeepCopy()
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		maps.Copy(secret.Data, values)
		_, err = k.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	k.known = values
	return newIdentity(values[tlsCert], values[tlsKey], values[caCert], tlsCert, tlsKey)
}
