package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// large is an object that takes milliseconds to compare with another.
func large() map[string]any {
	items := make([]any, 20_000)
	for i := range items {
		items[i] = map[string]any{"name": fmt.Sprint("item-", i), "value": strings.Repeat("x", 20)}
	}
	return map[string]any{"metadata": map[string]any{"name": "web"}, "items": items}
}

// TestInterrupted evaluates expressions that take minutes within their budget: they end with the
// context.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	const slow = "lists.range(%d).all(i, object.items == oldObject.items)"
	for _, row := range []struct {
		reason string
		source admission.Code
	}{
		{"costs do not count", admission.Code{Validations: []admission.Validation{{Expression: fmt.Sprintf(slow, 20_000)}}}},
		{"costs count", admission.Code{Validations: []admission.Validation{{Expression: fmt.Sprintf(slow, 90_000)}}}},
		{"a loop in a loop", admission.Code{Validations: []admission.Validation{{Expression: "lists.range(100).all(j, " + fmt.Sprintf(slow, 150) + ")"}}}},
		{"a condition", admission.Code{Conditions: []admission.Named{{Name: "c", Expression: fmt.Sprintf(slow, 20_000)}}}},
		{"a variable", admission.Code{
			Variables:   []admission.Named{{Name: "v", Expression: fmt.Sprintf(slow, 20_000)}},
			Validations: []admission.Validation{{Expression: "variables.v"}},
		}},
		{"a message", admission.Code{Validations: []admission.Validation{{Expression: "false", MessageExpression: "string(" + fmt.Sprintf(slow, 20_000) + ")"}}}},
		{"a name", admission.Code{
			Data:        []admission.Data{configMap("a", "string("+fmt.Sprintf(slow, 20_000)+")")},
			Validations: []admission.Validation{{Expression: "has(data.a.b)"}},
		}},
		{"an annotation", admission.Code{Annotations: []admission.Annotation{{Key: "a", ValueExpression: "string(" + fmt.Sprintf(slow, 20_000) + ")"}}}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(row.source)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			in := podInputs()[0]
			in.Object, in.OldObject, in.Size, in.Memo = large(), large(), cel.Size{}, nil
			result, err := p.Evaluate(ctx, &in)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v %v", result, err)
			}
		})
	}
}

// TestHostileExpressions compiles expressions that are hard to bound, and evaluates them on objects
// that are hard to evaluate them on.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	nested := "object"
	for i := range 12 {
		nested = fmt.Sprintf("[%s].map(x%d, x%d)", nested, i, i)
	}
	loops := "x0.name != x1.value"
	for i := range 3 {
		loops = fmt.Sprintf("object.items.all(x%d, %s)", i, loops)
	}
	doubled := []admission.Named{{Name: "v0", Expression: "string(object.metadata.name)"}}
	for i := range 60 {
		doubled = append(doubled, admission.Named{Name: fmt.Sprint("v", i+1), Expression: fmt.Sprintf("variables.v%d + variables.v%d", i, i)})
	}
	deep := map[string]any{}
	for range 9000 {
		deep = map[string]any{"a": deep}
	}
	for _, row := range []struct {
		reason, expression, want string
		variables                []admission.Named
	}{
		{reason: "loops in loops are stopped", expression: loops, want: "cost limit exceeded"},
		{reason: "lists in lists", expression: nested + ".size() == 7", want: "failed expression"},
		{reason: "texts that double are stopped", variables: doubled, expression: "variables.v60 == ''", want: "cost limit exceeded"},
		{reason: "a long constant list", expression: "object.metadata.name in [" + strings.Repeat("'a',", 9000) + "'b']", want: "failed expression"},
		{reason: "many alternatives", expression: strings.Repeat("object.metadata.name == 'a' || ", 2000) + "false", want: "failed expression"},
		{reason: "a long sum", expression: strings.Repeat("object.metadata.name + ", 200) + "'' == ''", want: "failed expression"},
		{reason: "replacements of replacements", expression: strings.Repeat("'x'", 1) + strings.Repeat(".replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxx')", 12) + " == ''", want: "takes too much memory"},
		{reason: "a large constant is made when it is reached", expression: "object.metadata.name == 'web' || lists.range(1000000000).size() > 0", want: ""},
		{reason: "a costly pattern", expression: "!object.items.exists(i, i.value.matches('(x+x+)+y'))", want: ""},
		{reason: "objects in objects", expression: "object.deep == oldObject.deep", want: ""},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Variables: row.variables, Validations: []admission.Validation{{Expression: row.expression}}})
			if len(problems) > 0 {
				t.Fatalf("%.300v", problems)
			}
			in := podInputs()[0]
			in.Size, in.Facts, in.Memo = cel.Size{}, &fact.Known{}, nil
			in.Object, in.OldObject = large(), large()
			in.Object["deep"], in.OldObject["deep"] = deep, deep
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			result, err := p.Evaluate(ctx, &in)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, d := range result.Denials {
				got += d.Message
			}
			if (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %.300q, expected %q", got, row.want)
			}
		})
	}
}
