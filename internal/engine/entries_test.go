package engine_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

// patching is a program that reads nothing it says, labels, and changes the spec.
type patching struct{}

func (patching) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	size, _ := in.Object["spec"].(string)
	return rule.Outcome{Patch: usher.Patch{
		{Op: "add", Path: "/metadata/labels", Value: map[string]any{"size": size}},
		{Op: "add", Path: "/spec", Value: "changed"},
	}}, nil
}

func (patching) String() string { return "labels by size" }

// TestEntries asks entries that some rules, all of them, or none belong to.
func TestEntries(t *testing.T) {
	t.Parallel()
	rules := []rule.Rule{{
		Policy: usher.PolicyRef{Name: "a"}, Phase: usher.Mutate, Steps: []rule.Step{{Program: patching{}}},
		Match: rule.Match{Selectors: []rule.Selector{{APIVersion: "a/v1", Kind: "A"}}},
	}}
	by := func(some []rule.Rule) usher.Decider {
		return engine.New(index.New(some), nil, engine.Options{})
	}
	d := engine.NewEntries(rules, rule.Cover(rules).Entries(), by(rules), by)
	object := func(spec, label string) *usher.Object {
		return usher.TreeObject(map[string]any{
			"apiVersion": "a/v1", "kind": "A", "spec": spec, "metadata": map[string]any{"name": "a", "labels": map[string]any{"size": label}},
		})
	}
	relabel := usher.PatchOp{Op: "add", Path: "/metadata/labels", Value: map[string]any{"size": "written"}}
	stored := usher.PatchOp{Op: "add", Path: "/metadata/labels", Value: map[string]any{"size": "stored"}}
	respec := usher.PatchOp{Op: "add", Path: "/spec", Value: "changed"}
	tests := []struct {
		reason, entry string
		want          usher.Patch
	}{
		{"no entry in particular", "", usher.Patch{relabel, respec}},
		{"the one for objects as they were written", "mutate", usher.Patch{relabel, respec}},
		{"no name of an entry: better too many rules than too few", "whatever", usher.Patch{relabel, respec}},
		{"objects that were converted for the rule", "mutate-v1", usher.Patch{relabel, respec}},
		{"objects that were converted for other rules", "mutate-v2", nil},
		{"beside the status the stored spec counts, and only metadata is changed", "mutate-metadata", usher.Patch{stored}},
	}
	for _, test := range tests {
		r := &usher.Request{
			Phase: usher.Mutate, Operation: usher.Update, Entry: test.entry, Object: object("written", "mine"), OldObject: object("stored", "stored"),
		}
		got, err := d.Decide(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		if diff := cmp.Diff(test.want, got.Patch); diff != "" || got.Verdict != usher.Allow {
			t.Errorf("%s: %s, -want +got:\n%s", test.reason, got.Verdict, diff)
		}
	}
	if got := len(d.Rules("mutate-v2")); got != 0 {
		t.Errorf("%d rules belong to an entry that no rule names", got)
	}
	for name, want := range map[string]bool{"": true, "mutate": true, "mutate-policies": true, "mutate-v1": true, "mutate-v2": false, "x": false} {
		if got := d.Known(name); got != want {
			t.Errorf("entry %q is known: %t", name, got)
		}
	}
}
