package authz_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// rbacCases are of a list of sets of RBAC objects, each with questions to the authorizer that
// they make.
func rbacCases(d policytest.Document) ([]caseTest, error) {
	var sets []struct {
		Set     string           `json:"set"`
		Objects []map[string]any `json:"objects"`
		Cases   []rbacTest       `json:"cases"`
	}
	if err := d.Decode(&sets); err != nil {
		return nil, err
	}
	var tests []caseTest
	for _, set := range sets {
		objects, err := authz.FromTrees(set.Objects)
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", set.Set, err)
		}
		rbac, _ := authz.NewRBAC(objects)
		for _, c := range set.Cases {
			tests = append(tests, caseTest{c.Name, func(ctx context.Context) []string { return c.faults(ctx, rbac) }})
		}
	}
	return tests, nil
}

type rbacTest struct {
	policytest.AccessRequest

	Name string `json:"name"`
	// Want is Allow or NoOpinion: RBAC never denies. Reason is a part of the reason.
	Want   string `json:"want"`
	Reason string `json:"reason,omitempty"`
}

func (t *rbacTest) faults(ctx context.Context, rbac *authz.RBAC) (faults []string) {
	got := rbac.Authorize(ctx, t.Request())
	if verdictName(got.Verdict) != t.Want {
		faults = append(faults, fmt.Sprintf("expected %s, got %s %s", t.Want, verdictName(got.Verdict), got.Reason))
	}
	if !strings.Contains(got.Reason, t.Reason) {
		faults = append(faults, fmt.Sprintf("expected a reason with %q in it, got %q", t.Reason, got.Reason))
	}
	return faults
}
