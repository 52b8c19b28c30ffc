package authz_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// chainCases are of a list of chains of authorizers, each with what it amounts to.
func chainCases(d policytest.Document) ([]caseTest, error) {
	var chains []chainTest
	if err := d.Decode(&chains); err != nil {
		return nil, err
	}
	tests := make([]caseTest, len(chains))
	for i, c := range chains {
		tests[i] = caseTest{c.Name, c.faults}
	}
	return tests, nil
}

type chainTest struct {
	Name string `json:"name"`
	// Chain is what each authorizer says: Allow, Deny or NoOpinion, with +err and an error.
	Chain []string `json:"chain"`
	Want  string   `json:"want"`
	// HTTP is the status that the user gets; 0 does not matter.
	HTTP int `json:"http,omitempty"`
}

func (t *chainTest) faults(ctx context.Context) (faults []string) {
	var chain authz.Chain
	for i, said := range t.Chain {
		answer, err := answerSpelled(said)
		if err != nil {
			return []string{fmt.Sprintf("chain[%d]: %v", i, err)}
		}
		chain = append(chain, authz.Stage{Name: said, Authorizer: authz.Always(answer)})
	}
	got := chain.Authorize(ctx, &usher.Request{Phase: usher.Authorize})
	if verdictName(got.Verdict) != t.Want {
		faults = append(faults, fmt.Sprintf("expected %s, got %s", t.Want, verdictName(got.Verdict)))
	}
	if t.HTTP != 0 && got.Status() != t.HTTP {
		faults = append(faults, fmt.Sprintf("expected the HTTP status %d, got %d", t.HTTP, got.Status()))
	}
	return faults
}

var errAuthorizer = errors.New("the authorizer failed")

func answerSpelled(text string) (authz.Answer, error) {
	verdict, failed := strings.CutSuffix(text, "+err")
	var answer authz.Answer
	if failed {
		answer.Err = errAuthorizer
	}
	for _, v := range []usher.Verdict{usher.Allow, usher.Deny, usher.NoOpinion} {
		if verdictName(v) == verdict {
			answer.Verdict = v
			return answer, nil
		}
	}
	return answer, fmt.Errorf("%q is none of Allow, Deny and NoOpinion", verdict)
}

func verdictName(v usher.Verdict) string {
	switch v {
	case usher.Allow:
		return "Allow"
	case usher.Deny:
		return "Deny"
	case usher.NoOpinion:
	}
	return "NoOpinion"
}
