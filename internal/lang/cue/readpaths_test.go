package cue_test

import (
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// What lies beside the wanted paths changes nothing, on closures and on the evaluator.
func TestReadPathsAreEnough(t *testing.T) {
	t.Parallel()
	inputs := samples(t)
	for name, source := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := cue.Compile(t.Context(), source, formOf(name), cue.Options{})
			if p == nil {
				return
			}
			for i := range inputs {
				_, _ = ruletest.Run(t, p, inputs[i].input())
				_, _ = ruletest.Run(t, p.Slowly(), inputs[i].input())
			}
		})
	}
}

func TestReadPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason      string
		name        string
		source      string
		object, old [][]string
		notObject   [][]string
	}{
		{
			reason: "what is read, and what is patched", name: "override/x",
			source: `object: _
patches: [if object.spec.replicas > 1 {{op: "add", path: "/metadata/labels/a", value: object.spec.paused}},
	{op: "add", path: "/spec/template/\(object.kind)", value: 1}]`,
			object:    [][]string{{"spec", "replicas"}, {"spec", "paused"}, {"metadata", "labels", "a"}, {"spec", "template"}, {"kind"}},
			notObject: [][]string{{"spec"}, {"metadata", "labels"}, {"status"}},
		},
		{
			reason: "lists are read whole", name: "validate/x",
			source: `object: _
oldObject: _
validate: valid: object.spec.containers[0].image == "a" && len([for c in oldObject.spec.containers if c.name == "b" {c}]) == 0`,
			object:    [][]string{{"spec", "containers"}},
			old:       [][]string{{"spec", "containers"}},
			notObject: [][]string{{"spec"}},
		},
		{
			reason: "what cannot be followed is everything", name: "validate/x",
			source: "object: _\nx: [object, {}][0]\nvalidate: valid: x.kind == \"a\"",
			object: [][]string{{}},
		},
		{
			reason: "objects are part of data", name: "rendered-override/x",
			source: `data: _
patches: [if data.object.kind == data.oldObject.kind {{op: "remove", path: "/spec"}}]`,
			object:    [][]string{{"kind"}, {"spec"}},
			old:       [][]string{{"kind"}},
			notObject: [][]string{{"metadata"}},
		},
		{
			reason: "nothing", name: "validate/x", source: `validate: valid: true`, notObject: [][]string{{"kind"}},
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			object, old := compile(t, tt.name, tt.source, cue.Options{}).ReadPaths()
			for _, want := range []struct {
				in     *usher.Paths
				paths  [][]string
				covers bool
			}{{object, tt.object, true}, {old, tt.old, true}, {object, tt.notObject, false}} {
				for _, path := range want.paths {
					if got := want.in.Covers(path...); got != want.covers {
						t.Errorf("covers %q: %t", path, got)
					}
				}
			}
		})
	}
}
