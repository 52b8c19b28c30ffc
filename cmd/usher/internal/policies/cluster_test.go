package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
)

// TestNoRightCountsWhatMayRefuse: a warning and a report of one command name the same number of kinds.
func TestNoRightCountsWhatMayRefuse(t *testing.T) {
	t.Parallel()
	var forbidden []policies.Forbidden
	for _, kind := range api.Kinds() {
		if !kind.Candidate {
			forbidden = append(forbidden, policies.Forbidden{Kind: kind})
		}
	}
	said := policies.NoRight(forbidden)
	if want := fmt.Sprintf("you may not list %d kinds of policies, 2 of exemptions, 2 of authorization policies: ", len(policies.MayRefuse(forbidden))); !strings.HasPrefix(said, want) {
		t.Errorf("%s, want %s", said, want)
	}
}
