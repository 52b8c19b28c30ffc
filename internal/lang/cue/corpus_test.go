package cue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

// A sample is one input of inputs.json.
type sample struct {
	Name        string          `json:"name"`
	Operation   usher.Operation `json:"operation"`
	Object      map[string]any  `json:"object"`
	OldObject   map[string]any  `json:"oldObject"`
	ExtraParams map[string]any  `json:"extraParams"`
}

func (s *sample) input() *rule.Input {
	return &rule.Input{
		Request:   &usher.Request{Operation: s.Operation},
		Object:    s.Object,
		OldObject: s.OldObject,
		Facts:     &fact.Known{},
	}
}

func samples(t testing.TB) []sample {
	t.Helper()
	data, err := os.ReadFile("testdata/inputs.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	if err := utiljson.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func corpus(t testing.TB) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/corpus.txtar")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, file := range archive.Files {
		sources[file.Name] = string(file.Data)
	}
	return sources
}

func formOf(name string) cue.Form {
	return map[string]cue.Form{
		"override":          cue.Override,
		"validate":          cue.Validate,
		"rendered-override": cue.RenderedOverride,
		"rendered-validate": cue.RenderedValidate,
	}[path.Dir(name)]
}

func compile(t testing.TB, name, source string, o cue.Options) *cue.Program {
	t.Helper()
	p, problems := cue.Compile(t.Context(), source, formOf(name), o)
	if p == nil {
		t.Fatalf("%s does not compile: %v", name, problems)
	}
	return p
}

// resultOf writes what a program made of an input the way results.json has it.
func resultOf(t testing.TB, name string, outcome rule.Outcome, err error) string {
	t.Helper()
	if err != nil {
		return "error"
	}
	if form := formOf(name); form == cue.Validate || form == cue.RenderedValidate {
		if outcome.Verdict == usher.Deny {
			return "denied: " + outcome.Message
		}
		return "allowed"
	}
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		From  string `json:"from,omitempty"`
		Value any    `json:"value"`
	}
	ops := []op{}
	for _, o := range outcome.Patch {
		ops = append(ops, op(o))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(ops); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// TestResultsOfV043 compares with what CUE v0.4.3 made of the same sources and inputs.
func TestResultsOfV043(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/results.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]map[string]string
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	inputs := samples(t)
	for name, source := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{}
			for result, names := range recorded[name] {
				for input := range strings.FieldsSeq(names) {
					want[input] = result
				}
			}
			got := map[string]string{}
			extra := map[*rule.Input]map[string]any{}
			p, problems := cue.Compile(t.Context(), source, formOf(name), cue.Options{
				ExtraParams: func(in *rule.Input) (map[string]any, error) { return extra[in], nil },
			})
			if p == nil {
				if len(recorded[name]) != 1 || recorded[name]["error"] == "" {
					t.Errorf("does not compile, but gave results: %v", problems)
				}
				return
			}
			for i := range inputs {
				in := inputs[i].input()
				extra[in] = inputs[i].ExtraParams
				outcome, err := p.Run(context.Background(), in)
				got[inputs[i].Name] = resultOf(t, name, outcome, err)
				if err == nil || want[inputs[i].Name] == "error" {
					continue
				}
				t.Logf("%s: %v", inputs[i].Name, err)
				if strings.Contains(err.Error(), "incomplete value") && strings.Contains(want[inputs[i].Name], `"value":null`) {
					// The original silently writes null where the value is not concrete.
					want[inputs[i].Name] = "error"
				}
			}
			for input, result := range got {
				if plain(result) != plain(want[input]) {
					t.Errorf("%s gives\n\t%s, with v0.4.3\n\t%s", input, result, want[input])
				}
			}
		})
	}
}

// plain writes the numbers in a result as JavaScript would: how many digits of a large
// one survive is not compared.
func plain(result string) string {
	var value any
	if json.Unmarshal([]byte(result), &value) != nil {
		return result
	}
	text, err := json.Marshal(value)
	if err != nil {
		return result
	}
	return string(text)
}
