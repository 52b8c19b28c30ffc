package engine_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

// TestEach gets the findings that a decision has.
func TestEach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		phase  usher.Phase
		rules  []rule.Rule
	}{
		{"outcomes", usher.Validate, []rule.Rule{one("a", pass()), one("b", deny("no")), one("c", fail(errBroken)), one("d", say(rule.Outcome{Skipped: "not for it"}))}},
		{"changes", usher.Mutate, []rule.Rule{one("a", label("x", "1")), one("b", pass()), one("c", label("y", "2"))}},
		{"the end of a run", usher.Mutate, []rule.Rule{one("a", label("x", "1")), one("b", deny("no")), one("c", label("y", "2"))}},
		{"built-in rules", usher.Validate, []rule.Rule{builtIn(one("a", pass())), builtIn(one("b", deny("no")))}},
	} {
		e := newEngine(test.phase, engine.Options{}, nil, test.rules...)
		var each []usher.Finding
		if err := e.Each(t.Context(), request(test.phase, usher.Create), func(f *usher.Finding) { each = append(each, *f) }); err != nil {
			t.Fatal(err)
		}
		d := decide(t, e, request(test.phase, usher.Create))
		if diff := cmp.Diff(d.Findings, each, cmpopts.IgnoreFields(usher.Finding{}, "Took"), cmp.Comparer(sameError)); diff != "" || len(each) == 0 {
			t.Errorf("%s: -decision +each:\n%s", test.reason, diff)
		}
	}
	broken := request(usher.Validate, usher.Create)
	broken.Object = usher.RawObject([]byte("{"))
	e := newEngine(usher.Validate, engine.Options{}, nil, one("a", pass()))
	if err := e.Each(t.Context(), broken, func(*usher.Finding) {}); err == nil {
		t.Error("what is no JSON has no error")
	}
}

func sameError(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
