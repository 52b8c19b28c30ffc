package index_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	v1  = "v1"
	pod = "Pod"
)

func TestMatchingFindsWhatScanFinds(t *testing.T) {
	t.Parallel()
	matches, subjects, byResource := 0, 0, 0
	for seed := range uint64(2000) {
		g := &generator{bytes: noise(seed, 1200)}
		ix := index.New(g.rules())
		for range 8 {
			s := g.subject()
			subjects++
			for _, r := range compare(t, ix, &s) {
				matches++
				if len(r.Match.Resources) > 0 {
					byResource++
				}
			}
		}
	}
	// A generator whose rules and subjects never meet proves nothing.
	if matches < subjects || byResource < subjects/4 {
		t.Errorf("%d matches, %d of them by resource, for %d subjects: the generator makes too few", matches, byResource, subjects)
	}
}

func TestUpdateFindsWhatScanFinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		g := &generator{bytes: noise(seed, 1600)}
		rules := g.rules()
		ix := index.New(rules)
		for range 6 {
			rules = slices.Clone(rules)
			switch i := g.below(len(rules)); g.below(4) {
			case 0: // another program
				rules[i].Name += "'"
			case 1: // the same match, decoded again
				rules[i].Match.Operations = slices.Clone(rules[i].Match.Operations)
				rules[i].Match.Selectors = slices.Clone(rules[i].Match.Selectors)
				rules[i].Match.Resources = slices.Clone(rules[i].Match.Resources)
			case 2:
				rules[i] = rule.Rule{Phase: g.phase(), Pass: g.pass(), Match: g.match()}
			case 3:
				rules = slices.Insert(rules, i, rule.Rule{Phase: g.phase(), Pass: g.pass(), Match: g.match()})
			}
			ix = index.Update(ix, rules)
			if len(ix.Rules()) != len(rules) || &ix.Rules()[0] != &rules[0] {
				t.Fatal("the rules are not those that were given")
			}
			s := g.subject()
			compare(t, ix, &s)
		}
	}
}

func FuzzIndex(f *testing.F) {
	for seed := range uint64(32) {
		f.Add(noise(seed, 64<<(seed%5)))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		g := &generator{bytes: bytes}
		ix := index.New(g.rules())
		for range 3 {
			s := g.subject()
			compare(t, ix, &s)
		}
	})
}

// compare returns the rules of all phases and passes that match s.
func compare(t *testing.T, ix *index.Index, s *rule.Target) []*rule.Rule {
	t.Helper()
	var all []*rule.Rule
	for _, phase := range []usher.Phase{usher.Authorize, usher.Mutate, usher.Validate} {
		found := 0
		asked := *s.Request()
		asked.Phase, asked.Kind = phase, schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		part := partOf(t, s, ix.ReadPaths(&asked))
		for _, pass := range []int{-3, 0, 1} {
			before := []*rule.Rule{nil}
			got, want := ix.Matching(before, phase, pass, s), ix.Scan(before, phase, pass, s)
			if again := ix.Matching(before, phase, pass, part); !slices.Equal(again, want) {
				t.Fatalf("%s/%d, %+v: of what ReadPaths says %v match, of all %v", phase, pass, s, lines(again[1:]), lines(want[1:]))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s/%d, %+v:\nMatching %v\nScan     %v\nof %v", phase, pass, s, lines(got[1:]), lines(want[1:]), rules(ix))
			}
			all = append(all, got[1:]...)
			found += len(got) - 1
			if len(got) > 1 && !slices.Contains(ix.Passes(phase), pass) {
				t.Fatalf("pass %d of %s has rules, but is not one of %v", pass, phase, ix.Passes(phase))
			}
		}
		if found > 0 && !ix.MayMatch(&asked) {
			t.Fatalf("MayMatch says that no rule is for %+v, but %d match", asked, found)
		}
	}
	return all
}

// partOf returns the subject with no more of its object than lies at the paths.
func partOf(t *testing.T, s *rule.Target, paths *usher.Paths) *rule.Target {
	t.Helper()
	if len(s.Object) == 0 {
		return s
	}
	raw, err := usher.TreeObject(s.Object).Raw()
	if err != nil {
		t.Fatal(err)
	}
	part := *s
	if part.Object, err = usher.RawObject(raw).Part(paths); err != nil {
		t.Fatal(err)
	}
	return &part
}

func lines(rules []*rule.Rule) []string {
	var lines []string
	for _, r := range rules {
		lines = append(lines, r.String())
	}
	return lines
}

func rules(ix *index.Index) []string {
	var lines []string
	for _, r := range ix.Rules() {
		lines = append(lines, r.String())
	}
	return lines
}

func TestMatching(t *testing.T) {
	t.Parallel()
	create := []usher.Operation{usher.Create}
	both := []rule.Selector{
		{APIVersion: v1, Kind: pod, Name: "cart"},
		{APIVersion: v1, Kind: pod, Namespace: "shop"},
	}
	ix := index.New([]rule.Rule{
		named("both", rule.Match{Selectors: both}),
		named("everything", rule.Match{}),
		named("create", rule.Match{Operations: create, Selectors: []rule.Selector{{APIVersion: v1, Kind: pod}}}),
		named("create-everything", rule.Match{Operations: create}),
		named("shop", rule.Match{Namespace: "shop"}),
		named("office", rule.Match{Namespace: "office"}),
		named("secret", rule.Match{Selectors: []rule.Selector{{APIVersion: v1, Kind: "Secret"}}}),
		named("gold", rule.Match{Selectors: []rule.Selector{{APIVersion: v1, Kind: pod, Labels: labels.Set{"tier": "gold"}.AsSelector()}}}),
		named("never", rule.Match{Selectors: []rule.Selector{{APIVersion: v1, Kind: pod, Never: "not understood"}}}),
		named("never-but-name", rule.Match{Selectors: []rule.Selector{{APIVersion: v1, Kind: pod, Name: "cart", Never: "not understood"}}}),
	})
	tests := []struct {
		reason    string
		operation usher.Operation
		object    map[string]any
		want      []string
	}{
		{
			"a rule is found once, however many of its selectors match, and in the order of emission",
			usher.Create, object(pod, "shop", "cart", map[string]any{"tier": "gold"}),
			[]string{"both", "everything", "create", "create-everything", "shop", "gold", "never-but-name"},
		},
		{
			"one selector suffices",
			usher.Update, object(pod, "shop", "web", nil),
			[]string{"both", "everything", "shop"},
		},
		{
			"another kind",
			usher.Delete, object("Secret", "office", "cart", nil),
			[]string{"everything", "office", "secret"},
		},
		{"an operation that no rule names", usher.Connect, object("PodExecOptions", "", "", nil), []string{"everything"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			s := rule.TargetOf(&usher.Request{Operation: tt.operation}, tt.object)
			var got []string
			for _, r := range ix.Matching(nil, usher.Validate, 0, &s) {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPathsThatLookAlikeAreTwo(t *testing.T) {
	t.Parallel()
	var rules []rule.Rule
	for _, path := range [][]string{{"a", "b"}, {"a b"}, {"a\" \"b"}} {
		fields := rule.Fields{{Path: path, Op: rule.In, Values: []string{"x"}}}
		rules = append(rules, named("", rule.Match{Selectors: []rule.Selector{{APIVersion: v1, Kind: pod, Fields: fields}}}))
	}
	ix := index.New(rules)
	for i, field := range []map[string]any{{"a": map[string]any{"b": "x"}}, {"a b": "x"}, {"a\" \"b": "x"}} {
		field["apiVersion"], field["kind"] = v1, pod
		s := rule.TargetOf(&usher.Request{}, field)
		if got := ix.Matching(nil, usher.Validate, 0, &s); len(got) != 1 || got[0] != &rules[i] {
			t.Errorf("%v: got %v", field, lines(got))
		}
	}
}

func TestPasses(t *testing.T) {
	t.Parallel()
	ix := index.New([]rule.Rule{
		{Phase: usher.Mutate, Pass: 12},
		{Phase: usher.Validate, Pass: 3},
		{Phase: usher.Mutate, Pass: -1},
		{Phase: usher.Mutate, Pass: 12},
	})
	for phase, want := range map[usher.Phase][]int{usher.Mutate: {-1, 12}, usher.Validate: {3}, usher.Authorize: nil} {
		if diff := cmp.Diff(want, ix.Passes(phase)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", phase, diff)
		}
	}
}

func TestMayMatch(t *testing.T) {
	t.Parallel()
	deployment := []rule.Selector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	ix := index.New([]rule.Rule{
		{Phase: usher.Validate, Match: rule.Match{Operations: []usher.Operation{usher.Create}, Selectors: deployment}},
		{Phase: usher.Mutate, Pass: 2, Match: rule.Match{Operations: []usher.Operation{usher.Delete}}},
		{Phase: usher.Mutate, Match: rule.Match{Selectors: deployment}},
	})
	tests := []struct {
		reason    string
		phase     usher.Phase
		operation usher.Operation
		kind      schema.GroupVersionKind
		want      bool
	}{
		{"kind and operation are those of a rule", usher.Validate, usher.Create, gvk("apps", "v1", "Deployment"), true},
		{"another operation", usher.Validate, usher.Update, gvk("apps", "v1", "Deployment"), false},
		{"another version", usher.Validate, usher.Create, gvk("apps", "v1beta1", "Deployment"), false},
		{"a rule without selectors is for every kind", usher.Mutate, usher.Delete, gvk("", "v1", "Pod"), true},
		{"a rule without operations is for every one", usher.Mutate, usher.Connect, gvk("apps", "v1", "Deployment"), true},
		{"no rule", usher.Mutate, usher.Create, gvk("", "v1", "Pod"), false},
		{"no rule of that phase", usher.Authorize, usher.Create, gvk("apps", "v1", "Deployment"), false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if got := ix.MayMatch(&usher.Request{Phase: tt.phase, Operation: tt.operation, Kind: tt.kind}); got != tt.want {
				t.Errorf("MayMatch(%s, %s, %s) = %t", tt.phase, tt.operation, tt.kind, got)
			}
		})
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	ix := index.New(onPods(1000))
	s := missing()
	hit := rule.TargetOf(&usher.Request{Operation: usher.Create}, object(pod, "ns-7", "cart", map[string]any{"app": "app-8", "team": "t-3"}))
	dst := make([]*rule.Rule, 0, 1000)
	if n := len(ix.Matching(dst, usher.Validate, 0, &hit)); n == 0 {
		t.Fatal("nothing matches")
	}
	for reason, subject := range map[string]*rule.Target{"miss": &s, "hit": &hit} {
		if allocs := testing.AllocsPerRun(100, func() { dst = ix.Matching(dst[:0], usher.Validate, 0, subject) }); allocs != 0 {
			t.Errorf("%s: %v allocations", reason, allocs)
		}
	}
}

func BenchmarkMatching(b *testing.B) {
	miss, unnamed := missing(), missing()
	unnamed.Request().Resource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	hit := rule.TargetOf(&usher.Request{Operation: usher.Create}, object(pod, "ns-7", "cart", map[string]any{"app": "app-8", "team": "t-3"}))
	for _, n := range []int{1000, 10000} {
		for _, bench := range []struct {
			name    string
			rules   []rule.Rule
			subject *rule.Target
		}{
			{"8kinds", overKinds(n), &miss},
			{"pod-miss", onPods(n), &miss},
			{"pod-hit", onPods(n), &hit},
			{"resources-miss", atResources(n), &unnamed},
		} {
			ix := index.New(bench.rules)
			var dst []*rule.Rule
			b.Run(bench.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					dst = ix.Matching(dst[:0], usher.Validate, 0, bench.subject)
				}
				b.ReportMetric(float64(len(dst)), "matches")
			})
			b.Run("scan/"+bench.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					dst = ix.Scan(dst[:0], usher.Validate, 0, bench.subject)
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	rules := onPods(10000)
	b.ReportAllocs()
	for b.Loop() {
		index.New(rules)
	}
}

// overKinds returns rules for other kinds than Pod and for Pods that are not there.
func overKinds(n int) []rule.Rule {
	rules := onPods(n)
	for i := range rules {
		if i%8 != 0 {
			rules[i].Match.Selectors[0].Kind = "Kind" + strconv.Itoa(i%8)
		}
	}
	return rules
}

// atResources returns rules that name resources, as admission policies of Kubernetes do: of other
// groups, subresources, operations and names, and for other resources.
func atResources(n int) []rule.Rule {
	rules := make([]rule.Rule, n)
	for i := range rules {
		r := rule.ResourceRule{Operations: []usher.Operation{usher.Create, usher.Update}, Groups: []string{""}, Versions: []string{v1}, Resources: []string{"pods"}}
		switch i % 5 {
		case 0:
			r.Resources = []string{"resource" + strconv.Itoa(i)}
		case 1:
			r.Resources = []string{"pods/exec", "*/scale"}
		case 2:
			r.Groups, r.Resources = []string{"group" + strconv.Itoa(i)}, []string{"*"}
		case 3:
			r.Names = []string{"pod-" + strconv.Itoa(i)}
		case 4:
			r.Operations = []usher.Operation{usher.Delete}
		}
		rules[i] = rule.Rule{Phase: usher.Validate, Match: rule.Match{Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{r}}}}}
	}
	return rules
}

// onPods returns rules that all are for Pods of some namespace, with some labels.
func onPods(n int) []rule.Rule {
	rules := make([]rule.Rule, n)
	for i := range rules {
		sel := rule.Selector{APIVersion: v1, Kind: pod}
		switch i % 4 {
		case 0:
			sel.Namespace = "ns-" + strconv.Itoa(i%97)
			sel.Labels = labels.Set{"app": "app-" + strconv.Itoa(i)}.AsSelector()
		case 1:
			sel.Labels = labels.Set{"app": "app-" + strconv.Itoa(i), "team": "t-" + strconv.Itoa(i%20)}.AsSelector()
		case 2:
			sel.Namespace = "ns-" + strconv.Itoa(i)
		case 3:
			sel.Name = "pod-" + strconv.Itoa(i)
		}
		if i == 8 {
			sel.Namespace = "ns-7"
		}
		rules[i] = named("r"+strconv.Itoa(i), rule.Match{
			Operations: []usher.Operation{usher.Create, usher.Update},
			Selectors:  []rule.Selector{sel},
		})
	}
	return rules
}

func missing() rule.Target {
	return rule.TargetOf(&usher.Request{Operation: usher.Create}, object(pod, "ns-7", "cart", map[string]any{
		"app": "cart", "team": "t-3", "tier": "gold", "zone": "eu",
	}))
}

func named(name string, m rule.Match) rule.Rule {
	return rule.Rule{Name: name, Phase: usher.Validate, Match: m}
}

func object(kind, namespace, name string, labels map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": v1,
		"kind":       kind,
		"metadata":   map[string]any{"name": name, "namespace": namespace, "labels": labels},
	}
}

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}
