package cert

import (
	"bytes"
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/usher-dev/usher/internal/secret"
)

// lookEvery is how often a Secret is read: how long replicas may differ.
const lookEvery = time.Minute

// FromSecret returns a certificate of a CA of its own that replicas share: both are kept in a
// Secret, which is created if it does not exist or is empty, and read again every minute. All
// replicas should have the same hosts, the names of their Service.
//
// Certificates are renewed 90 days ahead. When the CA is renewed, clients get both the old and the
// new one, and the new one is not used until a day later: see [Serving.CA] and [Serving.Changes].
//
// It needs to get, create and update the Secret. Nothing is put in the place of values
// that somebody else has made.
func FromSecret(ctx context.Context, secrets secret.Client, namespace, name string, o Options) (*Serving, error) {
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	k := &secretKeeper{
		secret: secret.Keeper{
			Client: secrets, Namespace: namespace, Name: name, Type: corev1.SecretTypeTLS,
			Purpose: "certificate", Rights: "get, create and update Secrets there",
		},
		maker: &maker{hosts: o.Hosts, now: time.Now},
	}
	s := &Serving{log: o.Log, every: lookEvery, load: k.renew}
	return s.start(ctx)
}

// A secretKeeper makes certificates and keeps them in a Secret.
type secretKeeper struct {
	secret secret.Keeper
	maker  *maker
	// known are the last values: a Secret that was deleted is recreated with them.
	known map[string][]byte
}

// renew returns what the Secret holds, after putting something better into it if it has to.
func (k *secretKeeper) renew(ctx context.Context, last *identity) (*identity, error) {
	var values map[string][]byte
	err := k.secret.Update(ctx, func(found *corev1.Secret) (written map[string][]byte, err error) {
		written = map[string][]byte{}
		held := k.known
		if found != nil {
			held = found.Data
			maps.Copy(written, held)
		}
		r := &rotation{maker: k.maker}
		if values, err = r.next(held, last == nil); err != nil || found != nil && !r.changed {
			return nil, err
		}
		maps.Copy(written, values)
		return written, nil
	})
	if err != nil {
		return nil, err
	}
	k.known = values
	if last != nil && bytes.Equal(values[tlsCert], last.certPEM) && bytes.Equal(values[tlsKey], last.keyPEM) && bytes.Equal(values[caCert], last.caPEM) {
		return last, nil
	}
	return newIdentity(values[tlsCert], values[tlsKey], values[caCert], tlsCert, tlsKey)
}
