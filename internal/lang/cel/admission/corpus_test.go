package admission_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// source has the variables that expressions see.
var source = admission.Code{Params: true, Variables: []admission.Named{
	{Name: "text", Expression: "object.metadata.name"}, {Name: "chain", Expression: "variables.text + '!'"}, {Name: "number", Expression: "3"}, {Name: "half", Expression: "0.5"},
	{Name: "list", Expression: "[1, 2, 3]"}, {Name: "names", Expression: "object.?spec.?names.orValue(['x'])"}, {Name: "labels", Expression: "object.?metadata.?labels.orValue({})"},
	{Name: "option", Expression: "object.?metadata.?name"}, {Name: "yes", Expression: "variables.number > 2"}, {Name: "nil", Expression: "null"},
	{Name: "moment", Expression: "timestamp('2024-02-29T12:00:00Z')"}, {Name: "span", Expression: "duration('90m')"},
	{Name: "broken", Expression: "object.spec.nowhere.more == 1"}, {Name: "uncompiled", Expression: "object."},
}}

// A pair is an expression with both its programs.
type pair struct {
	text     string
	upstream plugincel.ConditionEvaluator
	program  *admission.Corpus
	index    int
	// slip makes a mistake on purpose; it is nil where there is none.
	slip *slip
}

// usher is what Usher answers.
func (p *pair) usher(t testing.TB, s *situation, budget int64) answer {
	t.Helper()
	if p.slip != nil {
		return p.slip.answer(t, p, s, budget)
	}
	return s.usher(t, p.program, p.index, budget)
}

func pairs(t testing.TB, s admission.Code, texts ...string) []pair {
	t.Helper()
	o := newOracle(t, s.Variables)
	program, err := admission.CompileAny(s, texts...)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]pair, len(texts))
	for i, text := range texts {
		all[i] = pair{text: text, upstream: o.compile(text), program: program, index: i}
	}
	return all
}

// A tally counts what was compared.
type tally struct {
	pairs, values, errors, stopped, uncompiled, budgets, varying, panics, bounded int
}

const (
	wholeBudget = 10_000_000
	// repeats is how often upstream is asked again for an answer that it may also give: it iterates
	// over maps in random order. Of two entries the second comes first once in eight times.
	repeats = 200
)

// compare requires the same answer of both, and that they stop at the same budget.
func (p *pair) compare(t testing.TB, s *situation, count *tally) answer {
	t.Helper()
	if p.upstream == nil {
		count.panics++
		if got := p.usher(t, s, wholeBudget); !strings.Contains(got.Err, "the compiler panicked") {
			t.Errorf("%s: upstream panics, but usher: %v", p.text, got)
		}
		return answer{}
	}
	want := s.upstream(p.upstream, wholeBudget)
	got := p.usher(t, s, wholeBudget)
	count.pairs++
	if !s.mayAnswer(p.upstream, wholeBudget, want, got) {
		t.Errorf("%s: %s\nupstream: %v\nusher:    %v", s.name, p.text, want, got)
		return want
	}
	p.compareUncounted(t, s, want, count)
	switch {
	case want.Stopped != "":
		count.stopped++
	case strings.Contains(want.Err, "compilation error"):
		count.uncompiled++
		return want
	case want.Err != "":
		count.errors++
	default:
		count.values++
	}
	p.compareBudgets(t, s, want, count)
	return want
}

// mayAnswer reports whether upstream answers as Usher, now or when it is asked again. Answers of
// upstream that vary tell nothing: a large map has more orders than can be waited for.
func (s *situation) mayAnswer(e plugincel.ConditionEvaluator, budget int64, upstream, usher answer) bool {
	first, varies := upstream.String(), false
	for range repeats {
		if upstream.String() == usher.String() {
			return true
		}
		upstream = s.upstream(e, budget)
		varies = varies || upstream.String() != first
	}
	return varies
}

// compareUncounted requires that the cost is within its bound, and that there is the same answer with
// only what the expression is said to read; without counting, if the bound is within the limits.
func (p *pair) compareUncounted(t testing.TB, s *situation, want answer, count *tally) {
	t.Helper()
	const limit = 1_000_000
	in := s.input()
	counted := s.ask(t, &in, func() (admission.Outcome, int64, error) {
		value, left, err := p.program.ValueOf(t.Context(), &in, p.index, math.MaxInt64)
		return value, math.MaxInt64 - left, err
	})
	bound := p.program.Bound(&in, p.index)
	part := in
	object, old := p.program.ReadPaths(p.index)
	part.Object, part.OldObject = partOf(t, in.Object, object), partOf(t, in.OldObject, old)
	if ofPart := p.program.Bound(&part, p.index); float64(counted.Cost) > min(bound, ofPart) {
		t.Errorf("%s: %s\ncosts %d, more than its bound %v, of what it reads %v", s.name, p.text, counted.Cost, bound, ofPart)
	}
	evaluate := func(in *admission.Input) answer {
		return s.ask(t, in, func() (admission.Outcome, int64, error) {
			if bound > limit {
				value, _, err := p.program.ValueOf(t.Context(), in, p.index, wholeBudget)
				return value, 0, err
			}
			value, err := p.program.PlainValueOf(t.Context(), in, p.index)
			return value, 0, err
		})
	}
	if bound <= limit {
		count.bounded++
		if got := evaluate(&in); !s.mayAnswer(p.upstream, wholeBudget, want, got) {
			t.Errorf("%s: %s\nupstream:               %v\nusher without counting: %v", s.name, p.text, want, got)
		}
	}
	if got := evaluate(&part); !s.mayAnswer(p.upstream, wholeBudget, want, got) {
		t.Errorf("%s: %s\nupstream:                   %v\nusher without other fields: %v", s.name, p.text, want, got)
	}
}

// partOf returns what there is of a tree at paths.
func partOf(t testing.TB, tree map[string]any, paths *usher.Paths) map[string]any {
	t.Helper()
	if tree == nil {
		return nil
	}
	raw, err := usher.TreeObject(tree).Raw()
	if err != nil {
		t.Fatal(err)
	}
	part, err := usher.RawObject(raw).Part(paths)
	if err != nil {
		t.Fatal(err)
	}
	return part
}

// compareBudgets requires that what upstream counts is just enough.
func (p *pair) compareBudgets(t testing.TB, s *situation, want answer, count *tally) {
	t.Helper()
	if want.Stopped != "" {
		return
	}
	for range 3 {
		if again := s.upstream(p.upstream, math.MaxInt64); again != want {
			// The cost depends on the order of a map.
			count.varying++
			return
		}
	}
	for _, budget := range []int64{want.Cost, want.Cost - 1} {
		if budget < 0 {
			continue
		}
		count.budgets++
		upstream, got := s.upstream(p.upstream, budget), p.usher(t, s, budget)
		if !s.mayAnswer(p.upstream, budget, upstream, got) {
			t.Errorf("%s: %s\nwith a budget of %d, where upstream counts %d:\nupstream: %v\nusher:    %v", s.name, p.text, budget, want.Cost, upstream, got)
		}
	}
}

func newKubernetesGrammar() *grammar {
	return newGrammar(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv())
}

// never are productions that have no value, each with its reason.
var never = map[string]string{"int64_to_duration": "no integer can be converted"}

// TestProductions compares calls of every function, operator and macro with upstream's evaluator:
// values, texts of errors, and the budgets that are just enough. Each gives a value at least once.
func TestProductions(t *testing.T) {
	t.Parallel()
	const rounds = 12
	gr := newKubernetesGrammar()
	all := situations(t, 12)
	g := seeded(gr, 1)
	var count tally
	left := gr.all
	for round := range rounds {
		var texts, families []string
		for i := range 2 * len(left) {
			texts = append(texts, g.from(left[i/2], 1+(i+round)%3))
			families = append(families, g.family)
		}
		hasValue := map[*production]bool{}
		for i, p := range pairs(t, source, texts...) {
			if p.compare(t, all[families[i]][(i+round)%12], &count).Value != "" {
				hasValue[left[i/2]] = true
			}
		}
		left = slices.DeleteFunc(slices.Clone(left), func(p *production) bool { return hasValue[p] })
	}
	for _, p := range left {
		if never[p.id] == "" {
			t.Errorf("%s, which is %s, never had a value", p.name, p.id)
		}
	}
	if len(left) < len(never) {
		t.Errorf("only %d productions never had a value: remove the others from never", len(left))
	}
	t.Logf("%d productions: %+v", len(gr.all), count)
	if len(gr.all) < 300 {
		t.Errorf("only %d productions", len(gr.all))
	}
}

// TestCorpus compares generated expressions over generated objects with upstream's evaluator.
func TestCorpus(t *testing.T) {
	t.Parallel()
	all := situations(t, 12)
	g := seeded(newKubernetesGrammar(), 2)
	var texts, families []string
	for range 600 {
		texts = append(texts, g.expression())
		families = append(families, g.family)
	}
	var count tally
	for i, p := range pairs(t, source, texts...) {
		of := all[families[i]]
		for n := range 3 {
			p.compare(t, of[(i+4*n)%len(of)], &count)
		}
	}
	t.Logf("%+v", count)
	if count.values < count.pairs/3 || count.errors < count.pairs/20 || count.uncompiled < count.pairs/100 {
		t.Errorf("the corpus shows little: %+v", count)
	}
}
