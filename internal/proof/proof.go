// Package proof makes and checks proofs that the writer of a policy had the right to write it. A
// proof is a MAC over the spec and the name of the policy, by a key that only replicas of Usher
// have. It is stored in an annotation of the policy.
//
// A valid proof means: a replica checked that a user had the right to write exactly this policy,
// under this name. It does not say when: if a proven policy changes, and someone restores the old
// text without Usher, the old proof is valid again. Usher checks the rights for every write that it
// sees, regardless of the proof in it.
package proof

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/keyring"
)

const (
	// DefaultSecret is the Secret that keeps the keys of policy proofs.
	DefaultSecret = "usher-proofs"
	// Annotation holds the proof of a policy.
	Annotation = "usher.dev/proof"
	// Adopt is the value of the annotation, or the prefix of a new value, that requests a proof of
	// a policy without a change of its spec.
	Adopt = "adopt"

	// version is the first part of a proof, and of the message that it authenticates.
	version = "v1"
)

// Make returns the proof of a policy by a key. The policy must have its name and namespace.
func Make(key keyring.Key, object api.Object) (string, error) {
	mac, err := sum(key, object)
	if err != nil {
		return "", err
	}
	return strings.Join([]string{version, key.Fingerprint(), base64.RawURLEncoding.EncodeToString(mac)}, "."), nil
}

func sum(key keyring.Key, object api.Object) ([]byte, error) {
	kind, ok := api.KindOf(object)
	if !ok {
		return nil, errNoPolicy
	}
	if object.GetName() == "" || kind.Namespaced != (object.GetNamespace() != "") {
		return nil, errors.New("make proof: the policy has no name or no namespace")
	}
	spec, err := Canonical(object)
	if err != nil {
		return nil, err
	}
	// The version of the API is left out: conversion changes only it.
	var message bytes.Buffer
	for _, part := range []string{"usher.dev/proof " + version, kind.Group, kind.Kind, object.GetNamespace(), object.GetName(), string(spec)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		message.Write(size[:])
		message.WriteString(part)
	}
	return key.MAC(message.Bytes()), nil
}

// parse splits a proof into its parts.
func parse(text string) (fingerprint string, mac []byte, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] != version {
		return "", nil, false
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	return parts[1], mac, err == nil
}

// Is reports whether an annotation holds a proof, valid or not.
func Is(text string) bool { return KeyOf(text) != "" }

// KeyOf returns the fingerprint of the key of a proof; empty if text is not a proof.
func KeyOf(text string) string {
	fingerprint, _, _ := parse(text)
	return fingerprint
}

// check returns why a policy is not proven by one of the keys; empty if it is proven. Known reports
// whether one of the keys made the proof.
func check(keys []keyring.Key, object api.Object) (why string, known bool) {
	text := object.GetAnnotations()[Annotation]
	if text == "" {
		return "it has no proof: it was written when Usher was not asked", true
	}
	fingerprint, mac, ok := parse(text)
	if !ok {
		return "what its annotation " + Annotation + " holds is no proof", true
	}
	for _, key := range keys {
		if key.Fingerprint() != fingerprint {
			continue
		}
		want, err := sum(key, object)
		switch {
		case err != nil:
			return "its proof cannot be checked: " + err.Error(), true
		case !hmac.Equal(want, mac):
			return "its proof is for something else: another spec, name or namespace", true
		}
		return "", true
	}
	return fmt.Sprintf("its proof is by a key that is not known here (%.16q): the policy comes from another cluster or a backup, or the key was lost", fingerprint), false
}

// Same reports whether two policies say the same.
func Same(a, b api.Object) bool {
	first, err := Canonical(a)
	if err != nil {
		return false
	}
	second, err := Canonical(b)
	return err == nil && bytes.Equal(first, second)
}
