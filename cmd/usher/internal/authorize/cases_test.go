package authorize_test

import (
	"slices"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/authorize"
	"github.com/usher-dev/usher/internal/door/doortest"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// TestAccessThroughCanI asks usher authz can-i about every case of authorization policies.
func TestAccessThroughCanI(t *testing.T) {
	t.Parallel()
	tests, err := policytest.Tests("../../../../internal/policytest/testdata/authz")
	if err != nil {
		t.Fatal(err)
	}
	options := doortest.AccessOptions{
		// What the stages said does not make one reason.
		Apart: true,
		Unsent: func(r *usher.Request) string {
			switch {
			case slices.Contains(r.User.Groups, "system:masters"):
				return "an API server allows it before it asks"
			case slices.Contains(r.User.Groups, "system:nodes"):
				return "what a node may do is not simulated"
			case r.Access.NonResource && slices.Contains([]string{"/healthz", "/livez", "/readyz"}, r.Access.Path):
				return "an API server may allow it before it asks"
			}
			return ""
		},
	}
	n := doortest.Access(t, tests, options, func(_ *testing.T, s policytest.AccessSetup, _ usher.Decider) doortest.AccessDoor {
		rbac, _ := authz.NewRBAC(authz.Objects{})
		return canI{&authorize.World{Engine: s.Engine, RBAC: rbac}}
	})
	if n < 60 {
		t.Errorf("%d tests were sent, fewer than 60", n)
	}
}

type canI struct{ world *authorize.World }

func (c canI) Ask(t *testing.T, r *usher.Request) doortest.AccessAnswer {
	t.Helper()
	report, err := c.world.Explain(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	answer := doortest.AccessAnswer{Reason: report.Reason}
	switch report.Verdict {
	case "allow":
		answer.Verdict = usher.Allow
	case "deny":
		answer.Verdict = usher.Deny
	}
	return answer
}
