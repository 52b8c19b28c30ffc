package keyring

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/usher-dev/usher/internal/secret"
)

// The keys of the Secret's data.
const (
	currentKey  = "current"
	previousKey = "previous"
	replacedKey = "replaced"
	noteKey     = "note"
)

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
	secret  secret.Keeper
	options Options

	mu sync.Mutex
	// known are the keys that were last in the Secret.
	known Keys
}

// NewKeeper returns a Keeper that has read nothing yet. It needs to get, create and update
// the Secret.
func NewKeeper(secrets secret.Client, o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Keeper{options: o, secret: secret.Keeper{
		Client: secrets, Namespace: o.Namespace, Name: o.Name, Type: corev1.SecretTypeOpaque,
		Purpose: "keys of " + o.Purpose, Rights: "create Secrets there, and get and update this one",
	}}
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

// update changes the keys in the Secret, or makes the first ones.
func (k *Keeper) update(ctx context.Context, change func(Keys) (Keys, error)) (Keys, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var next Keys
	done := ""
	err := k.secret.Update(ctx, func(stored *corev1.Secret) (_ map[string][]byte, err error) {
		var found Keys
		if stored != nil {
			if found, err = read(stored); err != nil {
				return nil, err
			}
		}
		done = ""
		if found.Current.IsZero() {
			next, err = k.first(ctx)
		} else {
			next, err = change(found)
		}
		switch {
		case err != nil || next == found:
			return nil, err
		case stored == nil:
			done = "made a key"
		case next.Current != found.Current:
			done = "replaced the key"
		}
		return next.values(), nil
	})
	if err != nil {
		return Keys{}, err
	}
	if done != "" {
		k.options.Log.Info(done+" for "+k.options.Purpose, "secret", k.options.Name, "key", next.Current.Fingerprint())
	}
	k.known = next
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
func read(stored *corev1.Secret) (Keys, error) {
	current, err := KeyOf(stored.Data[currentKey])
	if err != nil {
		if len(stored.Data) > 0 && stored.Labels[secret.ManagedBy] != secret.Manager {
			return Keys{}, errForeign
		}
		return Keys{}, nil
	}
	keys := Keys{Current: current, Note: string(stored.Data[noteKey])}
	keys.Previous, _ = KeyOf(stored.Data[previousKey])
	// Without a time, the previous key counts as replaced long ago.
	keys.Replaced, _ = time.Parse(time.RFC3339, string(stored.Data[replacedKey]))
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
