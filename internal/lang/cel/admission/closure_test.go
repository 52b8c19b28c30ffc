package admission_test

import (
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// namesOfTypes makes names of types in errors those that API servers tell: cel-go names the types of trees.
var namesOfTypes = strings.NewReplacer("cel.tree", "*types.baseMap", "*cel.list", "*types.baseList", "*types.concatList", "*types.baseList")

// agree requires the same values and errors of closures and of cel-go, and returns that of cel-go.
func agree(t testing.TB, p *admission.Corpus, i int, text string, s *situation) answer {
	t.Helper()
	in := s.input()
	interpreted := func() answer {
		a := s.ask(t, &in, func() (admission.Outcome, int64, error) {
			value, _, err := p.ValueOf(t.Context(), &in, i, wholeBudget)
			return value, 0, err
		})
		a.Err = namesOfTypes.Replace(a.Err)
		return a
	}
	want := interpreted()
	got := s.ask(t, &in, func() (admission.Outcome, int64, error) {
		value, err := p.PlainValueOf(t.Context(), &in, i)
		return value, 0, err
	})
	got.Err = namesOfTypes.Replace(got.Err)
	for range repeats {
		if want == got {
			return want
		}
		// The order of maps may be another one.
		want = interpreted()
	}
	t.Errorf("%s: %s\ncel-go:   %v\nclosures: %v", s.name, text, want, got)
	return want
}

// distorted returns the situation with other objects: some values have another type, or are absent.
func (s *situation) distorted(r *rand.Rand) *situation {
	other := *s
	change := func(v any) any {
		switch r.IntN(24) {
		case 0:
			return []any{nil, "web", int64(1), 1.0, 0.5, true, false, []any{}, map[string]any{}, "", []any{nil, int64(1), 1.0, "a"}, map[string]any{"a": nil}}[r.IntN(12)]
		case 1:
			return gone{}
		}
		return v
	}
	other.object, other.old, other.paramed = distorted(s.object, change), distorted(s.old, change), distorted(s.paramed, change)
	return &other
}

// distorted is a tree that is still a map.
func distorted(tree map[string]any, change func(any) any) map[string]any {
	if tree == nil {
		return nil
	}
	made := make(map[string]any, len(tree))
	for key, value := range tree {
		if value = deeply(value, change); value != (any)(gone{}) {
			made[key] = value
		}
	}
	return made
}

var (
	expressions = flag.Int("expressions", 1500, "how many expressions to compare with cel-go")
	from        = flag.Int("from", 1000, "which expressions those are")
)

// TestClosures compares generated expressions with what cel-go makes of them.
func TestClosures(t *testing.T) {
	t.Parallel()
	const batch = 100
	all := situations(t, 12)
	var count tally
	gr := newKubernetesGrammar()
	for first := *from; first < *from+*expressions; first += batch {
		g := seeded(gr, uint64(first))
		var texts, families []string
		for i := range batch {
			if i%3 == 0 {
				texts = append(texts, g.from(gr.all[(first+i)%len(gr.all)], 1+i%3))
			} else {
				texts = append(texts, g.expression())
			}
			families = append(families, g.family)
		}
		p, err := admission.CompileBoth(source, texts...)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(first), 4))
		for i, text := range texts {
			of := all[families[i]]
			for _, s := range []*situation{of[(first+i)%len(of)], of[r.IntN(len(of))].distorted(r)} {
				count.add(agree(t, p, i, text, s))
			}
		}
	}
	t.Logf("%+v", count)
	if count.values < count.pairs/3 || count.errors < count.pairs/20 {
		t.Errorf("the corpus shows little: %+v", count)
	}
}

func (c *tally) add(a answer) {
	c.pairs++
	switch {
	case strings.Contains(a.Err, "compilation error"):
		c.uncompiled++
	case a.Err != "":
		c.errors++
	case a.Stopped != "":
		c.stopped++
	default:
		c.values++
	}
}

// FuzzClosures turns bytes into expressions, and a number into an object, and compares what closures and
// cel-go make of them.
func FuzzClosures(f *testing.F) {
	gr := newKubernetesGrammar()
	addChoices(f, 7, 16)
	f.Fuzz(func(t *testing.T, seed uint16, choices []byte) {
		texts, families := gr.chosen(choices, 32)
		p, err := admission.CompileBoth(source, texts...)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		of := map[string]*situation{"widget": fuzzed(t, "widget", uint64(seed)), "pod": fuzzed(t, "pod", uint64(seed))}
		for i, text := range texts {
			agree(t, p, i, text, of[families[i]])
			agree(t, p, i, text, of[families[i]].distorted(r))
		}
	})
}

// A written is what policies have in common of which this package knows.
type written struct {
	Spec struct {
		Variables        []admission.Named
		MatchConditions  []admission.Named
		Validations      []struct{ Expression, MessageExpression string }
		AuditAnnotations []struct{ ValueExpression string }
		Mutations        []struct {
			JSONPatch, ApplyConfiguration struct{ Expression string }
		}
	}
}

// expressions are those of a policy that see its variables.
func (w *written) expressions() []string {
	var texts []string
	for _, c := range w.Spec.MatchConditions {
		texts = append(texts, c.Expression)
	}
	for _, v := range w.Spec.Validations {
		texts = append(texts, v.Expression, v.MessageExpression)
	}
	for _, a := range w.Spec.AuditAnnotations {
		texts = append(texts, a.ValueExpression)
	}
	for _, m := range w.Spec.Mutations {
		texts = append(texts, m.JSONPatch.Expression, m.ApplyConfiguration.Expression)
	}
	for _, v := range w.Spec.Variables {
		texts = append(texts, "variables."+v.Name)
	}
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// TestClosuresOfPolicies compares the expressions of all policies in this repository.
func TestClosuresOfPolicies(t *testing.T) {
	t.Parallel()
	all := situations(t, 12)
	var count tally
	for i, w := range policiesWritten(t, "library", "examples", "docs", "internal/compile", "internal/trial", "internal/convert") {
		texts := w.expressions()
		p, err := admission.CompileBoth(admission.Code{Params: true, Variables: w.Spec.Variables}, texts...)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(i), 6))
		for j, text := range texts {
			for _, s := range []*situation{all["pod"][r.IntN(12)], all["pod"][r.IntN(12)].distorted(r), all["widget"][r.IntN(12)]} {
				count.add(agree(t, p, j, text, s))
			}
		}
	}
	t.Logf("%+v", count)
	if count.values < 500 || count.errors < 100 || count.uncompiled > count.pairs/4 {
		t.Errorf("the policies show little: %+v", count)
	}
}

// policiesWritten returns the policies in folders of this repository.
func policiesWritten(t testing.TB, folders ...string) []written {
	t.Helper()
	var all []written
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join("../../../..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for document := range strings.SplitSeq(string(text), "\n---") {
				var w written
				if yaml.Unmarshal([]byte(document), &w) == nil && len(w.expressions()) > 0 {
					all = append(all, w)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
