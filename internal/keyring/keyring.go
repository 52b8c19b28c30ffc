// Package keyring keeps secret keys that replicas share, in a Secret: a current key, and the
// previous one. It creates the first key, and rotates keys.
//
//	keeper := keyring.NewKeeper(secrets, keyring.Options{Namespace: "usher-system", Name: "usher-paths", Purpose: "webhook paths"})
//	keys, err := keeper.Load(ctx)
//	mac := keys.Current.MAC(message)
//
// Keys are never printed: logs have their fingerprints.
package keyring

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// A Key is secret. The zero value is not a key.
type Key struct{ bytes string }

var errKeySize = errors.New("a key has 32 bytes")

// KeyOf returns the key with these bytes.
func KeyOf(bytes []byte) (Key, error) {
	if len(bytes) != KeySize {
		return Key{}, errKeySize
	}
	return Key{string(bytes)}, nil
}

// newKey returns a random key.
func newKey() (Key, error) {
	bytes := make([]byte, KeySize)
	if _, err := rand.Read(bytes); err != nil {
		return Key{}, fmt.Errorf("make key: %w", err)
	}
	return Key{string(bytes)}, nil
}

// IsZero reports whether k is the zero value.
func (k Key) IsZero() bool { return k.bytes == "" }

// MAC returns the HMAC-SHA256 of a message.
func (k Key) MAC(message []byte) []byte {
	mac := hmac.New(sha256.New, []byte(k.bytes))
	mac.Write(message)
	return mac.Sum(nil)
}

// Fingerprint identifies the key without revealing it. Replicas of all versions must compute the
// same, for every purpose.
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
	// Note is what the owner of the keys stores with them; it stays when keys are replaced.
	Note string
}

// String implements fmt.Stringer, without the note.
func (k Keys) String() string {
	return fmt.Sprintf("%s, made %s", k.Current, k.Replaced.Format(time.RFC3339))
}

// GoString implements fmt.GoStringer.
func (k Keys) GoString() string { return k.String() }

// replaced returns keys with a new current one.
func (k Keys) replaced() (Keys, error) {
	key, err := newKey()
	return Keys{Current: key, Previous: k.Current, Replaced: time.Now().UTC().Truncate(time.Second), Note: k.Note}, err
}
