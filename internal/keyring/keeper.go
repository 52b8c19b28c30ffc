package keyring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// The keys of the Secret's data.
const (
	currentKey  = "current"
	previousKey = "previous"
	replacedKey = "replaced"
	noteKey     = "note"
)

const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "usher"
	// requestTimeout is how long an API server may take for one attempt.
	requestTimeout = 15 * time.Second
)

// Secrets reads and writes the Secrets of one namespace, like a client of client-go.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// Options name the Secret.
type Options struct {
	Namespace, Name string
	// Purpose names the use of the keys in logs and errors, such as webhook paths.
	Purpose string
	// First returns the note of the first key, when there is none in the Secret and none
	// is known; nil means an empty note.
	First func(ctx context.Context) (string, error)
	// Log is slog.Default if nil.
	Log *slog.Logger
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

// Load returns the keys in the Secret. If it does not exist, or has no key, a new key is created;
// the key known before becomes the previous one.
func (k *Keeper) Load(ctx context.Context) (Keys, error) {
	return k.update(ctx, func(keys Keys) (Keys, error) { return keys, nil })
}

// Rotate replaces the current key if due reports true for it, and returns the keys in the Secret.
func (k *Keeper) Rotate(ctx context.Context, due func(Keys) bool) (Keys, error) {
	return k.update(ctx, func(keys Keys) (Keys, error) {
		if !due(keys) {
			return keys, nil
		}
		return keys.replaced()
	})
}

// SetNote replaces the note with the result of next, and returns the keys in the Secret.
func (k *Keeper) SetNote(ctx context.Context, next func(Keys) (string, error)) (Keys, error) {
	return k.update(ctx, func(keys Keys) (Keys, error) {
		var err error
		keys.Note, err = next(keys)
		return keys, err
	})
}

// update retries after conflicts with other replicas.
func (k *Keeper) update(ctx context.Context, change func(Keys) (Keys, error)) (Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys Keys
	err := retry.OnError(retry.DefaultBackoff, isRace, func() (err error) {
		keys, err = k.attempt(ctx, change)
		return err
	})
	if err != nil {
		hint := ""
		switch {
		case apierrors.IsForbidden(err):
			hint = "; let Usher's service account create Secrets there, and get and update this one"
		case apierrors.IsNotFound(err):
			hint = "; the namespace has to exist: kubectl create namespace " + k.options.Namespace
		}
		return Keys{}, fmt.Errorf("keep keys of %s in Secret %s/%s: %w%s", k.options.Purpose, k.options.Namespace, k.options.Name, err, hint)
	}
	k.known = keys
	return keys, nil
}

func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// attempt reads the Secret once and writes it at most once. The API server detects conflicts by its
// resource version.
func (k *Keeper) attempt(ctx context.Context, change func(Keys) (Keys, error)) (Keys, error) {
	secret, err := k.secrets.Get(ctx, k.options.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return k.create(ctx)
	}
	if err != nil {
		return Keys{}, err
	}
	found, err := read(secret)
	if err != nil {
		return Keys{}, err
	}
	var next Keys
	if found.Current.IsZero() {
		next, err = k.first(ctx)
	} else {
		next, err = change(found)
	}
	if err != nil || next == found {
		return next, err
	}
	secret = secret.DeepCopy()
	secret.Data = next.values()
	if _, err := k.secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return Keys{}, err
	}
	if next.Current != found.Current {
		k.options.Log.Info("replaced the key for "+k.options.Purpose, "secret", k.options.Name, "key", next.Current.Fingerprint())
	}
	return next, nil
}

// create makes the Secret.
func (k *Keeper) create(ctx context.Context) (Keys, error) {
	next, err := k.first(ctx)
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
	k.options.Log.Info("made a key for "+k.options.Purpose, "secret", k.options.Name, "key", next.Current.Fingerprint())
	return next, nil
}

// first returns keys for a Secret without any: the previous key is the one known before, if any.
func (k *Keeper) first(ctx context.Context) (Keys, error) {
	last := k.known
	if last.Current.IsZero() && k.options.First != nil {
		var err error
		if last.Note, err = k.options.First(ctx); err != nil {
			return Keys{}, err
		}
	}
	return last.replaced()
}

var errForeign = errors.New("it holds something else: name another Secret")

// read returns the keys of a Secret. The current key is zero if the Secret is empty, or belongs to
// Usher and has no usable key: its content can be replaced.
func read(secret *corev1.Secret) (Keys, error) {
	current, err := KeyOf(secret.Data[currentKey])
	if err != nil {
		if len(secret.Data) > 0 && secret.Labels[managedBy] != manager {
			return Keys{}, errForeign
		}
		return Keys{}, nil
	}
	keys := Keys{Current: current, Note: string(secret.Data[noteKey])}
	keys.Previous, _ = KeyOf(secret.Data[previousKey])
	// Without a time, the previous key counts as replaced long ago.
	keys.Replaced, _ = time.Parse(time.RFC3339, string(secret.Data[replacedKey]))
	return keys, nil
}

func (k Keys) values() map[string][]byte {
	values := map[string][]byte{currentKey: []byte(k.Current.bytes), replacedKey: []byte(k.Replaced.Format(time.RFC3339))}
	if !k.Previous.IsZero() {
		values[previousKey] = []byte(k.Previous.bytes)
	}
	if k.Note != "" {
		values[noteKey] = []byte(k.Note)
	}
	return values
}
