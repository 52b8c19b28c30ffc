package paths

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values of a Secret.
const (
	currentKey  = "current"
	previousKey = "previous"
	replacedKey = "replaced"
)

const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "usher"
	// requestTimeout is how long an API server may take for one attempt.
	requestTimeout = 15 * time.Second
	// races is how often in a row another replica may be faster.
	races = 4
)

// Secrets are those of one namespace. The clients of client-go are such.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// Options name the Secret. Log is slog.Default if nil.
type Options struct {
	Namespace, Name string
	Log             *slog.Logger
}

// A Keeper keeps keys in a Secret, together with other replicas. It is safe for concurrent
// use.
type Keeper struct {
	secrets Secrets
	options Options

	mu sync.Mutex
	// known are the keys that were last in the Secret.
	known Keys
}

// NewKeeper returns a Keeper that has read nothing yet. It needs to get, create and update
// the Secret.
func NewKeeper(secrets Secrets, o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Keeper{secrets: secrets, options: o}
}

// Load returns the keys in the Secret. One that does not exist, or holds no key, gets a new
// one; the key that was known before is the previous one then.
func (k *Keeper) Load(ctx context.Context) (Keys, error) {
	return k.update(ctx, func(Keys) bool { return false })
}

// Rotate replaces the current key if it is one that is due, and returns the keys in the
// Secret.
func (k *Keeper) Rotate(ctx context.Context, due func(Keys) bool) (Keys, error) {
	return k.update(ctx, due)
}

// update makes attempts until none meets another replica that writes at the same time.
func (k *Keeper) update(ctx context.Context, due func(Keys) bool) (Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	keys, err := k.attempt(ctx, due)
	for race, pause := 1, 10*time.Millisecond; isRace(err) && race < races; race, pause = race+1, 5*pause {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		keys, err = k.attempt(ctx, due)
	}
	if err != nil {
		hint := ""
		if apierrors.IsForbidden(err) {
			hint = "; let Usher's service account create Secrets there, and get and update this one"
		}
		return Keys{}, fmt.Errorf("keep webhook paths in Secret %s/%s: %w%s", k.options.Namespace, k.options.Name, err, hint)
	}
	k.known = keys
	return keys, nil
}

func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// attempt reads the Secret once and writes it at most once. That a Secret has not changed
// meanwhile is checked by the API server, by its resource version.
func (k *Keeper) attempt(ctx context.Context, due func(Keys) bool) (Keys, error) {
	secret, err := k.secrets.Get(ctx, k.options.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		next, err := replacing(k.known.Current)
		if err != nil {
			return Keys{}, err
		}
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: k.options.Name, Namespace: k.options.Namespace, Labels: map[string]string{managedBy: manager}},
			Type:       corev1.SecretTypeOpaque,
			Data:       next.values(),
		}
		if _, err := k.secrets.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return Keys{}, err
		}
		k.options.Log.Info("made a key for webhook paths", "secret", k.options.Name, "key", next.Current.Fingerprint())
		return next, nil
	}
	if err != nil {
		return Keys{}, err
	}
	found, err := read(secret)
	if err != nil {
		return Keys{}, err
	}
	if !found.Current.IsZero() && !due(found) {
		return found, nil
	}
	last := found.Current
	if last.IsZero() {
		last = k.known.Current
	}
	next, err := replacing(last)
	if err != nil {
		return Keys{}, err
	}
	secret = secret.DeepCopy()
	secret.Data = next.values()
	if _, err := k.secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return Keys{}, err
	}
	k.options.Log.Info("replaced the key for webhook paths", "secret", k.options.Name, "key", next.Current.Fingerprint())
	return next, nil
}

var errForeign = errors.New("it holds something else: name another Secret")

// read returns the keys of a Secret. The current one is zero if the Secret is Usher's, or
// empty, and has none that can be used: nobody else needs what was in it.
func read(secret *corev1.Secret) (Keys, error) {
	current, err := KeyOf(secret.Data[currentKey])
	if err != nil {
		if len(secret.Data) > 0 && secret.Labels[managedBy] != manager {
			return Keys{}, errForeign
		}
		return Keys{}, nil
	}
	keys := Keys{Current: current}
	keys.Previous, _ = KeyOf(secret.Data[previousKey])
	// Without a time the previous key has been replaced long ago.
	keys.Replaced, _ = time.Parse(time.RFC3339, string(secret.Data[replacedKey]))
	return keys, nil
}

// replacing makes keys that follow one that was current, which may be zero.
func replacing(last Key) (Keys, error) {
	bytes := make([]byte, KeySize)
	if _, err := rand.Read(bytes); err != nil {
		return Keys{}, fmt.Errorf("make key: %w", err)
	}
	return Keys{Current: Key{string(bytes)}, Previous: last, Replaced: time.Now().UTC().Truncate(time.Second)}, nil
}

func (k Keys) values() map[string][]byte {
	values := map[string][]byte{currentKey: []byte(k.Current.bytes), replacedKey: []byte(k.Replaced.Format(time.RFC3339))}
	if !k.Previous.IsZero() {
		values[previousKey] = []byte(k.Previous.bytes)
	}
	return values
}
