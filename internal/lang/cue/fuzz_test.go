package cue_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

// FuzzCompile checks that no text makes Compile panic or hang, and that a program makes
// the same of what it reads as of the whole object.
func FuzzCompile(f *testing.F) {
	for _, source := range corpus(f) {
		f.Add(source, 0)
	}
	for _, b := range []string{`1000000*(1000000*"x")`, `[for i in object.l for j in object.l {i*"x"}]`, `{x: object, y: {x: object, y: object}}`} {
		f.Add("object: _\npatches: []\nx: "+b, 0)
	}
	for _, source := range []string{"", "object: object", "a: b\nb: a", "((", "\"\\(", "5 div", "x: div div div", "object: _\npatches: [object + object]"} {
		f.Add(source, 1)
	}
	inputs := samples(f)
	e := onWorkers(f, cue.Limits{Timeout: time.Second, CompileTimeout: 2 * time.Second})
	f.Fuzz(func(t *testing.T, source string, form int) {
		if len(source) > 4096 {
			return
		}
		if form < 0 || form > int(cue.RenderedValidate) {
			form = 0
		}
		name := []string{"override/", "validate/", "rendered-override/", "rendered-validate/"}[form]
		p, problems := cue.Compile(t.Context(), source, cue.Form(form), cue.Options{Evaluator: e})
		if (p == nil) != (len(rule.Errors(problems)) > 0) {
			t.Fatalf("program %v with problems %v", p, problems)
		}
		if p == nil {
			return
		}
		p = p.Slowly()
		whole := p.Whole()
		for i := 0; i < len(inputs); i += 11 {
			got, gotErr := p.Run(context.Background(), inputs[i].input())
			want, wantErr := whole.Run(context.Background(), inputs[i].input())
			if limited(gotErr) || limited(wantErr) {
				return
			}
			if a, b := resultOf(t, name, got, gotErr), resultOf(t, name, want, wantErr); a != b {
				t.Fatalf("%s: %s of the parts %v, %s of the whole\n%v\n%v", inputs[i].Name, a, p.Reads(), b, gotErr, wantErr)
			}
		}
	})
}

func limited(err error) bool {
	return errors.Is(err, cue.ErrOverrun) || errors.Is(err, cue.ErrSuspended) || errors.Is(err, cue.ErrTooLarge) ||
		errors.Is(err, context.DeadlineExceeded)
}

// FuzzTranslate compares what closures and the evaluator make of generated programs and
// objects.
func FuzzTranslate(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(binary.LittleEndian.AppendUint64(nil, seed))
	}
	inputs := samples(f)
	// A run that takes ten seconds in all ends the fuzzing.
	e := onWorkers(f, cue.Limits{Timeout: time.Second, CompileTimeout: time.Second})
	f.Fuzz(func(t *testing.T, data []byte) {
		g := generatorOf(data)
		form := cue.Override
		if g.chance(3) {
			form = cue.Validate
			g.names = append(g.names, named{"oldObject", record})
		}
		source := g.program(form == cue.Validate)
		p, _ := cue.Compile(t.Context(), source, form, cue.Options{Evaluator: e})
		if p == nil || p.SlowPath() != "" {
			return
		}
		for range 8 {
			in := &rule.Input{Request: &usher.Request{Operation: usher.Create}, Object: g.object(inputs), Facts: &fact.Known{}}
			if g.chance(2) {
				in.Request.Operation, in.OldObject = usher.Update, g.object(inputs)
			}
			if agree(t, p, in); t.Failed() {
				t.Fatalf("of the program\n%s", source)
			}
		}
	})
}
