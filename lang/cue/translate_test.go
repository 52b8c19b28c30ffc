package cue_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/lang/cue"
	"github.com/usher-dev/usher/rule"
)

// TestTranslationAgrees runs every source of the corpus over objects with something changed
// at random, and compares what closures make of them with what the evaluator does.
func TestTranslationAgrees(t *testing.T) {
	t.Parallel()
	inputs, rounds := samples(t), 30
	if testing.Short() {
		rounds = 5
	}
	for name, source := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var extra map[string]any
			p, _ := cue.Compile(source, formOf(name), cue.Options{
				ExtraParams: func(*rule.Input) (map[string]any, error) { return extra, nil },
			})
			if p == nil || p.Obstacle() != "" {
				return
			}
			seed := fnv.New64()
			fmt.Fprint(seed, name)
			random := rand.New(rand.NewPCG(seed.Sum64(), 2))
			for i := range len(inputs) + rounds {
				s := inputs[i%len(inputs)]
				in := s.input()
				if i >= len(inputs) {
					in.Object, _ = change(random, s.Object).(map[string]any)
				}
				extra = s.ExtraParams
				agree(t, p, in)
			}
		})
	}
}

// agree checks that the closures of p say of an input what the evaluator says, if they
// say anything, and reports whether they do.
func agree(t testing.TB, p *cue.Program, in *rule.Input) bool {
	t.Helper()
	got, ok := p.Closures(in)
	if !ok {
		return false
	}
	want, err := p.Slowly().Run(context.Background(), in)
	if limited(err) {
		return true
	}
	object, _ := usher.TreeObject(in.Object).Raw()
	if err != nil {
		t.Errorf("closures say %v, the evaluator %v\nof %s", got, err, object)
		return true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes differ (-evaluator +closures):\n%s\nof %s", diff, object)
	}
	return true
}
