package decisionlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A list is a list of objects in JSON, and of sentences in text.
type list[T fmt.Stringer] []T

// MarshalText implements [encoding.TextMarshaler], for [log/slog.TextHandler].
func (l list[T]) MarshalText() ([]byte, error) {
	all := make([]string, 0, len(l))
	for _, one := range l {
		all = append(all, one.String())
	}
	return []byte(strings.Join(all, "; ")), nil
}

// MarshalJSON implements [json.Marshaler].
func (l list[T]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode([]T(l))
	return b.Bytes(), err
}

// inWords says what a part of a policy said.
func inWords(policy, place, validation, field, message string) string {
	text := strings.TrimSpace(policy + " " + place)
	if validation != "" {
		text += " (" + validation + ")"
	}
	if field != "" {
		text += ", field " + field
	}
	return strings.TrimPrefix(text+": "+message, ": ")
}
