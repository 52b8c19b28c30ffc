package cue_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

func TestReads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		source string
		want   []string
	}{
		{"what only declares reads nothing", `object: _`, nil},
		{"a selected path", `object: _, x: [object.metadata.name]`, []string{"object.metadata.name.*"}},
		{"both ways to select", `object: _, x: [object["metadata"]."name"]`, []string{"object.metadata.name.*"}},
		{"a label that is no identifier", `object: _, x: object.metadata.labels["a/b"] + "x"`, []string{`object.metadata.labels["a/b"].*`}},
		{"a name that nothing mentions", `object: _, x: object.metadata.name`, []string{"object.metadata.name"}},
		{"presence needs no content", `object: _, x: object.metadata.labels != _|_`, []string{"object.metadata.labels"}},
		{"a length needs members, not content", `object: _, x: len(object.spec.containers)`, []string{"object.spec.containers[]"}},
		{"a shadowed len is any function", `len: _, object: _, x: [len, object.spec]`, []string{"object.spec.*"}},
		{"loops read what is done with their variable", `object: _, x: [for c in object.spec.containers {c.image}]`, []string{"object.spec.containers[].image.*"}},
		{"loops over loops", `object: _, x: [for c in object.spec.containers for p in c.ports {p.n}]`, []string{"object.spec.containers[].ports[].n.*"}},
		{"a loop that looks at nothing counts", `object: _, x: [for c in object.spec.containers {1}]`, []string{"object.spec.containers[]"}},
		{"let clauses are followed", `object: _, let m = object.metadata, x: [m.name]`, []string{"object.metadata.name.*"}},
		{"names are followed", `object: _, m: object.metadata, x: [m.name]`, []string{"object.metadata.name.*"}},
		{"names of names are followed", `object: _, m: object.metadata, l: m.labels, x: [l.a]`, []string{"object.metadata.labels.a.*"}},
		{"a name that goes on as a whole", `object: _, m: object.metadata, x: {y: m}`, []string{"object.metadata.*"}},
		{"a name with another declaration", `object: _, m: object.metadata, m: {a: 1}`, []string{"object.metadata.*"}},
		{"a name with a declaration under a condition", `object: _, m: object.metadata, if true {m: {a: 1}}`, []string{"object.metadata.*"}},
		{"the output is read from outside", `object: _, patches: object.spec.patches`, []string{"object.spec.patches.*"}},
		{"names in a circle", `object: _, a: b, b: a, x: [object.kind]`, []string{"object.kind.*"}},
		{"computed indices read all members", `object: _, i: 1, x: [object.spec.list[i].name]`, []string{"object.spec.list[].name.*"}},
		{"constraints read what they constrain", `object: {spec: replicas: <5, ...}`, []string{"object.spec.replicas"}},
		{"patterns constrain every member", `object: metadata: labels: [string]: string`, []string{"object.metadata.labels[]"}},
		{"references in a declaration may go anywhere", `object: {a: b, b: int}`, []string{"object.*"}},
		{"an embedding may constrain anything", `object: _, {x: 1}`, []string{"object.*"}},
		{"a pattern at the top constrains parameters", `[string]: _, object: _`, []string{"object.*"}},
		{"an alias is not followed", `X=object: _, y: X.a`, []string{"object.*"}},
		{"a function gets its arguments whole", `import "list", object: _, x: list.Contains(object.spec.a, "b")`, []string{"object.spec.a.*"}},
		{"unification is not followed", `object: _, x: (object & {a: 1}).a`, []string{"object.*"}},
		{"a struct's own field of the same name", `object: _, x: {object: {a: 1}, y: object.a}`, nil},
		{"the larger need includes the smaller", `object: _, x: [object.spec], y: [object.spec.a]`, []string{"object.spec.*"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := cue.Compile(t.Context(), tt.source, cue.Override, cue.Options{})
			if p == nil {
				t.Fatalf("does not compile: %v", problems)
			}
			if diff := cmp.Diff(tt.want, p.Reads()); diff != "" {
				t.Errorf("reads (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadsSuffice runs every source over objects with something changed at random, and
// compares what it makes of the parts that it reads with what it makes of the whole.
func TestReadsSuffice(t *testing.T) {
	t.Parallel()
	inputs, rounds := samples(t), 40
	if testing.Short() {
		rounds = 10
	}
	for name, source := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var extra map[string]any
			p, _ := cue.Compile(t.Context(), source, formOf(name), cue.Options{
				ExtraParams: func(*rule.Input) (map[string]any, error) { return extra, nil },
			})
			if p == nil {
				t.Skip("does not compile")
			}
			// What it reads is what the evaluator gets.
			p = p.Slowly()
			whole := p.Whole()
			seed := fnv.New64()
			fmt.Fprint(seed, name)
			random := rand.New(rand.NewPCG(seed.Sum64(), 1))
			for range rounds {
				s := inputs[random.IntN(len(inputs))]
				in := s.input()
				in.Object, _ = change(random, s.Object).(map[string]any)
				if s.OldObject != nil {
					in.OldObject, _ = change(random, s.OldObject).(map[string]any)
				}
				extra = s.ExtraParams
				compare(t, name, p, whole, in)
			}
		})
	}
}

func compare(t *testing.T, name string, p, whole *cue.Program, in *rule.Input) {
	t.Helper()
	got, gotErr := p.Run(context.Background(), in)
	want, wantErr := whole.Run(context.Background(), in)
	if diff := cmp.Diff(resultOf(t, name, want, wantErr), resultOf(t, name, got, gotErr)); diff != "" {
		raw, _ := usher.TreeObject(in.Object).Raw()
		t.Errorf("results differ (-whole +parts):\n%s\nof %s\nwhole: %v\nparts: %v", diff, raw, wantErr, gotErr)
	}
}

// change returns a copy of a tree in which one value, or rarely none, is another.
func change(random *rand.Rand, tree any) any {
	others := []any{nil, "", "app:1", true, int64(0), int64(7), 2.5, map[string]any{}, []any{},
		map[string]any{"name": "x", "team": "red"}, []any{map[string]any{"name": "y"}, "z"}}
	switch v := tree.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		changed := make(map[string]any, len(v))
		for key, value := range v {
			keys = append(keys, key)
			changed[key] = value
		}
		sort.Strings(keys)
		if len(keys) == 0 {
			return changed
		}
		key := keys[random.IntN(len(keys))]
		switch random.IntN(6) {
		case 0:
			delete(changed, key)
		case 1:
			changed[key] = others[random.IntN(len(others))]
		default:
			changed[key] = change(random, v[key])
		}
		return changed
	case []any:
		changed := append([]any{}, v...)
		if len(changed) == 0 || random.IntN(6) == 0 {
			return append(changed, others[random.IntN(len(others))])
		}
		i := random.IntN(len(changed))
		if random.IntN(6) == 0 {
			return append(changed[:i:i], changed[i+1:]...)
		}
		changed[i] = change(random, changed[i])
		return changed
	}
	return others[random.IntN(len(others))]
}
