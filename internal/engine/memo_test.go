package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

// counts is a program that warns how many have had the memo that it gets, and then does something.
func counts(then program) program {
	return func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
		had := rule.Kept[int](in.Memo)
		*had++
		out, err := then(ctx, in)
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d fields", *had, len(in.Object)))
		return out, err
	}
}

// TestMemo has programs share a memo while the objects stay the same.
func TestMemo(t *testing.T) {
	t.Parallel()
	field := func(name string) program { return patch(add("/"+name, "x")) }
	for _, row := range []struct {
		reason string
		phase  usher.Phase
		rules  []rule.Rule
		want   []string
	}{
		{
			"rules that change nothing share it", usher.Validate,
			[]rule.Rule{one("a", counts(pass())), one("b", counts(warn("b"))), one("c", counts(pass()))},
			[]string{"1 of 4 fields", "b", "2 of 4 fields", "3 of 4 fields"},
		},
		{
			"a change of the object begins another", usher.Mutate,
			[]rule.Rule{one("a", counts(pass())), one("b", counts(field("x"))), one("c", counts(pass())), one("d", counts(pass()))},
			[]string{"1 of 4 fields", "2 of 4 fields", "1 of 5 fields", "2 of 5 fields"},
		},
		{
			"so does one by a step before", usher.Mutate,
			[]rule.Rule{one("a", counts(field("x")), counts(field("y")), counts(pass()))},
			[]string{"1 of 4 fields", "1 of 5 fields", "1 of 6 fields"},
		},
		{
			"and one that is undone", usher.Mutate,
			[]rule.Rule{one("a", counts(field("x")), fail(errBroken)), one("b", counts(pass()))},
			[]string{"1 of 4 fields"},
		},
	} {
		e := newEngine(row.phase, engine.Options{FailurePolicy: usher.Ignore}, nil, row.rules...)
		if diff := cmp.Diff(row.want, decide(t, e, request(row.phase, usher.Create)).Warnings); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
	}
}

// TestMemoWithoutContainers has a rule that runs again without containers get another memo.
func TestMemoWithoutContainers(t *testing.T) {
	t.Parallel()
	var had []string
	r := one("a", func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		n := rule.Kept[int](in.Memo)
		*n++
		spec, _ := in.Object["spec"].(map[string]any)
		containers, _ := spec["containers"].([]any)
		had = append(had, fmt.Sprintf("%d for %d containers", *n, len(containers)))
		if len(containers) > 1 {
			return rule.Outcome{Verdict: usher.Deny, Message: "two", Checks: []usher.Check{{Name: "spec.validations[0]"}}}, nil
		}
		return rule.Outcome{}, nil
	})
	r.Exemptions = []rule.Exempting{{Exemption: &rule.Exemption{
		Ref: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "x"}, Images: []rule.Pattern{"other/*"}, Action: rule.ExemptSkip, Expires: time.Now().Add(time.Hour),
	}}}
	req := request(usher.Validate, usher.Create)
	tree := podTree()
	tree["spec"] = map[string]any{"containers": []any{map[string]any{"image": "own/a"}, map[string]any{"image": "other/b"}}}
	req.Object = usher.TreeObject(tree)
	d := decide(t, newEngine(usher.Validate, engine.Options{}, nil, r, one("b", counts(pass()))), req)
	if diff := cmp.Diff([]string{"1 for 2 containers", "1 for 1 containers"}, had); diff != "" || d.Verdict != usher.Allow {
		t.Errorf("%v: -want +got:\n%s", d, diff)
	}
	if diff := cmp.Diff([]string{"2 of 4 fields"}, d.Warnings); diff != "" {
		t.Errorf("the rule after it: -want +got:\n%s", diff)
	}
}

// TestReadPathsOfOthers decides requests in turn that the same rules match, and some of them.
func TestReadPathsOfOthers(t *testing.T) {
	t.Parallel()
	rules := []rule.Rule{seeing("spec.x"), seeing("spec.x.y", "spec.list"), seeing("metadata.uid")}
	rules[1].Match.Operations = []usher.Operation{usher.Update}
	shared := newEngine(usher.Validate, engine.Options{}, nil, rules...)
	for range 3 {
		for _, operation := range []usher.Operation{usher.Create, usher.Update, usher.Delete} {
			r := rawRequest(usher.Validate)
			if r.Operation = operation; operation == usher.Create {
				r.OldObject = nil
			}
			want := decide(t, newEngine(usher.Validate, engine.Options{}, nil, rules...), r)
			if diff := cmp.Diff(want.Warnings, decide(t, shared, r).Warnings); diff != "" {
				t.Errorf("%s: -alone +in turn:\n%s", operation, diff)
			}
		}
	}
}

// sharing is a program that has values which others may have, too. It warns which of them it finds in its
// memo, and stores them.
type sharing struct {
	program

	name   string
	values []string
}

func (s sharing) SharedValues() []rule.Shared {
	var all []rule.Shared
	for _, value := range s.values {
		all = append(all, rule.Shared{Expression: rule.DigestOf(value)})
	}
	return all
}

func (s sharing) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	out, err := s.program(ctx, in)
	for i, value := range s.SharedValues() {
		said := "not kept"
		if place := in.Memo.Place(value); place != nil {
			said = fmt.Sprint(*place)
			*place = "known"
		}
		out.Warnings = append(out.Warnings, s.name+": "+s.values[i]+" "+said)
	}
	return out, err
}

// TestSharedValues has programs share values while the objects stay the same.
func TestSharedValues(t *testing.T) {
	t.Parallel()
	with := func(name string, of program, values ...string) rule.Rule {
		r := one(name, of)
		r.Steps[0].Program = sharing{of, name, values}
		return r
	}
	field := patch(add("/x", "x"))
	for _, row := range []struct {
		reason string
		phase  usher.Phase
		rules  []rule.Rule
		want   []string
	}{
		{
			"a value of one rule is not kept", usher.Validate,
			[]rule.Rule{with("a", pass(), "v"), one("b", pass())}, []string{"a: v not kept"},
		},
		{
			"those of several are", usher.Validate,
			[]rule.Rule{with("a", pass(), "v", "w"), with("b", pass(), "x"), with("c", pass(), "w", "v")},
			[]string{"a: v <nil>", "a: w <nil>", "b: x not kept", "c: w known", "c: v known"},
		},
		{
			"until the object changes", usher.Mutate,
			[]rule.Rule{with("a", pass(), "v"), with("b", field, "v"), with("c", pass(), "v")},
			[]string{"a: v <nil>", "b: v known", "c: v <nil>"},
		},
	} {
		e := newEngine(row.phase, engine.Options{}, nil, row.rules...)
		for range 2 {
			if diff := cmp.Diff(row.want, decide(t, e, request(row.phase, usher.Create)).Warnings); diff != "" {
				t.Errorf("%s: -want +got:\n%s", row.reason, diff)
			}
		}
	}
}
