package withhold_test

import (
	"errors"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/withhold"
)

// TestErrors: values do not show, and what an error says besides does. Each error has the value hunter2.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, text, want string }{
		{"no quotes", "no such key: owner", "no such key: owner"},
		{"a value", `conflicting values "hunter2" and int`, "conflicting values (…) and int"},
		{"an expression", "expression 'object.spec.owner == 1' resulted in error: no such key: owner", "expression (…) resulted in error: no such key: owner"},
		{
			"an expression with quotes", "expression 'object.spec.owner.startsWith('team-')' resulted in error: no such key: owner",
			"expression (…) resulted in error: no such key: owner",
		},
		{
			"one with other quotes, and a value", "expression 'object.spec.owner == \"it's\"' resulted in error: bad \"hunter2\" and 'hunter2'",
			"expression (…) resulted in error: bad (…) and (…)",
		},
		{
			"a value that looks like the end of an expression", `expression 'a' resulted in error: bad "' resulted in error: hunter2"`,
			"expression (…) resulted in error: (…)",
		},
		{
			"an object that does not exist", `data.owner: Widget "hunter2" does not exist (in expression 'data.owner.spec.startsWith('team-')')`,
			"data.owner: Widget (…) does not exist (in expression (…))",
		},
		{
			"a name that looks like it", `data.owner: Widget "hunter2 (in expression 'hunter2" does not exist (in expression 'a')`,
			"data.owner: Widget (…)(in expression (…))",
		},
	} {
		if got := withhold.Error(&usher.Request{}, errors.New(test.text), false); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.reason, got, test.want)
		}
	}
}
