package cel_test

import (
	"math"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/internal/lang/cel"
)

func kubernetes(t *testing.T) *cel.Environment {
	t.Helper()
	env, err := cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{celgo.Variable("object", celgo.DynType), library.JSONPatch()}})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// TestEveryFunctionHasABound fails for a function that a new version of a library has: its bounds
// belong in the table.
func TestEveryFunctionHasABound(t *testing.T) {
	t.Parallel()
	if names := kubernetes(t).Unbounded(); names != nil {
		t.Errorf("functions without bounds: %v", names)
	}
}

// TestBoundGrows compares bounds for inputs of two sizes.
func TestBoundGrows(t *testing.T) {
	t.Parallel()
	env := kubernetes(t)
	for _, row := range []struct {
		reason, expression string
		// most is how often the bound may double when the size of the input does.
		most int
	}{
		{"a constant", "true", 0},
		{"a field", "object.a.b == 3", 0},
		{"a text and a constant", "object.a == 'x'", 0},
		{"a text", "object.a.startsWith(object.b)", 1},
		{"a constant pattern", "object.a.matches('[a-z]+')", 1},
		{"a pattern", "object.a.matches(object.b)", 2},
		{"a loop", "object.a.all(x, x == 'x')", 1},
		{"a loop over parts of the elements of a loop", "object.a.all(x, x.b.all(y, y.c.all(z, z.matches('[a-z]+'))))", 1},
		{"a loop over something else", "object.a.all(x, object.b.all(y, y.c == 'c'))", 2},
		{"a loop over a constant list", "object.a.all(x, ['a', 'b'].exists(y, y == x.c))", 1},
		{"a loop over what a loop made", "object.a.filter(x, x.b == 'c').map(x, x.c).all(x, x == 'x')", 1},
		{"a loop over what is made of an element for each", "object.a.map(x, object.b + x.c).all(x, x.startsWith('x'))", 2},
		{"an optional field", "object.?a.?b.orValue('') == 'x'", 0},
		{"a value with a name", "object.?a.optMap(a, a.b == 'x').orValue(true)", 0},
		{"what a list is sorted by", "object.a.sort().size() == 0", 2},
		{"what is equal in a list", "object.a.distinct().size() == 0", 2},
		{"a map", "object.a.transformMap(k, v, v + k).all(k, k.startsWith('x'))", 1},
	} {
		ast, issues := env.Compile(row.expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		bound, _ := cel.BoundOf(ast, map[string]cel.Measure{"object": cel.Input()})
		const size = 1 << 20
		at, twice := bound.At(cel.Size{Total: size, Longest: size}), bound.At(cel.Size{Total: 2 * size, Longest: 2 * size})
		doubled := math.Log2(twice / at)
		if at == 0 {
			doubled = 0
		}
		if math.Abs(doubled-float64(row.most)) > 0.1 {
			t.Errorf("%s: %s: the bound of a doubled input doubles %.2f times, expected %d", row.reason, row.expression, doubled, row.most)
		}
	}
	for _, expression := range []string{
		"object.a.flatten(9).size() == 0", "lists.range(object.a).size() == 0",
		"object.a.replace('', object.b).replace('', object.b).replace('', object.b).replace('', object.b).contains(object.c)",
		"'%s'.format([object]).startsWith('x') && '%.9f'.format([object]).contains(object.a)",
	} {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", expression, issues.Err())
		}
		if bound, _ := cel.BoundOf(ast, map[string]cel.Measure{"object": cel.Input()}); !math.IsInf(bound.At(cel.Size{Total: 1, Longest: 1}), 1) {
			t.Errorf("%s has a bound", expression)
		}
	}
}
