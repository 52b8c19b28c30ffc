package admission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// A slip is a mistake in the meaning of CEL. Comparisons have to notice it.
type slip struct {
	name string
	// about are the productions that show it; all if it is empty.
	about string
	// rewrite evaluates a call as another one.
	rewrite func(p *production, args []string) (string, bool)
	// see changes what expressions see of objects.
	see func(value any) any
	// say changes an answer.
	say func(answer) answer
	// more is added to each budget.
	more int64
	// source has the variables; it is nil for those that upstream has.
	source *admission.Code
	// texts are what upstream evaluates where Usher evaluates another text.
	texts map[string]string
	// written is the number of expressions; programs have them as they are written behind those that
	// are evaluated.
	written int
}

func (s *slip) answer(t testing.TB, p *pair, of *situation, budget int64) answer {
	t.Helper()
	seen := *of
	if s.see != nil {
		seen.object, seen.old = changed(of.object, s.see), changed(of.old, s.see)
	}
	a := seen.usher(t, p.program, p.index, budget+s.more)
	if strings.Contains(a.Err, "compilation error") {
		// That another text does not compile is no mistake of an evaluator.
		a = seen.usher(t, p.program, p.index+s.written, budget+s.more)
	}
	if evaluated := s.texts[p.text]; evaluated != "" {
		a.Err = strings.ReplaceAll(a.Err, evaluated, p.text)
	}
	if s.say != nil {
		a = s.say(a)
	}
	return a
}

func changed(tree map[string]any, change func(any) any) map[string]any {
	if tree == nil {
		return nil
	}
	return deeply(tree, change).(map[string]any)
}

// deeply changes each value of a tree. Members whose value becomes a gone are left out.
func deeply(value any, change func(any) any) any {
	switch v := value.(type) {
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, member := range v {
			if member = deeply(member, change); member != (gone{}) {
				made[key] = member
			}
		}
		return change(made)
	case []any:
		made := make([]any, len(v))
		for i := range v {
			if made[i] = deeply(v[i], change); made[i] == (gone{}) {
				made[i] = nil
			}
		}
		return change(made)
	}
	return change(value)
}

type gone struct{}

// calls rewrites the calls of one function.
func calls(name string, write func(args []string) string) func(*production, []string) (string, bool) {
	return func(p *production, args []string) (string, bool) {
		if p.name != name {
			return "", false
		}
		return write(args), true
	}
}

// slips are mistakes that an evaluator of its own could make.
func slips() []slip {
	inlined := admission.Code{Params: true}
	for _, v := range source.Variables {
		inlined.Variables = append(inlined.Variables, admission.Named{Name: v.Name, Expression: strings.ReplaceAll(v.Expression, "variables.text + '!'", "object.metadata.name + '!'")})
	}
	return []slip{
		{name: "has of null is false", see: func(v any) any {
			if v == nil {
				return gone{}
			}
			return v
		}},
		{name: "integers are doubles", see: func(v any) any {
			if n, ok := v.(int64); ok {
				return float64(n)
			}
			return v
		}},
		{name: "an empty list is absent", see: func(v any) any {
			if list, ok := v.([]any); ok && len(list) == 0 {
				return gone{}
			}
			return v
		}},
		{name: "lastIndexOf finds the first", about: "lastIndexOf", rewrite: calls("lastIndexOf", func(args []string) string {
			return args[0] + ".indexOf(" + strings.Join(args[1:], ", ") + ")"
		})},
		{name: "|| evaluates its right side first", about: operators.LogicalOr, rewrite: calls(operators.LogicalOr, func(args []string) string { return "(" + args[1] + " || " + args[0] + ")" })},
		{name: "&& does not hide an error of its left side", about: operators.LogicalAnd, rewrite: calls(operators.LogicalAnd, func(args []string) string { return "(" + args[0] + " ? " + args[1] + " : false)" })},
		{name: "< is <=", about: operators.Less, rewrite: calls(operators.Less, func(args []string) string { return "(" + args[0] + " <= " + args[1] + ")" })},
		{name: "numbers of different types are not equal", about: operators.Equals, rewrite: calls(operators.Equals, func(args []string) string {
			return "(type(" + args[0] + ") == type(" + args[1] + ") && " + args[0] + " == " + args[1] + ")"
		})},
		{name: "the size of a text is that of its bytes", about: "size", rewrite: func(p *production, args []string) (string, bool) {
			return "size(bytes(" + strings.Join(args, ", ") + "))", p.id == "size_string"
		}},
		{name: "matches matches all of the text", about: "matches", rewrite: calls("matches", func(args []string) string {
			if len(args) < 2 {
				return "false"
			}
			return args[0] + ".matches('^(' + " + args[1] + " + ')$')"
		})},
		{name: "a quantity is less that is greater", about: "isLessThan", rewrite: func(p *production, args []string) (string, bool) {
			if p.id != "quantity_is_less_than" {
				return "", false
			}
			return "(" + args[0] + ".asApproximateFloat() > " + args[1] + ".asApproximateFloat())", true
		}},
		{name: "the text of a missing key", say: func(a answer) answer {
			a.Err = strings.ReplaceAll(a.Err, "no such key", "no such field")
			return a
		}},
		{name: "the budget is one more", more: 1},
		{name: "the budget is one less", more: -1},
		{name: "a variable is computed again for another", source: &inlined},
	}
}

// A witness notes that a comparison has noticed something.
type witness struct {
	testing.TB

	noticed []string
}

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, _ ...any) { w.noticed = append(w.noticed, format) }

// TestSlips makes mistakes on purpose. The comparison with upstream must notice each.
func TestSlips(t *testing.T) {
	t.Parallel()
	gr := newKubernetesGrammar()
	all := situations(t, 12)
	for _, s := range append(slips(), slip{name: "none"}) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const batches = 20
			w := &witness{TB: t}
			for batch := uint64(0); batch < batches && len(w.noticed) == 0; batch++ {
				s.compare(t, w, gr, all, 100+batch)
				if s.name == "none" && batch == 2 {
					break
				}
			}
			if s.name == "none" {
				if len(w.noticed) > 0 {
					t.Error("something is noticed although there is no mistake")
				}
				return
			}
			if len(w.noticed) == 0 {
				t.Error("nobody noticed")
			}
		})
	}
}

// compare compares some expressions with the mistake.
func (s *slip) compare(t *testing.T, w *witness, gr *grammar, all map[string][]*situation, seed uint64) {
	t.Helper()
	texts, families := s.write(seeded(gr, seed), gr)
	mistaken := seeded(gr, seed)
	mistaken.rewrite = s.rewrite
	evaluated, _ := s.write(mistaken, gr)
	s.texts = map[string]string{}
	for i := range texts {
		s.texts[texts[i]] = evaluated[i]
	}
	variables := source
	if s.source != nil {
		variables = *s.source
	}
	s.written = len(texts)
	program, err := admission.CompileAny(variables, append(evaluated, texts...)...)
	if err != nil {
		t.Fatal(err)
	}
	var count tally
	o := newOracle(t, source.Variables)
	for i, text := range texts {
		p := pair{text: text, upstream: o.compile(text), program: program, index: i, slip: s}
		for n := range 3 {
			p.compare(w, all[families[i]][(i+4*n)%12], &count)
		}
	}
}

// write returns expressions that may show the mistake.
func (s *slip) write(g *generator, gr *grammar) (texts, families []string) {
	about := gr.all
	if s.about != "" {
		about = slices.DeleteFunc(slices.Clone(about), func(p *production) bool { return p.name != s.about })
	}
	for i := range 30 {
		if s.about != "" || i%2 == 0 {
			texts = append(texts, g.from(about[g.IntN(len(about))], 1+i%2))
		} else {
			texts = append(texts, g.expression())
		}
		families = append(families, g.family)
	}
	if s.source != nil {
		texts, families = append(texts, "variables.chain + variables.text"), append(families, "widget")
	}
	return texts, families
}
