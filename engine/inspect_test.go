package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/index"
	"github.com/usher-dev/usher/rule"
)

// inspecting asks for an inspection of the pods of a namespace, which denies those that judge denies.
func inspecting(judge rule.Program) program {
	return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		return rule.Outcome{Inspect: &rule.Inspection{
			Name: "shop", Namespace: in.Object, Creation: rule.PodCreation(usher.Validate), FailurePolicy: rule.Fail, Program: judge,
			Objects: &fact.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", All: true, Sample: &fact.Sample{Most: 9, Paths: &usher.Paths{}}},
			Tell: func(_ context.Context, of *rule.Inspected) []string {
				if of.Err != nil {
					return []string{of.Err.Error()}
				}
				told := []string{fmt.Sprintf("%d of %d", of.Checked, of.Total)}
				for _, v := range of.Violations {
					told = append(told, fmt.Sprintf("%s %d %s", v.Name, v.Count, v.Message))
				}
				return told
			},
		}}, nil
	}
}

// byName denies a pod by its name.
func byName(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	switch name := in.Request.Name; name {
	case "skipped":
		return rule.Outcome{Skipped: "it is another one"}, nil
	case "fails":
		return rule.Outcome{}, errBroken
	case "good":
		return rule.Outcome{}, nil
	}
	namespace, err := in.Facts.Value(fact.Ref{Object: &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"}})
	if err != nil {
		return rule.Outcome{}, err
	}
	if namespace.(map[string]any)["new"] != true || in.Request.Namespace != "shop" {
		return rule.Outcome{}, errors.New("the namespace is not the new one")
	}
	return rule.Outcome{Verdict: usher.Deny, Message: "bad"}, nil
}

func TestInspection(t *testing.T) {
	t.Parallel()
	ended := func(cancel context.CancelFunc) program {
		return func(context.Context, *rule.Input) (rule.Outcome, error) {
			cancel()
			return rule.Outcome{Verdict: usher.Deny, Message: "bad"}, nil
		}
	}
	for _, row := range []struct {
		reason string
		pods   []string
		err    error
		more   int
		rules  func(context.CancelFunc) []rule.Rule
		denied bool
		lists  int
		want   []string
	}{
		{"no pods", nil, nil, 0, nil, false, 1, []string{"0 of 0"}},
		{"pods with one message", []string{"b", "a", "good"}, nil, 0, nil, false, 1, []string{"3 of 3", "a 2 bad"}},
		{"pods that do not count", []string{"skipped", "good"}, nil, 0, nil, false, 1, []string{"1 of 1"}},
		{"not all pods are known", []string{"a"}, nil, 7, nil, false, 1, []string{"1 of 8", "a 1 bad"}},
		{"a program that fails", []string{"fails"}, nil, 0, nil, false, 1, []string{"1 of 1", "fails 1 cel: broken"}},
		{"pods that cannot be read", nil, errBroken, 0, nil, false, 1, []string{"fact v1 Pod shop/: broken"}},
		{"two rules read the pods once", []string{"good"}, nil, 0, func(context.CancelFunc) []rule.Rule {
			return []rule.Rule{one("a", inspecting(program(byName))), one("b", inspecting(deny("worse")))}
		}, false, 1, []string{"1 of 1", "good 1 worse"}},
		{"a request that is denied", []string{"a"}, nil, 0, func(context.CancelFunc) []rule.Rule {
			return []rule.Rule{one("a", inspecting(program(byName))), one("b", deny("no"))}
		}, true, 0, nil},
		{"the time is up", []string{"a", "b"}, nil, 0, func(cancel context.CancelFunc) []rule.Rule {
			return []rule.Rule{one("a", inspecting(ended(cancel)))}
		}, false, 1, []string{"1 of 2", "a 1 bad"}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rules := []rule.Rule{one("a", inspecting(program(byName)))}
			if row.rules != nil {
				rules = row.rules(cancel)
			}
			for i := range rules {
				rules[i].Phase = usher.Validate
			}
			lists := 0
			facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
				lists++
				sampled := &fact.Sampled{Total: len(row.pods) + row.more}
				for _, name := range row.pods {
					sampled.Objects = append(sampled.Objects, fact.Item{Decoded: map[string]any{"metadata": map[string]any{"name": name}}})
				}
				return sampled, row.err
			})
			r := &usher.Request{Phase: usher.Validate, Operation: usher.Update, Name: "shop", Object: usher.TreeObject(map[string]any{"new": true})}
			e := engine.New(index.New(rules), facts, engine.Options{})
			d, err := e.Decide(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, d.Warnings); diff != "" || (d.Verdict == usher.Deny) != row.denied || lists != row.lists {
				t.Errorf("verdict %v, %d lists, warnings -want +got:\n%s", d.Verdict, lists, diff)
			}
			if ctx.Err() != nil {
				return
			}
			lists = 0
			if err := e.Each(ctx, r, func(*usher.Finding) {}); err != nil || lists > 0 {
				t.Errorf("each: %d lists, %v", lists, err)
			}
		})
	}
}
