package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

// inspecting asks for an inspection of the pods of a namespace, which denies those that judge denies.
func inspecting(judge rule.Program) program {
	return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		return rule.Outcome{Inspect: &rule.Inspection{
			Name: "shop", Namespace: in.Object, Creation: rule.PodCreation(usher.Validate), FailurePolicy: usher.Fail, Program: judge,
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
	namespace, err := in.Facts.Value(&fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"})
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
			r := labelling()
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

// A promised context has a deadline, and does not end.
type promised struct {
	context.Context

	at time.Time
}

func (p promised) Deadline() (time.Time, bool) { return p.at, true }

// TestInspectionTells has an inspection take all of its time: it has time left to tell.
func TestInspectionTells(t *testing.T) {
	t.Parallel()
	slow := program(func(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
		<-ctx.Done()
		return rule.Outcome{Verdict: usher.Deny, Message: "bad"}, nil
	})
	asks := inspecting(slow)
	told := program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
		out, err := asks(ctx, in)
		tell := out.Inspect.Tell
		out.Inspect.Tell = func(ctx context.Context, of *rule.Inspected) []string {
			if ctx.Err() != nil {
				t.Errorf("there is no time left to tell: %v", ctx.Err())
			}
			return tell(ctx, of)
		}
		return out, err
	})
	e := validator(podNamed("a"), told)
	d, err := e.Decide(promised{t.Context(), time.Now().Add(100 * time.Millisecond)}, labelling())
	if err != nil || d.Verdict != usher.Allow {
		t.Errorf("got %v, %v", d.Verdict, err)
	}
	if diff := cmp.Diff([]string{"1 of 1", "a 1 bad"}, d.Warnings); diff != "" {
		t.Errorf("warnings -want +got:\n%s", diff)
	}
}

// TestInspectionsAtOnce has as many requests as may be inspected at a time hang: others are allowed,
// and say that nothing was read.
func TestInspectionsAtOnce(t *testing.T) {
	t.Parallel()
	release, lists := make(chan struct{}), make(chan struct{}, 9)
	facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
		lists <- struct{}{}
		<-release
		return podNamed("good")(t.Context(), nil)
	})
	e := validator(facts, inspecting(program(byName)))
	var hanging sync.WaitGroup
	for range 2 {
		hanging.Go(func() {
			if d, err := e.Decide(t.Context(), labelling()); err != nil || d.Verdict != usher.Allow {
				t.Errorf("got %v, %v", d.Verdict, err)
			}
		})
		<-lists
	}
	d, err := e.Decide(promised{t.Context(), time.Now().Add(100 * time.Millisecond)}, labelling())
	if err != nil || d.Verdict != usher.Allow || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "too many inspections at once") || d.Findings[0].Outcome == usher.Failed {
		t.Errorf("one too many: %v, %q, %v", d.Verdict, d.Warnings, err)
	}
	close(release)
	hanging.Wait()
	if d, err := e.Decide(t.Context(), labelling()); err != nil || !slices.Equal(d.Warnings, []string{"1 of 1"}) {
		t.Errorf("afterwards: %q, %v", d.Warnings, err)
	}
}

// TestInspectionsFail has each part of an inspection fail or panic: the finding says so, and the
// request is allowed.
func TestInspectionsFail(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		facts  fact.Resolver
		judge  program
		tell   func()
		want   string
	}{
		{"pods that may not be read", fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return nil, errBroken }), byName, func() {}, "fact v1 Pod shop/: broken"},
		{"reading panics", fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { panic("reading") }), byName, func() {}, "panicked: reading"},
		{"telling panics", podNamed("good"), byName, func() { panic("telling") }, "panicked: telling"},
		{"judging panics", podNamed("good"), func(context.Context, *rule.Input) (rule.Outcome, error) { panic("judging") }, func() {}, ""},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			asks := inspecting(row.judge)
			e := validator(row.facts, program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
				out, err := asks(ctx, in)
				tell := out.Inspect.Tell
				out.Inspect.Tell = func(ctx context.Context, of *rule.Inspected) []string {
					row.tell()
					return tell(ctx, of)
				}
				return out, err
			}))
			d, err := e.Decide(t.Context(), labelling())
			if err != nil || d.Verdict != usher.Allow {
				t.Fatalf("got %v, %v", d.Verdict, err)
			}
			f := d.Findings[0]
			got := ""
			if f.Err != nil {
				got = f.Err.Error()
			}
			if got != row.want || (f.Outcome == usher.Failed) != (row.want != "") || f.Ignored != (row.want != "") {
				t.Errorf("outcome %v, ignored %t, error %q, want %q", f.Outcome, f.Ignored, got, row.want)
			}
		})
	}
}

// podNamed is a cluster with one pod.
func podNamed(name string) fact.ResolverFunc {
	return func(context.Context, fact.Ref) (any, error) {
		return &fact.Sampled{Total: 1, Objects: []fact.Item{{Decoded: map[string]any{"metadata": map[string]any{"name": name}}}}}, nil
	}
}

// validator decides by one rule.
func validator(facts fact.Resolver, p program) *engine.Engine {
	r := one("a", p)
	r.Phase = usher.Validate
	return engine.New(index.New([]rule.Rule{r}), facts, engine.Options{})
}

// labelling is an update of a namespace.
func labelling() *usher.Request {
	return &usher.Request{Phase: usher.Validate, Operation: usher.Update, Name: "shop", Object: usher.TreeObject(map[string]any{"new": true})}
}
