package engine_test

import (
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

// TestWhatRulesSayIsBounded has rules say more than anybody reads.
func TestWhatRulesSayIsBounded(t *testing.T) {
	t.Parallel()
	const many = 3000
	var rules []rule.Rule
	for i := range many {
		value := strings.Repeat(fmt.Sprintf("%05d", i), 10)
		rules = append(rules, one(fmt.Sprintf("p%05d", i), say(rule.Outcome{
			Warnings: []string{value, "common"},
			Audit:    []rule.Annotation{{Key: "joined", Value: value, Joined: true}, {Key: "first", Value: value}, {Key: "same", Value: "same", Joined: true}},
		})))
	}
	d := decide(t, newEngine(usher.Validate, engine.Options{}, nil, rules...), request(usher.Validate, usher.Create))
	if len(d.Warnings) != 1000 || d.Warnings[1] != "common" {
		t.Errorf("%d warnings, of which the second is %q", len(d.Warnings), d.Warnings[1])
	}
	first := strings.Repeat("00000", 10)
	if joined := d.Audit["joined"]; len(joined) > 16<<10 || len(joined) < 15<<10 || !strings.HasPrefix(joined, first+", "+strings.Repeat("00001", 10)) {
		t.Errorf("%d bytes of joined values: %.200s", len(joined), joined)
	}
	if d.Audit["first"] != first || d.Audit["same"] != "same" {
		t.Errorf("annotations %q and %q", d.Audit["first"], d.Audit["same"])
	}
	if len(d.Findings) != many {
		t.Errorf("%d findings of %d rules", len(d.Findings), many)
	}
}
