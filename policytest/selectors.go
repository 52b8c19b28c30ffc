package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sigsjson "sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule/authz"
)

// selectorFormat is a list of questions whether the selector of a request demands what a
// policy wants it to.
var selectorFormat = format{
	recognises: func(h head) bool { return h.list && h.has("policy", "request", "want") },
	load: func(document []byte, file string) ([]Test, error) {
		var questions []selectorTest
		if err := decodeStrict(document, &questions); err != nil {
			return nil, err
		}
		tests := make([]Test, len(questions))
		for i, q := range questions {
			tests[i] = Test{Name: q.Name, File: file, faults: q.faults}
		}
		return tests, nil
	},
}

type selectorTest struct {
	Name    string        `json:"name"`
	Policy  requirement   `json:"policy"`
	Request []requirement `json:"request"`
	Want    bool          `json:"want"`
}

// A requirement is one clause of a selector, of a policy or of a request.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func (t *selectorTest) faults(context.Context) []string {
	wanted := authz.Requirement{Key: t.Policy.Key, Operator: t.Policy.Operator}
	for _, value := range t.Policy.Values {
		template, err := authz.ParseTemplate(value)
		if err != nil {
			return []string{"policy: " + err.Error()}
		}
		wanted.Values = append(wanted.Values, template)
	}
	q := authz.QueryOf(&usher.Request{Phase: usher.Authorize}, nil)
	if got := authz.Implied([]authz.Requirement{wanted}, requirements(t.Request), &q); got != t.Want {
		return []string{fmt.Sprintf("expected that the selector implies %q: %t, got %t", wanted, t.Want, got)}
	}
	return nil
}

func requirements(written []requirement) []usher.Requirement {
	var all []usher.Requirement
	for _, r := range written {
		all = append(all, usher.Requirement(r))
	}
	return all
}

// decodeStrict decodes JSON whose fields must all be known.
func decodeStrict(document json.RawMessage, into any) error {
	strict, err := sigsjson.UnmarshalStrict(document, into)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}
