package policytest_test

import (
	"testing"

	"github.com/usher-dev/usher/policytest"
)

func TestAuthorizationCases(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/authz/policy.yaml", "testdata/authz/selectors.yaml")
}
