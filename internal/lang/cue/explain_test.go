package cue_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	object := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a/b": "c", "team": "green"}},
		"spec": map[string]any{
			"initContainers": []any{map[string]any{"image": "init"}},
			"containers":     []any{map[string]any{"image": "main"}, map[string]any{"name": "none"}, map[string]any{"image": "log"}},
		},
	}
	for _, tt := range []struct {
		reason string
		source string
		want   rule.Value
	}{
		{"a field", `x: object.metadata.labels.team`, rule.Value{Name: "object.metadata.labels.team", Value: "green"}},
		{"a key that is no identifier", `x: object.metadata.labels["a/b"]`, rule.Value{Name: `object.metadata.labels["a/b"]`, Value: "c"}},
		{"a field that is missing", `x: object.metadata.annotations.team`, rule.Value{Name: "object.metadata.annotations.team", Absent: true}},
		{"an item by its index", `x: object.spec.containers[2].image`, rule.Value{Name: "object.spec.containers[2].image", Value: "log"}},
		{"an item that is missing", `x: object.spec.containers[3].image`, rule.Value{Name: "object.spec.containers[3].image", Absent: true}},
		{"the items of a list", `x: [for c in object.spec.containers if c.image != _|_ {1}]`, rule.Value{Name: "object.spec.containers[].image", Value: []any{"main", "log"}}},
		{
			"the items of several lists", `x: [for f in ["containers", "initContainers"] for c in object.spec[f] if c.image != _|_ {1}]`,
			rule.Value{Name: "object.spec[][].image", Value: []any{"main", "log", "init"}},
		},
		{"no item has it", `x: [for c in object.spec.containers if c.ports != _|_ {1}]`, rule.Value{Name: "object.spec.containers[].ports", Absent: true}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := cue.Compile(t.Context(), "object: _\npatches: []\n"+tt.source, cue.Override, cue.Options{})
			if p == nil {
				t.Fatalf("does not compile: %v", problems)
			}
			reading, err := p.Explain(&rule.Input{Request: &usher.Request{Operation: usher.Create}, Object: object})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]rule.Value{tt.want}, reading.Values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}
