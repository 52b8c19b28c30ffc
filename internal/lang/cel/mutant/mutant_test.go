package mutant_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/cel/mutant"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, expression string
		want               []string
	}{
		{"comparisons", "object.spec.replicas <= 3", []string{"object.spec.replicas < 3", "object.spec.replicas <= 4"}},
		{"clauses", "a.b && c.d && !e", []string{"a.b && !e", "c.d && !e", "a.b && c.d", "a.b && c.d && e", "!e"}},
		{"branches", "a == 'x' ? b : c", []string{"c", "b", `(a != "x") ? b : c`, `(a == "x-mutant") ? b : c`}},
		{"items, each as a clause", "a in ['x', 'y']", []string{`a in ["y"]`, `a in ["x"]`, `a in ["x-mutant", "y"]`, `a in ["x", "y-mutant"]`}},
		{"macros stay as they are", "a.all(c, has(c.b) && c.b > 1.5)", []string{
			"a.exists(c, has(c.b) && c.b > 1.5)", "a.all(c, c.b > 1.5)", "a.all(c, has(c.b))", "a.all(c, has(c.b) && c.b >= 1.5)", "a.all(c, has(c.b) && c.b > 2.5)",
		}},
		{"optionals", "a.?b[?'c'].orValue('') == '' || a.?d.orValue(false)", []string{
			`a.?d.orValue(false)`, `a.?b[?"c"].orValue("") == ""`, `a.?b[?"c"].orValue("") != "" || a.?d.orValue(false)`,
			`a.?b[?"c-mutant"].orValue("") == "" || a.?d.orValue(false)`, `a.?b[?"c"].orValue("") == "-mutant" || a.?d.orValue(false)`,
			`a.?b[?"c"].orValue("") == "" || a.?d.orValue(true)`,
		}},
		{"lists that are added, by what is asked of them", "(a.b + a.c).all(d, d.e)", []string{"(a.b + a.c).exists(d, d.e)", "a.b.all(d, d.e)", "a.c.all(d, d.e)"}},
		{"or by an item of them", "a in b + c.d", []string{"a in b", "a in c.d"}},
		{"or by one of them", "a.b + a.?c.orValue([]) + a.d", []string{"a.b + a.?c.orValue([])", "a.d", "a.b + a.d", "a.?c.orValue([]) + a.d"}},
		{"filtered lists, and lists of some cases", "a + (b ? [c] : []) + d.filter(e, e.f)", []string{
			"a + (b ? [c] : [])", "d.filter(e, e.f)", "a + d.filter(e, e.f)", "(b ? [c] : []) + d.filter(e, e.f)", "a + [c] + d.filter(e, e.f)", "a + [] + d.filter(e, e.f)",
		}},
		{"texts and numbers that are added", "a.b + a.c == a.?d.orValue('')", []string{`a.b + a.c != a.?d.orValue("")`}},
		{"a syntax error", "a ==", nil},
		{"nothing to change", "object.spec.enabled", nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			got := map[string]bool{}
			for _, m := range mutant.Of(test.expression) {
				if m.Change == "" || got[m.Expression] {
					t.Errorf("%q: no change, or twice", m.Expression)
				}
				got[m.Expression] = true
			}
			want := map[string]bool{}
			for _, w := range test.want {
				want[w] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
