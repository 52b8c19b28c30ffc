// Package paths computes URL paths for the entries of webhook configurations that nobody can guess,
// from keys that replicas share in a Secret. A caller can know such a path only from an API server,
// the webhook configuration or the Secret.
//
//	path := paths.Of(keys.Current, "mutate")
//
// Paths are secrets: see [Redact] for texts that may contain one.
package paths

import (
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/usher-dev/usher/internal/keyring"
)

// DefaultSecret is the Secret that keeps the keys of webhook paths.
const DefaultSecret = "usher-paths"

// Grace is how long the paths of a key are answered after it was replaced.
const Grace = time.Hour

// Of returns the path of an entry by a key: its phase, which is what its name begins with, and
// 64 hexadecimal digits.
func Of(key keyring.Key, entry string) string {
	phase, _, _ := strings.Cut(entry, "-")
	return "/" + phase + "/" + hex.EncodeToString(key.MAC([]byte(entry)))
}

// Valid returns the keys whose paths are served, the current one first.
func Valid(k keyring.Keys, now time.Time) []keyring.Key {
	if k.Previous.IsZero() || now.Sub(k.Replaced) >= Grace {
		return []keyring.Key{k.Current}
	}
	return []keyring.Key{k.Current, k.Previous}
}

// secret matches paths, and what could have been one before a version that made them longer
// or shorter.
var secret = regexp.MustCompile(`/(mutate|validate)/[0-9a-fA-F]{16,}`)

// Redact returns text without the secret part of paths.
func Redact(text string) string { return secret.ReplaceAllString(text, "/$1/…") }

// Redacted returns err with the paths removed from its text.
func Redacted(err error) error {
	if err == nil || !secret.MatchString(err.Error()) {
		return err
	}
	return &redacted{err}
}

type redacted struct{ error }

func (r *redacted) Error() string { return Redact(r.error.Error()) }

func (r *redacted) Unwrap() error { return r.error }
