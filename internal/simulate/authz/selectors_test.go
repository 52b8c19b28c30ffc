package authz_test

import (
	"context"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// selectorCases are questions whether the selector of a request implies the requirements of a
// policy.
func selectorCases(d policytest.Document) ([]caseTest, error) {
	var questions []selectorTest
	if err := d.Decode(&questions); err != nil {
		return nil, err
	}
	tests := make([]caseTest, len(questions))
	for i, q := range questions {
		tests[i] = caseTest{q.Name, q.faults}
	}
	return tests, nil
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
