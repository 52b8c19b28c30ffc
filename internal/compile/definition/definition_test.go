package definition_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile/definition"
	"github.com/usher-dev/usher/internal/compile/definition/definitiontest"
)

// TestCheck: what the cases say of the schema is refused here, too, and nothing else. Whether an API
// server refuses the same is tested in sandbox/e2e.
func TestCheck(t *testing.T) {
	t.Parallel()
	cases, bases, err := definitiontest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range slices.Sorted(maps.Keys(bases)) {
		if refused := check(t, bases[kind]); refused != "" {
			t.Errorf("%s without changes: %s", kind, refused)
		}
	}
	// Decoding makes an empty text of one that is missing: the compilers find these.
	lost := []string{
		"a condition without name", "a condition without expression", "a variable without name", "a variable without expression",
		"an annotation without key", "an annotation without value",
	}
	for _, c := range cases {
		t.Run(c.Reason, func(t *testing.T) {
			t.Parallel()
			refused := check(t, c.Manifest)
			want := c.By == "schema" && !slices.Contains(lost, c.Reason)
			if got := refused != "" && refused != undecodable; got != want {
				t.Errorf("refused by the schema: %t, want %t: %s", got, want, refused)
			}
		})
	}
}

// TestEmptyListsAreSeen: API servers see lists that are written and empty, which encoding/json leaves
// out.
func TestEmptyListsAreSeen(t *testing.T) {
	t.Parallel()
	cases, _, err := definitiontest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cases, func(c definitiontest.Case) bool { return c.Reason == "an empty list of bindings" })
	if diff := cmp.Diff(`spec.bindings: Invalid value: 0: spec.bindings in body should have at least 1 items`, check(t, cases[i].Manifest)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

const undecodable = "it cannot be decoded"

// check returns why a manifest is refused.
func check(t *testing.T, manifest map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		return undecodable
	}
	kind, _ := api.KindOf(policy.Object)
	errs, err := definition.Check(t.Context(), &kind, policy.Object)
	if err != nil {
		t.Fatal(err)
	}
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}
