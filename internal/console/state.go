package console

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A State is what is tried: policies and a request. All texts are YAML or JSON, and may be empty.
type State struct {
	Policies  string `json:"policies,omitempty"`
	Object    string `json:"object,omitempty"`
	OldObject string `json:"oldObject,omitempty"`
	// Facts are objects that exist, which policies may read: params, owners, Namespaces, roles.
	Facts string `json:"facts,omitempty"`
	User  User   `json:"user,omitzero"`
	// Operation is CREATE without any, or UPDATE if there is an old object.
	Operation   string `json:"operation,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	DryRun      bool   `json:"dryRun,omitempty"`
	// Authorization is the spec of a SubjectAccessReview. If it is set, there is no object.
	Authorization string `json:"authorization,omitempty"`
}

// A User makes a request.
type User struct {
	Name   string              `json:"name,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// shared is how texts of states begin: the version of their form.
const shared = "usher1:"

// Share returns a state as a text of letters, digits, - and _, which [Parse] reads.
func Share(s *State) (string, error) {
	encoded, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode state: %w", err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		return "", fmt.Errorf("encode state: %w", err)
	}
	if _, err = w.Write(encoded); err == nil {
		err = w.Close()
	}
	if err != nil {
		return "", fmt.Errorf("encode state: %w", err)
	}
	return shared + base64.RawURLEncoding.EncodeToString(packed.Bytes()), nil
}

// errNoState is the error of texts that are no states.
var errNoState = errors.New("not a state: expected a text that begins with " + shared + ", as the page shares it, or a file with one")

// Parse returns the state of a text. The text may have spaces and line breaks in it, as mails do.
func Parse(text string) (*State, error) {
	text = strings.Join(strings.Fields(text), "")
	packed, ok := strings.CutPrefix(text, shared)
	if !ok {
		return nil, errNoState
	}
	bits, err := base64.RawURLEncoding.DecodeString(packed)
	if err != nil {
		return nil, errNoState
	}
	encoded, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(bits)), maxBody+1))
	switch {
	case err != nil:
		return nil, errors.New("the state is not complete: copy all of it")
	case len(encoded) > maxBody:
		return nil, fmt.Errorf("the state has more than %d bytes", maxBody)
	}
	s := &State{}
	if err := json.Unmarshal(encoded, s); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	return s, nil
}
