package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
)

// more makes a label longer each time.
func more(key string) program {
	return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		labels, _ := in.Object["metadata"].(map[string]any)["labels"].(map[string]any)
		was, _ := labels[key].(string)
		return label(key, was+"x")(context.Background(), in)
	}
}

// unless skips an object that has a label.
func unless(key string, then program) program {
	return func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
		labels, _ := in.Object["metadata"].(map[string]any)["labels"].(map[string]any)
		if _, ok := labels[key]; ok {
			return rule.Outcome{Skipped: "it has " + key}, nil
		}
		return then(ctx, in)
	}
}

func reinvoked(r rule.Rule) rule.Rule {
	r.Reinvoked = true
	return r
}

func TestReinvoked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason   string
		rules    []rule.Rule
		want     string
		findings []string
	}{
		{
			reason: "rules run again after their pass has changed the object, others do not",
			rules:  []rule.Rule{reinvoked(one("a", more("a"))), one("b", more("b"))},
			want:   "a=xx b=x", findings: []string{"a changed", "b changed", "a changed"},
		},
		{
			reason: "what does not change the second time says nothing more",
			rules:  []rule.Rule{reinvoked(one("a", label("a", "x"))), reinvoked(one("b", unless("b", label("b", "x"))))},
			want:   "a=x b=x", findings: []string{"a changed", "b changed"},
		},
		{
			reason: "without a change there is no second time",
			rules:  []rule.Rule{reinvoked(one("a", warn("once")))},
			want:   "", findings: []string{"a passed"},
		},
		{
			reason: "a rule that was skipped is not run after later changes",
			rules:  []rule.Rule{one("a", label("a", "x")), reinvoked(inPass(1, one("b", unless("a", more("b"))))), reinvoked(inPass(1, one("c", more("c"))))},
			want:   "a=x c=xx", findings: []string{"a changed", "b skipped it has a", "c changed", "c changed"},
		},
		{
			reason: "changes of passes before are no reason",
			rules:  []rule.Rule{one("a", label("a", "x")), inPass(1, reinvoked(one("b", label("a", "x"))))},
			want:   "a=x", findings: []string{"a changed", "b passed"},
		},
		{
			reason: "a rejection the second time counts",
			rules: []rule.Rule{reinvoked(one("a", func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
				out, err := unless("b", pass())(ctx, in)
				if out.Skipped != "" {
					return rule.Outcome{Verdict: usher.Deny, Message: out.Skipped}, nil
				}
				return out, err
			})), one("b", label("b", "x"))},
			want: "denied: it has b", findings: []string{"a passed", "b changed", "a rejected it has b"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			r := request(usher.Mutate, usher.Create)
			d := decide(t, newEngine(usher.Mutate, engine.Options{}, nil, test.rules...), r)
			if got := labelled(t, r, d); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			equalFindings(t, test.findings, d.Findings)
			if by := d.Audit["changed-by"]; strings.Count(by, "P a ") > 1 {
				t.Errorf("the audit log has a rule twice: %s", by)
			}
		})
	}
}

// TestMatchedIsTheObjectBefore: rules that name resources are told the object on which their pass
// was matched, however it has changed.
func TestMatchedIsTheObjectBefore(t *testing.T) {
	t.Parallel()
	resources := func(r rule.Rule) rule.Rule {
		r.Match = rule.Match{Resources: []rule.ResourceMatch{{}}}
		return r
	}
	count := program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
		before, _ := in.Matched["metadata"].(map[string]any)["labels"].(map[string]any)
		now, _ := in.Object["metadata"].(map[string]any)["labels"].(map[string]any)
		return label("seen", string(rune('0'+len(before)))+"/"+string(rune('0'+len(now))))(ctx, in)
	})
	r := request(usher.Mutate, usher.Create)
	d := decide(t, newEngine(usher.Mutate, engine.Options{}, nil,
		one("a", label("a", "x")), resources(inPass(1, one("b", label("b", "x")))), resources(inPass(1, one("c", count)))), r)
	if got, want := labelled(t, r, d), "a=x b=x seen=1/2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// labelled are the labels of the object of a request after a decision.
func labelled(t *testing.T, r *usher.Request, d usher.Decision) string {
	t.Helper()
	if d.Verdict == usher.Deny {
		return "denied: " + d.Message
	}
	tree, _, err := jsonpatch.Apply(tree(t, r.Object), d.Patch)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := tree["metadata"].(map[string]any)["labels"].(map[string]any)
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, fmt.Sprintf("%s=%v", key, all[key]))
	}
	return strings.Join(texts, " ")
}
