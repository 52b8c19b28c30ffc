// Package paths gives the entries of webhook configurations URL paths that nobody can
// guess, derived from keys that replicas share in a Secret. Who knows such a path was told
// by an API server, by the webhook configuration or by the Secret.
//
//	keeper := paths.NewKeeper(secrets, paths.Options{Namespace: "usher-system", Name: "usher-paths"})
//	keys, err := keeper.Load(ctx)
//	path := keys.Current.Path("mutate")
//
// Paths are secrets: see [Redact] for texts that may contain one.
package paths

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"time"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// Grace is how long the paths of a key are answered after it was replaced.
const Grace = time.Hour

// A Key is what paths are derived from. Its zero value is no key.
type Key struct{ bytes string }

var errKeySize = errors.New("a key has 32 bytes")

// KeyOf makes a key of its bytes.
func KeyOf(bytes []byte) (Key, error) {
	if len(bytes) != KeySize {
		return Key{}, errKeySize
	}
	return Key{string(bytes)}, nil
}

// IsZero reports whether k is no key.
func (k Key) IsZero() bool { return k.bytes == "" }

// Path returns the path of an entry: its phase, which is what its name begins with, and 64
// hexadecimal digits.
func (k Key) Path(entry string) string {
	mac := hmac.New(sha256.New, []byte(k.bytes))
	mac.Write([]byte(entry))
	phase, _, _ := strings.Cut(entry, "-")
	return "/" + phase + "/" + hex.EncodeToString(mac.Sum(nil))
}

// Fingerprint names the key without giving it away.
func (k Key) Fingerprint() string {
	sum := sha256.Sum256([]byte("fingerprint of a path key\x00" + k.bytes))
	return hex.EncodeToString(sum[:8])
}

// String implements fmt.Stringer: keys are not printed.
func (k Key) String() string { return "key " + k.Fingerprint() }

// GoString implements fmt.GoStringer.
func (k Key) GoString() string { return k.String() }

// Keys are those in a Secret.
type Keys struct {
	Current Key
	// Previous was current until Replaced; it is zero if there was none.
	Previous Key
	// Replaced is when Current was made.
	Replaced time.Time
}

// Valid returns the keys whose paths are answered, the current one first.
func (k Keys) Valid(now time.Time) []Key {
	if k.Previous.IsZero() || now.Sub(k.Replaced) >= Grace {
		return []Key{k.Current}
	}
	return []Key{k.Current, k.Previous}
}

// secret matches paths, and what could have been one before a version that made them longer
// or shorter.
var secret = regexp.MustCompile(`/(mutate|validate)/[0-9a-fA-F]{16,}`)

// Redact returns text without the secret part of paths.
func Redact(text string) string { return secret.ReplaceAllString(text, "/$1/…") }

// Redacted returns an error whose text has no paths, and that is what err is otherwise.
func Redacted(err error) error {
	if err == nil || !secret.MatchString(err.Error()) {
		return err
	}
	return &redacted{err}
}

type redacted struct{ error }

func (r *redacted) Error() string { return Redact(r.error.Error()) }

func (r *redacted) Unwrap() error { return r.error }
