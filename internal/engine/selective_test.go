package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

// A picky program declares what it reads.
type picky struct {
	program
	object, old []string
}

func (p picky) ReadPaths() (object, old *usher.Paths) { return pathsOf(p.object), pathsOf(p.old) }

func pathsOf(texts []string) *usher.Paths {
	paths := &usher.Paths{}
	for _, text := range texts {
		paths.Add(strings.Split(text, ".")...)
	}
	return paths
}

// seeing is a program that warns of what it is shown, and reads the paths.
func seeing(paths ...string) rule.Rule {
	return selective("see", paths, func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		shown, err := json.Marshal([]any{in.Object, in.OldObject})
		return rule.Outcome{Warnings: []string{string(shown)}}, err
	})
}

func selective(name string, paths []string, p program) rule.Rule {
	return rule.Rule{
		Policy: policy(name), Name: "spec.rules[0]",
		Match: rule.Match{Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Pod"}}},
		Steps: []rule.Step{{Name: "fake", Program: picky{p, paths, paths}}},
	}
}

const (
	podText = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","labels":{"a":"1"},"uid":"u"},"spec":{"x":{"y":1,"z":2},"list":[{"i":1}]}}`
	oldText = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart"},"spec":{"x":{"y":0,"z":0}}}`
)

func rawRequest(phase usher.Phase) *usher.Request {
	r := request(phase, usher.Update)
	r.Object, r.OldObject = usher.RawObject([]byte(podText)), usher.RawObject([]byte(oldText))
	return r
}

func TestProgramsAreShownWhatTheyWant(t *testing.T) {
	t.Parallel()
	const head = `"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"1"},"name":"cart"}`
	everything := one("all", pass())
	tests := []struct {
		reason string
		rules  []rule.Rule
		want   []string
	}{
		{"nothing but what selectors look at", []rule.Rule{seeing()}, []string{`[{` + head + `},{}]`}},
		{"a path", []rule.Rule{seeing("spec.x.y")}, []string{`[{` + head + `,"spec":{"x":{"y":1}}},{"spec":{"x":{"y":0}}}]`}},
		{"a path through a list", []rule.Rule{seeing("spec.list.0")}, []string{`[{` + head + `,"spec":{"list":[{"i":1}]}},{"spec":{}}]`}},
		{"what each of several reads", []rule.Rule{seeing("spec.x.y"), seeing("spec.x.z")}, []string{`[{` + head + `,"spec":{"x":{"y":1,"z":2}}},{"spec":{"x":{"y":0,"z":0}}}]`}},
		{"everything if one does not say", []rule.Rule{seeing("spec.x.y"), everything}, []string{"[" + sorted(t, podText) + "," + sorted(t, oldText) + "]"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			got := decide(t, newEngine(usher.Validate, engine.Options{}, nil, test.rules...), rawRequest(usher.Validate))
			if diff := cmp.Diff(test.want, got.Warnings); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPatchesReachWhatNobodyWanted(t *testing.T) {
	t.Parallel()
	set := func(name, path string, value any) rule.Rule { return selective(name, nil, patch(add(path, value))) }
	broken := selective("broken", nil, patch(add("/metadata/labels/c", "3"), add("/nowhere/at/all", "1")))
	see := inPass(1, seeing("spec.x", "metadata.labels"))
	tests := []struct {
		reason   string
		rules    []rule.Rule
		want     usher.Patch
		findings []string
		shown    string
	}{
		{
			"within what is decoded", []rule.Rule{set("a", "/metadata/labels/b", "2"), set("b", "/metadata/labels/a", "1")},
			usher.Patch{add("/metadata/labels/b", "2")}, []string{"a changed", "b passed"}, `"labels":{"a":"1","b":"2"}`,
		},
		{
			"elsewhere, after what is decoded was changed", []rule.Rule{set("a", "/metadata/labels/b", "2"), set("b", "/spec/list/0/j", "3"), set("c", "/spec/list/0/i", int64(1))},
			usher.Patch{add("/metadata/labels/b", "2"), add("/spec/list/0/j", "3")}, []string{"a changed", "b changed", "c passed"},
			`"metadata":{"labels":{"a":"1","b":"2"},"name":"cart","uid":"u"},"spec":{"list":[{"i":1,"j":"3"}],"x":{"y":1,"z":2}}`,
		},
		{
			"a failure takes back its own changes only", []rule.Rule{set("a", "/metadata/labels/b", "2"), broken, set("c", "/metadata/labels/d", "4")},
			usher.Patch{add("/metadata/labels/b", "2"), add("/metadata/labels/d", "4")},
			[]string{"a changed", `broken failed ignored fake: add operation does not apply: doc is missing path: "/nowhere/at/all": missing value`, "c changed"},
			`"labels":{"a":"1","b":"2","d":"4"}`,
		},
		{
			"a rejection leaves nothing", []rule.Rule{set("a", "/spec/x/z", "3"), selective("b", nil, deny("no"))},
			nil, []string{"a changed", "b rejected no"}, "",
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			rules := append(test.rules, see)
			got := decide(t, newEngine(usher.Mutate, engine.Options{FailurePolicy: usher.Ignore}, nil, rules...), rawRequest(usher.Mutate))
			if diff := cmp.Diff(test.want, got.Patch); diff != "" {
				t.Errorf("patch: -want +got:\n%s", diff)
			}
			if test.shown != "" {
				test.findings = append(test.findings, "see passed")
				if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], test.shown) {
					t.Errorf("the next pass sees %s, not %s", got.Warnings, test.shown)
				}
			}
			equalFindings(t, test.findings, got.Findings)
		})
	}
}

func TestBrokenPartsThatNobodyReadsAreFound(t *testing.T) {
	t.Parallel()
	r := rawRequest(usher.Validate)
	r.Object = usher.RawObject([]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"a":1e400}}`))
	got := decide(t, newEngine(usher.Validate, engine.Options{}, nil, seeing()), r)
	if got.Verdict != usher.Deny || got.Code != 400 {
		t.Errorf("got %+v", got)
	}
}

// sorted is a JSON text with its keys in order.
func sorted(t *testing.T, text string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// TestUnchanged: programs are told that the object is that of the request until one has changed it.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	told := func(name string) program {
		return func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
			return rule.Outcome{Warnings: []string{fmt.Sprint(name, in.Object["spec"].(map[string]any)["n"], in.Unchanged)}}, nil
		}
	}
	change := func(n int64) program { return patch(add("/spec/n", n)) }
	broken := selective("broken", []string{"spec"}, change(3))
	broken.FailurePolicy = usher.Ignore
	broken.Steps = append(broken.Steps, rule.Step{Name: "fake", Program: fail(errBroken)})
	steps := selective("steps", []string{"spec"}, told("first "))
	steps.Steps = append(steps.Steps, rule.Step{Name: "fake", Program: change(1)}, rule.Step{Name: "fake", Program: told("last ")})
	e := newEngine(usher.Mutate, engine.Options{}, nil, broken, steps, selective("next", []string{"spec"}, told("next ")))
	d := decide(t, e, rawRequest(usher.Mutate))
	if diff := cmp.Diff([]string{"first <nil> true", "last 1 false", "next 1 false"}, d.Warnings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
