package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// TestWeight evaluates expressions whose values are small in memory, and endless to walk through, and calls
// that take far longer or make far more than their arguments suggest.
func TestWeight(t *testing.T) {
	t.Parallel()
	doubled := []admission.Named{{Name: "v0", Expression: "[object.metadata.name]"}}
	nested := []admission.Named{{Name: "v0", Expression: "[object.metadata.name]"}}
	for i := range 60 {
		doubled = append(doubled, admission.Named{Name: fmt.Sprint("v", i+1), Expression: fmt.Sprintf("variables.v%d + variables.v%d", i, i)})
		nested = append(nested, admission.Named{Name: fmt.Sprint("v", i+1), Expression: fmt.Sprintf("[variables.v%d, variables.v%d]", i, i)})
	}
	const chain = ".map(a, [a, a])"
	maps := []admission.Named{{Name: "v0", Expression: "{'a': object.metadata.name}"}}
	for i := range 60 {
		maps = append(maps, admission.Named{Name: fmt.Sprint("v", i+1), Expression: fmt.Sprintf("{'a': variables.v%d, 'b': variables.v%d}", i, i)})
	}
	for _, row := range []struct {
		reason, expression string
		variables          []admission.Named
	}{
		{"lists added to themselves, size", "variables.v60.size() > 0", doubled},
		{"lists added to themselves, equality", "variables.v60 == variables.v59", doubled},
		{"lists in lists, equality", "variables.v60 == [variables.v59, variables.v59]", nested},
		{"lists in lists, inequality", "variables.v60 != [variables.v59, variables.v59]", nested},
		{"lists in lists, in", "dyn(variables.v60) in [dyn(1), dyn(variables.v59), dyn([variables.v59, variables.v59])]", nested},
		{"lists in lists, sets", "sets.contains([variables.v60], [[variables.v59, variables.v59]])", nested},
		{"lists in lists, sets.intersects", "sets.intersects(variables.v60, [variables.v59])", nested},
		{"lists in lists, distinct", "variables.v60.distinct().size() > 0", nested},
		{"lists in lists, flatten", "variables.v60.flatten(100).size() > 0", nested},
		{"lists in lists, indexOf", "variables.v60.indexOf(variables.v59) > 0", nested},
		{"lists in lists, format", "'%s'.format([variables.v60]) == ''", nested},
		{"maps in maps, format", "'%s'.format([variables.v60]) == ''", maps},
		{"maps in maps, equality", "variables.v60 == {'a': variables.v59, 'b': variables.v59}", maps},
		{"a chain of map", "[1]" + strings.Repeat(chain, 27) + " == [1]" + strings.Repeat(chain, 27), nil},
		{"lists in lists, an optional value", "optional.of(variables.v60) == optional.of([variables.v59, variables.v59])", nested},
		{"an exponent of a quantity", "isQuantity('1e-' + object.digits)", nil},
		{"an exponent of a quantity, with a plus", "quantity('1E+' + object.digits).isInteger()", nil},
		{"digits of a quantity", "quantity(object.long).isInteger()", nil},
		{"replacement at each character", "object.text.replace('', object.text) == ''", nil},
		{"a separator between many texts", "lists.range(20000).map(i, '').join(object.text) == ''", nil},
		{"a pattern with many states", "object.text.matches(object.pattern)", nil},
		{"a pattern with more states than Go can have", "object.text.matches('(' + object.pattern + '){1000}')", nil},
		{"a pattern with many states, all matches", "object.text.findAll(object.pattern).size() > 0", nil},
		{"a constant pattern that reads to the end for each match", "object.text.findAll('a*b|a').size() > 0", nil},
		{"a pattern that reads to the end for each match", "object.text.findAll('a*b|' + object.text.substring(0, 1)).size() > 0", nil},
		{"a pattern that looks back, and reads to the end for each match", `object.text.findAll(r'(\Ba*)b|a').size() > 0`, nil},
		{"a text as a pattern, each character of which may be its first", "object.text.find(object.text.substring(0, 20000)) == ''", nil},
		{"the largest limit of a split", "object.text.split('', 9223372036854775807).size() > 0", nil},
		{"a text in a text at each place", "object.text.indexOf(object.half + 'b') > 0", nil},
		{"lists of numbers", "[" + strings.Repeat("lists.range(990000),", 40) + "lists.range(990000)].size() > 0", nil},
		{"a precision", "'%.999999999f'.format([1.5]) == ''", nil},
		{"keys of a map", "lists.range(1000000).all(i, !(object.text + string(i) in object))", nil},
		{"a key that is selected", "lists.range(1000000).all(i, object[?object.text].orValue(1) == 1)", nil},
		{"the size of a text", "lists.range(1000000).all(i, object.text.size() > 0)", nil},
		{"characters of a text", "lists.range(100000).all(i, object.text.upperAscii() != '')", nil},
		{"parts of a URL", "lists.range(100000).all(i, url('https://a/' + object.text).getEscapedPath() != '')", nil},
		{"time zones", "lists.range(1000000).all(i, timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') < 30)", nil},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Variables: row.variables, LazyMessages: true, Validations: []admission.Validation{{Expression: row.expression}}})
			if rule.Errors(problems) != nil {
				t.Fatalf("%.300v", problems)
			}
			in := podInputs()[0]
			in.Size, in.Facts, in.Memo = cel.Size{}, &fact.Known{}, nil
			in.Object = map[string]any{
				"metadata": map[string]any{"name": "web"}, "digits": "999999999", "long": strings.Repeat("9", 900_000), "text": strings.Repeat("a", 900_000),
				"half": strings.Repeat("a", 450_000), "pattern": strings.Repeat("x{1000}", 20) + strings.Repeat("(a*a*)*", 2) + "a{1000}b",
			}
			in.Allowance = allowance.Namespace(nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			result, err := p.Evaluate(ctx, &in)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Denials) != 1 || !result.Denials[0].Failed || !strings.Contains(result.Denials[0].Message, "takes too ") && !strings.Contains(result.Denials[0].Message, "cost") {
				t.Fatalf("got %.300q", fmt.Sprint(result))
			}
			// To find out which part of the expression fails is bounded, too.
			p.Field(ctx, &in, 0)
			in.Allowance = allowance.Namespace(nil)
			if _, err := p.Explain(ctx, &in, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
}
