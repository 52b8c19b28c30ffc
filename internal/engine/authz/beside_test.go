package authz_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// randomPolicies returns the rules of some policies, whose names are numbers.
func randomPolicies(random *rand.Rand, numbers []int) []*authz.Rule {
	var rules []*authz.Rule
	for _, n := range numbers {
		p := policy(fmt.Sprint(n), authz.Tiers()[1+random.IntN(3)], authz.Effect(random.IntN(3)))
		if random.IntN(4) == 0 {
			audit(p)
		}
		if random.IntN(3) == 0 {
			source := random.IntN(4)
			unless(fmt.Sprint("source", source), says{holds: source%2 == 0})(p)
		}
		if random.IntN(3) == 0 {
			p.SkipErrors = random.IntN(2) == 0
			when(fmt.Sprint("broken", random.IntN(4)), says{err: errBroken})(p)
		}
		for i := range 1 + random.IntN(2) {
			r := everything(p, fmt.Sprint("spec.rules[", i, "]"))
			if random.IntN(3) == 0 {
				r.Verbs = set("list")
			}
			rules = append(rules, r)
		}
	}
	return rules
}

// TestBeside: an engine beside another decides as one that has all the rules.
func TestBeside(t *testing.T) {
	t.Parallel()
	differ := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		base := scan(randomPolicies(random, random.Perm(6)[:random.IntN(6)]))
		authz.Sort(base)
		numbers := random.Perm(8)[:random.IntN(4)]
		other := randomPolicies(random, numbers)
		leftOut := map[usher.PolicyRef]bool{}
		for _, n := range append(numbers, random.IntN(6)) {
			leftOut[policy(fmt.Sprint(n), 0, 0).Ref] = true
		}
		all := slices.Concat(slices.DeleteFunc(slices.Clone(base), func(r *authz.Rule) bool { return leftOut[r.Policy.Ref] }), other)
		authz.Sort(all)
		was := engine.New(base, engine.Options{})
		beside, whole := was.Beside(leftOut, other), engine.New(all, engine.Options{})
		for range 2 {
			got, err := beside.Decide(t.Context(), request("jane"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := whole.Decide(t.Context(), request("jane"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
				t.Fatalf("seed %d: -whole +beside:\n%s", seed, diff)
			}
			before, err := was.Decide(t.Context(), request("jane"))
			if err != nil {
				t.Fatal(err)
			}
			if before.Verdict != got.Verdict {
				differ++
			}
		}
	}
	if differ < 500 {
		t.Errorf("only %d decisions differ from those of the base", differ)
	}
}
