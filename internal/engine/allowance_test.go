package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// A taker is a program that takes two thirds of what the policies of a namespace may take.
type taker struct{}

func (t taker) String() string { return "taker" }

func (t taker) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	if in.Allowance == nil {
		return rule.Outcome{}, nil
	}
	if err := in.Allowance.Take(2*allowance.NamespaceTime/3, 1); err != nil {
		return rule.Outcome{}, fmt.Errorf("expression: %w", err)
	}
	return rule.Outcome{}, nil
}

// TestNamespacesHaveOneAllowance has policies take what those of their namespace may take together.
func TestNamespacesHaveOneAllowance(t *testing.T) {
	t.Parallel()
	of := func(namespace, name string) rule.Rule {
		return rule.Rule{
			Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: namespace, Name: name}, Name: "r", FailurePolicy: usher.Fail, Phase: usher.Validate,
			Steps: []rule.Step{{Program: taker{}}},
		}
	}
	rules := []rule.Rule{of("", "a"), of("", "b"), of("team-a", "a"), of("team-a", "b"), of("team-b", "a")}
	e := engine.New(index.New(rules), nil, engine.Options{})
	for range 2 {
		r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Namespace: "team-a", Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"})}
		d, err := e.Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, f := range d.Findings {
			if f.Outcome == usher.Failed {
				failed = append(failed, f.Policy.String())
			}
		}
		if got, want := strings.Join(failed, ", "), "ObjectPolicy team-a/b"; got != want {
			t.Errorf("failed: %s; want %s", got, want)
		}
		if want := fmt.Sprintf("a request may use %v", allowance.NamespaceTime.Round(time.Millisecond)); !strings.Contains(d.Message, want) {
			t.Errorf("message %q; want %q", d.Message, want)
		}
	}
}

// TestWhoWaitsForATurn: a rule of a namespace that had no turn within its time says so.
func TestWhoWaitsForATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watch := overrun.New(overrun.Options{})
		for range max(runtime.GOMAXPROCS(0)/2, 1) {
			turn := watch.Turn("team-b")
			if err := turn.Wait(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			defer turn.End()
		}
		waits := program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
			return rule.Outcome{}, in.Allowance.WaitLong(ctx)
		})
		r := one("a", waits)
		r.Policy.Namespace, r.Phase = "team-a", usher.Validate
		e := engine.New(index.New([]rule.Rule{r}), nil, engine.Options{Overruns: watch})
		d, err := e.Decide(t.Context(), &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, Namespace: "team-a", Object: usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := "overran its time of 1s while it waited for a turn"; !strings.Contains(d.Message, want) {
			t.Errorf("decided %+v, want %q", d, want)
		}
	})
}
