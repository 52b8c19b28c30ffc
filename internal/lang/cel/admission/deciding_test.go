package admission_test

import (
	"slices"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestLazyMessages has eighty messages, each within the budget of an expression, and
// all of them beyond that of a policy.
func TestLazyMessages(t *testing.T) {
	t.Parallel()
	const (
		elements = 30
		costly   = "'all ' + string(object.list.map(a, object.list.map(b, object.list.filter(c, c == a).size())).size())"
	)
	validations := make([]admission.Validation, 80)
	for i := range validations {
		validations[i] = admission.Validation{Expression: "object.list.all(x, x == 'a')", Message: "written", MessageExpression: costly}
	}
	validations[0].Expression = "object.first == true"
	for _, row := range []struct {
		reason  string
		item    string
		isFirst bool
		lazy    bool
		// first and last are the beginnings of what the first and the last validation say that denies.
		first, last string
		denials     int
	}{
		{"API servers evaluate messages of validations that hold, and fail", "a", true, false, "failed messageExpression: ", "failed messageExpression: ", 80},
		{"lazy messages of validations that hold cost nothing", "a", true, true, "", "", 0},
		{"the message of the only one that does not hold is told", "a", false, true, "all 30", "all 30", 1},
		{"messages beyond the budget are those that are written", "b", false, true, "all 30", "written", 80},
	} {
		p, problems := admission.Compile(admission.Code{Validations: validations, LazyMessages: row.lazy})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		in := &admission.Input{
			Request: &usher.Request{Phase: usher.Validate, Operation: usher.Create}, Facts: &fact.Known{},
			Object: map[string]any{"list": slices.Repeat([]any{row.item}, elements), "first": row.isFirst},
		}
		result, err := p.Evaluate(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got := result.Denials
		if len(got) != row.denials {
			t.Fatalf("%s: %d denials, expected %d: %v", row.reason, len(got), row.denials, got)
		}
		if len(got) > 0 && (!strings.HasPrefix(got[0].Message, row.first) || !strings.HasPrefix(got[len(got)-1].Message, row.last)) {
			t.Errorf("%s: the first says %q and the last %q", row.reason, got[0].Message, got[len(got)-1].Message)
		}
	}
}

// TestVariablesInOtherPlaces has validations read a variable that exceeds the budget of an expression, in
// each way in which they can.
func TestVariablesInOtherPlaces(t *testing.T) {
	t.Parallel()
	const costly = "object.list.map(a, object.list.map(b, object.list.filter(c, c == a).size())).size()"
	for _, read := range []string{
		"variables.x", "variables.?x.orValue(0)", "dyn(variables).x", "dyn(variables).?x.orValue(0)", "[variables].map(v, v.x)[0]",
		"{'a': variables}.a.x", "(object.first ? variables : variables).x", "(has(variables.x) ? 1 : 2)",
	} {
		p := compiled(t, admission.Code{
			Variables: []admission.Named{{Name: "x", Expression: costly}}, LazyMessages: true,
			Validations: []admission.Validation{{Expression: read + " > 0"}},
		})
		in := &admission.Input{
			Request: &usher.Request{Phase: usher.Validate, Operation: usher.Create}, Facts: &fact.Known{},
			Object: map[string]any{"list": slices.Repeat([]any{"a"}, 200), "first": true},
		}
		result, err := p.Evaluate(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Denials) != 1 || !strings.Contains(result.Denials[0].Message, "cost limit exceeded") {
			t.Errorf("%s: %+v", read, result)
		}
	}
}
