package jsonscan

import (
	"bytes"
	"strings"
)

// A fieldError is an error in a field that is valid JSON.
type fieldError struct {
	path string
	what string
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return "body " + e.what
	}
	return e.path + " " + e.what
}

// within adds to a field's path the key that it was found under.
func within(key []byte, err error) error {
	if e, ok := err.(*fieldError); ok {
		name := Clip(string(key))
		if e.path != "" {
			name += "." + e.path
		}
		return &fieldError{path: name, what: e.what}
	}
	return err
}

// A keySet is the keys of an object so far.
type keySet struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

// add reports whether key is new.
func (k *keySet) add(key []byte) bool {
	if k.n == len(k.few) {
		k.many = make(map[string]struct{}, 2*len(k.few))
		for _, earlier := range k.few {
			k.many[string(earlier)] = struct{}{}
		}
	}
	if k.n++; k.many != nil {
		_, twice := k.many[string(key)]
		k.many[string(key)] = struct{}{}
		return !twice
	}
	for _, earlier := range k.few[:k.n-1] {
		if bytes.Equal(earlier, key) {
			return false
		}
	}
	k.few[k.n-1] = key
	return true
}

// Clip shortens text that is quoted to a caller.
func Clip(text string) string {
	const enough = 64
	if len(text) > enough {
		return strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return text
}
