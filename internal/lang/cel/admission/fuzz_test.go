package admission_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// FuzzCEL turns bytes into expressions, and a number into an object, and compares what upstream and
// Usher make of them: values, texts of errors, and budgets.
func FuzzCEL(f *testing.F) {
	gr := newKubernetesGrammar()
	o := newOracle(f, source.Variables)
	addChoices(f, 1, 8)
	f.Fuzz(func(t *testing.T, seed uint16, choices []byte) {
		texts, families := gr.chosen(choices, 8)
		program, err := admission.CompileAny(source, texts...)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			p := pair{text: text, upstream: o.compile(text), program: program, index: i}
			p.compare(t, fuzzed(t, families[i], uint64(seed)), &tally{})
		}
	})
}

// addChoices adds seeds of growing length: a number that makes an object, and choices that make expressions.
func addChoices(f *testing.F, seed uint64, growth int) {
	f.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range 60 {
		choices := make([]byte, growth*i)
		for j := range choices {
			choices[j] = byte(r.UintN(256))
		}
		f.Add(uint16(r.UintN(1<<16)), choices)
	}
}

// chosen returns the expressions that choices make, most at most, and the families of their objects. One
// program has several, since its variables take longest to compile.
func (gr *grammar) chosen(choices []byte, most int) (texts, families []string) {
	left := &chosen{choices}
	g := &generator{chooser: left, grammar: gr}
	for len(texts) == 0 || len(texts) < most && len(left.bytes) > 0 {
		texts, families = append(texts, g.expression()), append(families, g.family)
	}
	return texts, families
}

func fuzzed(t testing.TB, family string, seed uint64) *situation {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	q := request{
		name: "fuzzed", operation: usher.Update, kind: podKind, resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		namespace: namespaceOf(r.IntN(2)), params: paramsOf(r.IntN(2)), user: usher.User{Name: "jane", Groups: []string{"devs"}},
	}
	if family == "widget" {
		q.kind, q.resource = widgetKind, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		q.object, q.old = generatedWidget(r), generatedWidget(r)
	} else {
		q.object, q.old = generatedPod(r), generatedPod(r)
	}
	return q.situation(t)
}
