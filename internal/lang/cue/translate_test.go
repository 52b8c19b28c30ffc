package cue_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

// TestCorpusTranslated does with the corpus what TestTranslated does with its programs. Which
// of them are slow, and why, is in testdata/slow.txt; some of the others have no outcome.
func TestCorpusTranslated(t *testing.T) {
	t.Parallel()
	inputs := samples(t)
	sources := corpus(t)
	var slow strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		p, _ := cue.Compile(t.Context(), sources[name], formOf(name), cue.Options{})
		if p == nil {
			continue
		}
		if p.SlowPath() != "" {
			fmt.Fprintf(&slow, "%s: %s\n", name, p.SlowPath())
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers(t, name, sources[name], inputs, 30)
		})
	}
	want, err := os.ReadFile("testdata/slow.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), slow.String()); diff != "" {
		t.Errorf("testdata/slow.txt (-want +got):\n%s", diff)
	}
}

// TestTranslated runs the programs of testdata/translate, a file a subject. What is under
// slow/ is not translated, for the reason in its first line; all the others are, and their
// closures answer for some of the objects.
func TestTranslated(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/translate/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	programs := len(corpus(t))
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		subject := strings.TrimSuffix(filepath.Base(file), ".txtar")
		inputs := samples(t)
		for _, f := range archive.Files {
			if f.Name == "objects.json" {
				inputs = append(objects(t, f.Data), inputs...)
				continue
			}
			programs++
			t.Run(subject+"/"+f.Name, func(t *testing.T) {
				t.Parallel()
				translated(t, f.Name, string(f.Data), inputs, rounds)
			})
		}
	}
	if programs < 300 {
		t.Errorf("there are %d programs, fewer than 300", programs)
	}
}

// objects reads a list of objects.
func objects(t *testing.T, data []byte) []sample {
	t.Helper()
	var trees []map[string]any
	if err := utiljson.Unmarshal(data, &trees); err != nil {
		t.Fatal(err)
	}
	var inputs []sample
	for i, tree := range trees {
		inputs = append(inputs, sample{Name: fmt.Sprint("object ", i), Operation: usher.Create, Object: tree})
		if i > 0 {
			inputs = append(inputs, sample{Name: fmt.Sprint("update ", i), Operation: usher.Update, Object: tree, OldObject: trees[i-1]})
		}
	}
	return inputs
}

func translated(t *testing.T, name, source string, inputs []sample, rounds int) {
	t.Helper()
	name, slow := strings.CutPrefix(name, "slow/")
	p := compile(t, name, source, cue.Options{})
	if slow {
		reason, _, _ := strings.Cut(strings.TrimPrefix(source, "// "), "\n")
		if !strings.Contains(p.SlowPath(), reason) {
			t.Errorf("it is slow because %q, not %q", p.SlowPath(), reason)
		}
		return
	}
	if p.SlowPath() != "" {
		t.Errorf("it is not translated: %s", p.SlowPath())
		return
	}
	if answers(t, name, source, inputs, rounds) == 0 {
		t.Error("the closures have no answer for any object")
	}
}

// answers runs a program over inputs, and over so many of them with something changed, and
// returns how many of them its closures answer.
func answers(t *testing.T, name, source string, inputs []sample, rounds int) int {
	t.Helper()
	var extra map[string]any
	p := compile(t, name, source, cue.Options{
		ExtraParams: func(*rule.Input) (map[string]any, error) { return extra, nil },
	})
	seed := fnv.New64()
	fmt.Fprint(seed, name)
	random := rand.New(rand.NewPCG(seed.Sum64(), 2))
	n := 0
	for i := range len(inputs) + rounds {
		s := inputs[i%len(inputs)]
		in := s.input()
		if i >= len(inputs) {
			in.Object, _ = change(random, s.Object).(map[string]any)
		}
		extra = s.ExtraParams
		if agree(t, p, in) {
			n++
		}
	}
	return n
}

// agree checks that the closures of p say of an input what the evaluator says, if they
// say anything, and reports whether they do.
func agree(t testing.TB, p *cue.Program, in *rule.Input) bool {
	t.Helper()
	got, ok := p.Closures(in)
	if !ok {
		return false
	}
	if parts, ok := p.ClosuresOfParts(in); !ok || !cmp.Equal(got, parts) {
		t.Errorf("closures say %v, %v of nothing but %v", got, parts, p.Reads())
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

// allPrograms returns the sources of all corpora by form and name.
func allPrograms(t testing.TB) map[string]string {
	t.Helper()
	programs := corpus(t)
	files, err := filepath.Glob("testdata/translate/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if name := strings.TrimPrefix(f.Name, "slow/"); strings.HasSuffix(name, ".cue") {
				programs[strings.Replace(name, "/", "/"+strings.TrimSuffix(filepath.Base(file), ".txtar")+"-", 1)] = string(f.Data)
			}
		}
	}
	return programs
}
