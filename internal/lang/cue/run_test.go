package cue_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

func TestRun(t *testing.T) {
	t.Parallel()
	old := map[string]any{"metadata": map[string]any{"name": "old"}}
	const names = `object: _
oldObject: _
validate: {valid: false, reason: *oldObject.metadata.name | "none"}`
	const data = `data: _
validate: {valid: false, reason: "\(data.oldObject == null) \(len(data.extraParams))"}`
	for _, tt := range []struct {
		reason string
		form   cue.Form
		source string
		op     usher.Operation
		old    map[string]any
		want   rule.Outcome
		err    string
	}{
		{"validate gets the old object on UPDATE", cue.Validate, names, usher.Update, old, rule.Outcome{Verdict: usher.Deny, Message: "old"}, ""},
		{"and otherwise none", cue.Validate, names, usher.Create, nil, rule.Outcome{Verdict: usher.Deny, Message: "none"}, ""},
		{"not even one that is there", cue.Validate, names, usher.Delete, old, rule.Outcome{Verdict: usher.Deny, Message: "none"}, ""},
		{"rendered validations get null", cue.RenderedValidate, data, usher.Create, nil, rule.Outcome{Verdict: usher.Deny, Message: "true 0"}, ""},
		{"or the old object", cue.RenderedValidate, data, usher.Update, old, rule.Outcome{Verdict: usher.Deny, Message: "false 0"}, ""},
		{"reasons may be missing", cue.Validate, `object: _, validate: valid: object.kind != "Pod"`, usher.Create, nil, rule.Outcome{Verdict: usher.Deny}, ""},
		{"valid is the default", cue.Validate, `object: _, validate: {}`, usher.Create, nil, rule.Outcome{}, ""},
		{"valid has to be a bool", cue.Validate, `object: _, validate: valid: "yes"`, usher.Create, nil, rule.Outcome{}, "cannot use value"},
		{"null is none", cue.Validate, `object: _, validate: valid: null`, usher.Create, nil, rule.Outcome{}, "cannot use value null"},
		{"errors name the missing field and the place", cue.Validate,
			"object: _\nlocked: object.metadata.labels != _|_ && object.metadata.labels[\"a\"] == \"b\"\nvalidate: valid: !locked",
			usher.Create, nil, rule.Outcome{}, "undefined field: labels (2:58)"},
		{"nothing to do", cue.Override, `object: _, patches: []`, usher.Create, nil, rule.Outcome{}, ""},
		{"no output", cue.Override, `object: _`, usher.Create, nil, rule.Outcome{}, "output not found in cue"},
		{"an unknown op", cue.Override, `patches: [{op: "merge", path: "/a"}]`, usher.Create, nil, rule.Outcome{}, `Unexpected kind: "merge"`},
		{"a move from nowhere", cue.Override, `patches: [{op: "move", path: "/a"}]`, usher.Create, nil, rule.Outcome{}, `move has no from`},
		{"copy and move", cue.Override, `patches: [{op: "copy", from: "/a", path: "/b"}, {op: "move", from: "/c", path: "/d", value: 1}]`, usher.Create, nil,
			rule.Outcome{Patch: usher.Patch{{Op: "copy", From: "/a", Path: "/b"}, {Op: "move", From: "/c", Path: "/d"}}}, ""},
		{"warnings", cue.Validate, `validate: {valid: true, warnings: ["a", "b"]}`, usher.Create, nil, rule.Outcome{Warnings: []string{"a", "b"}}, ""},
		{"warnings of a refusal", cue.Validate, `validate: {valid: false, reason: "no", warnings: ["a"]}`, usher.Create, nil,
			rule.Outcome{Verdict: usher.Deny, Message: "no", Warnings: []string{"a"}}, ""},
		{"no op", cue.Override, `patches: [{path: "/a"}]`, usher.Create, nil, rule.Outcome{}, `Unexpected kind: ""`},
		{"a value that is not concrete", cue.Override, `patches: [{op: "add", path: "/a", value: string}]`, usher.Create, nil, rule.Outcome{}, "incomplete value string"},
		{"a number beyond all bounds", cue.Override, `patches: [{op: "add", path: "/a", value: 1.5e999}]`, usher.Create, nil, rule.Outcome{}, "too large"},
		{"values of all types", cue.Override, `patches: [{op: "test", path: "/a", value: {i: 1, f: 1.5, w: 2.0, n: null, b: true, s: "s", y: 'y', l: [{}], big: 9223372036854775808, least: -9223372036854775808}}]`,
			usher.Create, nil, rule.Outcome{Patch: usher.Patch{{Op: "test", Path: "/a", Value: map[string]any{
				"i": int64(1), "f": 1.5, "w": int64(2), "n": nil, "b": true, "s": "s", "y": "eQ==",
				"l": []any{map[string]any{}}, "big": 9223372036854775808.0, "least": int64(math.MinInt64),
			}}}}, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := cue.Compile(t.Context(), tt.source, tt.form, cue.Options{})
			if p == nil {
				t.Fatal(problems)
			}
			got, err := p.Run(context.Background(), &rule.Input{
				Request: &usher.Request{Operation: tt.op}, Object: cart(), OldObject: tt.old, Facts: &fact.Known{},
			})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error is %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunWithoutObject(t *testing.T) {
	t.Parallel()
	p := compile(t, "validate/", `object: _, validate: valid: object != null`, cue.Options{})
	outcome, err := p.Run(context.Background(), &rule.Input{})
	if err != nil || outcome.Verdict != usher.Deny {
		t.Errorf("outcome %v, error %v; an absent object is null", outcome, err)
	}
}

func TestExtraParams(t *testing.T) {
	t.Parallel()
	missing := &fact.Missing{Ref: &fact.HTTP{Method: "GET", URL: "http://a.test/"}}
	for _, tt := range []struct {
		reason string
		source string
		extra  map[string]any
		err    error
		want   string
	}{
		{"they are data", `data: _, validate: {valid: false, reason: data.extraParams.http.body.why}`,
			map[string]any{"http": map[string]any{"body": map[string]any{"why": "so"}}}, nil, "so"},
		{"they are asked for even if the source does not read them", `data: _, validate: {}`, nil, missing, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p := compile(t, "rendered-validate/", tt.source, cue.Options{
				ExtraParams: func(*rule.Input) (map[string]any, error) { return tt.extra, tt.err },
			})
			outcome, err := p.Run(context.Background(), &rule.Input{Object: cart()})
			if !errors.Is(err, tt.err) || outcome.Message != tt.want {
				t.Errorf("outcome %v, error %v", outcome, err)
			}
		})
	}
}

// TestConcurrentRuns is for the race detector: one program, many goroutines.
func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	inputs, sources := samples(t), corpus(t)
	for _, name := range []string{
		"override/loop.cue", "override/math.cue", "override/json-unmarshal.cue", "override/list-functions.cue",
		"override/dynamic-label-loop.cue", "override/definition-patch.cue", "override/list-sum-unknown.cue",
		"validate/ports.cue", "validate/guard-nested.cue", "rendered-override/oversell.cue",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := compile(t, name, sources[name], cue.Options{})
			want := make([]string, len(inputs))
			for i := range inputs {
				outcome, err := p.Run(context.Background(), inputs[i].input())
				want[i] = resultOf(t, name, outcome, err)
			}
			var group sync.WaitGroup
			for worker := range 8 {
				group.Go(func() {
					for n := range inputs {
						i := (n + worker*7) % len(inputs)
						outcome, err := p.Run(context.Background(), inputs[i].input())
						if got := resultOf(t, name, outcome, err); got != want[i] {
							t.Errorf("%s gives %s beside others, %s alone", inputs[i].Name, got, want[i])
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// A program that takes many steps lets others have the processor again and again, and not only when Go takes it away.
//
//nolint:paralleltest // it changes the number of processors.
func TestClosuresYield(t *testing.T) {
	p := compile(t, "validate/", "object: _\nvalidate: valid: len([for a in object.l for b in object.l {a}]) > 0", cue.Options{Evaluator: cue.None()})
	list := make([]any, 300)
	for i := range list {
		list[i] = int64(i)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turns atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			turns.Add(1)
			runtime.Gosched()
		}
	})
	before := turns.Load()
	_, err := p.Run(t.Context(), &rule.Input{Object: map[string]any{"l": list}})
	if n := turns.Load() - before; err != nil || n < 15 {
		t.Errorf("others had the processor %d times, %v", n, err)
	}
	cancel()
	group.Wait()
}

// Requests are written by hand, for speed.
func TestRequestsAreJSON(t *testing.T) {
	t.Parallel()
	object := map[string]any{"object": map[string]any{"spec": map[string]any{"replicas": int64(3), "ratio": 0.5, "names": []any{"<a>", nil}}, "kind": "\"\xff"}}
	for _, row := range []struct {
		reason        string
		source        string
		check         bool
		input, output map[string]any
	}{
		{"a check", validateRule, true, nil, nil},
		{"a run of what the worker has", "", false, object, nil},
		{"of what it does not have, with a response", validateRule, false, object, map[string]any{}},
		{"no input", "", false, map[string]any{}, object},
	} {
		sent, marshaled, err := cue.Requests(row.source, row.check, row.input, row.output)
		if err != nil || string(sent) != string(marshaled) {
			t.Errorf("%s: %s, %v; json.Marshal gives %s", row.reason, sent, err, marshaled)
		}
	}
}
