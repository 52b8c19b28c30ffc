package cel_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// TestLimit compares limits with what they are limits of.
func TestLimit(t *testing.T) {
	t.Parallel()
	within := map[string]func(s cel.Size) bool{
		"a total":        func(s cel.Size) bool { return s.Total <= 700 },
		"a square":       func(s cel.Size) bool { return float64(s.Total)*float64(s.Total) <= 1e6 },
		"lists in lists": func(s cel.Size) bool { return float64(s.Total)*float64(s.Longest) <= 1e5 },
		"lists":          func(s cel.Size) bool { return s.Longest <= 600 },
		"nothing":        func(cel.Size) bool { return false },
		"everything":     func(cel.Size) bool { return true },
	}
	for reason, f := range within {
		limit := cel.LimitOf(f)
		included := 0
		for _, longest := range []int{0, 1, 31, 32, 33, 100, 511, 512, 513, 600, 601, 1000} {
			for _, total := range []int{0, 1, 10, 31, 32, 33, 195, 196, 316, 317, 511, 699, 700, 701, 1000, 1001, 3125, 3126, 100_000} {
				s := cel.Size{Total: total, Longest: min(total, longest)}
				if limit.Includes(s) {
					if included++; !f(s) {
						t.Errorf("%s: includes %+v", reason, s)
					}
				}
				if exact := (cel.Size{Total: total, Longest: 32}); total >= 32 && limit.Includes(exact) != f(exact) {
					t.Errorf("%s: %+v: included %t", reason, exact, limit.Includes(exact))
				}
			}
		}
		if (included == 0) != (reason == "nothing") || limit.None() != (reason == "everything") {
			t.Errorf("%s: includes %d, no limit %t", reason, included, limit.None())
		}
	}
}
