package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

// A program is a function as a rule.Program.
type program func(ctx context.Context, in *rule.Input) (rule.Outcome, error)

func (p program) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) { return p(ctx, in) }
func (p program) String() string                                                { return "fake" }

var errBroken = errors.New("broken")

func pass() program { return say(rule.Outcome{}) }

func say(out rule.Outcome) program {
	return func(context.Context, *rule.Input) (rule.Outcome, error) { return out, nil }
}

func fail(err error) program {
	return func(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, err }
}

func deny(message string) program { return say(rule.Outcome{Verdict: usher.Deny, Message: message}) }

func warn(warnings ...string) program { return say(rule.Outcome{Warnings: warnings}) }

func patch(ops ...usher.PatchOp) program { return say(rule.Outcome{Patch: ops}) }

func add(path string, value any) usher.PatchOp {
	return usher.PatchOp{Op: "add", Path: path, Value: value}
}

// label sets a label, making the labels if need be.
func label(key string, value any) program {
	return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		var ops usher.Patch
		if _, ok := in.Object["metadata"].(map[string]any)["labels"]; !ok {
			ops = append(ops, add("/metadata/labels", map[string]any{}))
		}
		return rule.Outcome{Patch: append(ops, add("/metadata/labels/"+key, value))}, nil
	}
}

// ask denies with the value of a fact, which is to be a text.
func ask(ref fact.Ref) program {
	return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		value, err := in.Facts.Value(ref)
		if err != nil {
			return rule.Outcome{}, err
		}
		return rule.Outcome{Verdict: usher.Deny, Message: value.(string)}, nil
	}
}

func configMap(name string) fact.Ref {
	return &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}
}

// wait gives up when its context is done.
func wait(ctx context.Context, _ *rule.Input) (rule.Outcome, error) {
	<-ctx.Done()
	return rule.Outcome{}, ctx.Err()
}

func policy(name string) usher.PolicyRef { return usher.PolicyRef{Kind: "P", Name: name} }

// one returns a rule of the policy of that name, with a step for each program.
func one(name string, programs ...program) rule.Rule {
	r := rule.Rule{Policy: policy(name), Name: "spec.rules[0]"}
	for _, p := range programs {
		r.Steps = append(r.Steps, rule.Step{Name: "fake", Program: p})
	}
	return r
}

func inPass(pass int, r rule.Rule) rule.Rule {
	r.Pass = pass
	return r
}

func at(place string, r rule.Rule) rule.Rule {
	r.Name = place
	return r
}

func builtIn(r rule.Rule) rule.Rule {
	r.Policy, r.Name = usher.PolicyRef{}, "built-in"
	return r
}

func onLabel(key, value string, r rule.Rule) rule.Rule {
	r.Match.Selectors = []rule.Selector{{APIVersion: "v1", Kind: "Pod", Labels: labels.Set{key: value}.AsSelector()}}
	return r
}

func newEngine(phase usher.Phase, o engine.Options, facts fact.Resolver, rules ...rule.Rule) *engine.Engine {
	for i := range rules {
		rules[i].Phase = phase
	}
	return engine.New(index.New(rules), facts, o)
}

func podTree() map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   map[string]any{"name": "cart", "namespace": "shop"},
		"spec":       map[string]any{"replicas": int64(2)},
	}
}

func request(phase usher.Phase, op usher.Operation) *usher.Request {
	r := &usher.Request{Phase: phase, Operation: op, Name: "cart", Namespace: "shop"}
	r.Kind.Version, r.Kind.Kind = "v1", "Pod"
	if op != usher.Delete {
		r.Object = usher.TreeObject(podTree())
	}
	if op == usher.Update || op == usher.Delete {
		r.OldObject = usher.TreeObject(podTree())
	}
	return r
}

func decide(t *testing.T, e *engine.Engine, r *usher.Request) usher.Decision {
	t.Helper()
	d, err := e.Decide(t.Context(), r)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return d
}

// found shows findings in short lines: policy, outcome, and what there is to say.
func found(findings []usher.Finding) []string {
	var lines []string
	for _, f := range findings {
		words := []string{f.Policy.Name, string(f.Outcome)}
		if f.Ignored {
			words = append(words, "ignored")
		}
		if f.Message != "" {
			words = append(words, f.Message)
		}
		if f.Err != nil {
			words = append(words, f.Err.Error())
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

func equalDecision(t *testing.T, want, got usher.Decision) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(usher.Decision{}, "Findings"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("decision: -want +got:\n%s", diff)
	}
}

func equalFindings(t *testing.T, want []string, got []usher.Finding) {
	t.Helper()
	if diff := cmp.Diff(want, found(got)); diff != "" {
		t.Errorf("findings: -want +got:\n%s", diff)
	}
	for _, f := range got {
		if f.Took < 0 || f.Took > time.Minute {
			t.Errorf("%s took %v", f.Policy, f.Took)
		}
	}
}
