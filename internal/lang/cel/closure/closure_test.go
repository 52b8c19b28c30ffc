package closure_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// variables are what expressions see, in a frame of their own.
type variables struct {
	values map[string]any
	// inner is evaluated when inner is read.
	inner *cel.Program
	frame cel.Frame
}

// ResolveName implements [interpreter.Activation].
func (v *variables) ResolveName(name string) (any, bool) {
	if name == "inner" {
		value, _, err := v.inner.Eval(v)
		if err != nil {
			return types.WrapErr(err), true
		}
		return value, true
	}
	value, found := v.values[name]
	return value, found
}

// Parent implements [interpreter.Activation].
func (v *variables) Parent() interpreter.Activation { return nil }

// Frame implements [closure.Framed].
func (v *variables) Frame() *cel.Frame { return &v.frame }

func newEnvironment(t *testing.T) *cel.Environment {
	t.Helper()
	env, err := cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{
		celgo.Variable("object", celgo.DynType), celgo.Variable("inner", celgo.DynType), celgo.Variable("absent", celgo.DynType),
		celgo.Variable("text", celgo.StringType), celgo.Variable("option", celgo.OptionalType(celgo.DynType)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func values() map[string]any {
	return map[string]any{
		"text":   "web",
		"option": types.OptionalOf(cel.Value(map[string]any{"a": map[string]any{"b": "c"}})),
		"object": map[string]any{
			"name": "web", "n": int64(2), "half": 0.5, "two": 2.0, "nan": math.NaN(), "yes": true, "nothing": nil, "empty": []any{}, "emptyMap": map[string]any{},
			"list": []any{int64(1), int64(2), int64(3)}, "mixed": []any{int64(1), "a", 1.0, nil, true, []any{}, map[string]any{"a": nil}},
			"names": []any{"a", "b"}, "items": []any{map[string]any{"name": "a", "n": int64(1)}, map[string]any{"name": "b"}}, "map": map[string]any{"a": "b"},
		},
	}
}

// outcome is a value with its type, or an error, as text.
func outcome(value ref.Val, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%s %v", value.Type().TypeName(), show(value))
}

func show(value ref.Val) any {
	if o, ok := value.(*types.Optional); ok && o.HasValue() {
		return fmt.Sprintf("optional %s", outcome(o.GetValue(), nil))
	}
	return value
}

// TestSameAsInterpreter evaluates what generated expressions seldom have.
func TestSameAsInterpreter(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	for reason, expressions := range map[string][]string{
		"variables of loops hide others": {
			"[1, 2].map(x, [3, 4].map(x, x * 2)[0] + x)", "[1, 2].all(object, object < 3) && object.n == 2", "object.list.map(text, text + 1) == [2, 3, 4] && text == 'web'",
			"[[1], [2]].map(x, x.map(y, x.map(x, x + y)))", "[1].map(i, [5, 6].transformList(i, v, i + v)) == [[5, 7]]", "[1, 2].exists(x, [x].exists(x, x == 2) && x == 2)",
		},
		"accumulators have a first value only when they are read": {
			"optional.of(object.list).optMap(v, object.list.all(x, v.exists(y, y == x)))", "optional.of([]).optMap(v, (v + [1]).size() + v.size())", "optional.of({}).optMap(v, v)",
			"optional.of(object.missing).optMap(v, 1)", "optional.of([1]).optFlatMap(v, v[?0])", "object.list.map(i, optional.of(i).optMap(v, object.list.map(j, j * v))).size() == 3",
			"object.?map.optMap(v, v.a + optional.of([]).optMap(v, string(v.size())).value())",
		},
		"maps are made step by step": {
			"object.map.transformMap(k, v, v + k)", "object.list.transformMap(i, v, v > 2, v)", "[object.n].transformMapEntry(i, v, {string(v): i})", "object.list.transformMapEntry(i, v, {'same': i})",
		},
		"which error wins": {
			"object.a && object.b", "object.a || object.b || object.yes", "object.b && object.a && !object.yes", "object.n && object.yes", "!object.n", "object.n ? 1 : 2",
			"object.items.all(i, i.n > 0)", "object.items.all(i, i.n > 1)", "object.items.exists(i, i.n > 0)", "object.items.exists(i, i.none || i.name == 'b')", "object.items.exists_one(i, i.n == 1)",
			"object.items.filter(i, i.n == 1)", "object.items.map(i, i.n)", "object.items.map(i, i.n == 1, i.m)", "object.mixed.exists_one(i, i == object.x[string(i)])", "object.a + object.b", "object.b == object.a", "object.a in object.b",
			"[object.a, object.b]", "{object.a: object.b}", "object.items.filter(i, i.name == 'a' ? i.x : i.y)",
		},
		"optional values stay optional": {
			"object.?map.a", "object.?map.b.c", "object.?x.y.orValue(1)", "option.a.b", "option.x", "option.none", "option", "has(option.a)", "has(option.x)", "has(object.?map.a)", "true ? has(object.?map.a) : false",
			"(true ? object.?map : optional.none()).a", "(object.yes ? object.map : object.list).a", "has((object.yes ? object.map : object.list).a)", "optional.of(optional.of(1))", "optional.of(dyn(null)).orValue(2)",
			"object.?nothing.orValue(2)", "object.?nothing.hasValue()", "dyn(object.name).hasValue()", "option.or(optional.of(object.x))", "optional.none().or(option).a.b", "object.list[?1].orValue(0)", "object.list[?9].orValue(0)", "object.map[?text].hasValue()",
			"[?object.?name, ?object.?x]", "{?'a': object.?name, ?'b': object.?x}", "true ? optional.of(quantity('1')) : optional.none()",
		},
		"numbers of different types": {
			"object.two == object.n", "object.two in [1, 2]", "object.n in [1.0, 2.0, 2.5]", "object.nan == object.nan", "object.nan in [0.5]", "object.nan != 1", "object.nan < 1.0", "object.n in [2u]", "object.half < object.n", "dyn(2u) == object.n",
			"object.list == [dyn(1.0), dyn(2u), dyn(3)]", "object.mixed == object.mixed", "object.n > 1.5", "object.list[1.0]", "object.list[1u]", "object.list[0.5]", "object.list[?dyn(1.0)]", "object.mixed.exists(x, x == 1u)",
		},
		"membership": {
			"dyn(b'a') in ['a', 'b']", "object.map in ['a']", "object.list in ['a']", "object.nothing in ['a']", "object.nothing in [dyn(null), dyn('a')]", "'a' in object.map", "1 in object.map", "'a' in object.names", "'a' in object.name", "object.name in []",
			"'web' in [object.name, object.x]", "object.n in ['a', 'b']", "object.name in [dyn('a'), dyn(1)]", "'a' in object.mixed", "object.x in ['a']", "true in [true]",
			"object.name in ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11', '12', '13', '14', '15', '16', '17', 'web']",
		},
		"what is selected": {
			"object.list['a']", "object.name.x", "object.nothing.x", "object.map[1]", "object.map[object.n]", "object.map[object.nothing]", "object.list[object.n]", "object.list[9]", "object.list[-1]", "object.map[object.missing]", "object['map']['a']",
			"has(object.name.x)", "has(object.nothing.x)", "has(object.missing.x)", "object.items[0].name", "{'a': {'b': 1}}.a.b", "{'a': 1}.x", "{1: 'a'}[1]", "dyn({1: 'a'})[1.0]", "{true: 'a'}[object.yes]", "absent", "absent.x", "has(absent.x)",
			"object.map[object.emptyMap]", "object.map[object.list]", "object.list.map(l, object.map[object.names[0]])", "object.names.map(k, object.map[?k].orValue(k))", "object.items.map(i, object.map[i])",
			"object.map[object.yes ? object.map : object.list]", "object.map[object.yes ? object : object.list]", "object.map[[1].map(x, object)[0]]", "object.map[object.?map]",
		},
		"all items count": {
			"object.list.exists_one(x, x > 1)", "object.list.exists_one(x, object['k' + string(x)])", "object.list.map(x, object['k' + string(x)])", "object.list == [1, 2]", "('é' + object.name).size()",
		},
		"texts": {
			"object.n.startsWith('a')", "object.name.startsWith(object.n)", "object.name.contains('e') && object.name.endsWith('b')", "object.name.matches('^w')", "object.n.matches('^w')", "dyn(option).matches('a')", "object.name.matches(object.name)", "object.name.find('[a-e]')",
			"object.name.findAll('[a-z]', 2)", "object.n.find('a')", "object.x.find('a')", "object.name + 'x' + text", "object.name + object.n", "'é\\xff'.size()", "size(object.mixed)", "size(object.map)", "size(object.n)", "object.name < 'x' && 'a' <= object.name", "object.name < 1",
		},
		"lists": {
			"object.list + object.names", "object.list + object.x", "object.list + 1", "[] + object.list", "object.list + [] == object.list", "(object.list + object.list)[5]", "[dyn(1)] + [dyn(quantity('1'))] == [dyn(1), dyn(quantity('1'))]", "object.n.map(x, x)", "object.name.all(x, true)",
			"object.n.transformList(i, v, i)", "object.nothing.exists(x, true)", "[object.n, object.name].exists(x, x == 'web')", "[object.x].all(x, true)", "[object.list, object.names].map(l, l.size())", "[object.n, dyn(5)].transformList(i, v, i * v)", "[option, optional.none()].map(o, o.hasValue())",
			"lists.range(200).map(x, x).size()", "(lists.range(40) + lists.range(40)).map(x, x + 1)[79]",
		},
		"the type of": {"type(object.list)", "type(object.map)", "type([object.n])", "type(object.names + object.names)", "type(object.n)", "type(object.nothing)", "type(object.?x)", "dyn(object.map).a", "string(object.n) + string(object.half)"},
	} {
		for _, expression := range expressions {
			ast, issues, err := env.Check(&cel.Budget{}, expression)
			if err != nil || issues.Err() != nil {
				t.Errorf("%s: %s: %v %v", reason, expression, err, issues.Err())
				continue
			}
			plain, err := env.PlanPart(ast, ast.NativeRep().Expr())
			if err != nil {
				t.Errorf("%s: %s: %v", reason, expression, err)
				continue
			}
			program, err := env.Plan(ast)
			if err != nil {
				t.Errorf("%s: %s: %v", reason, expression, err)
				continue
			}
			want, _, wantErr := plain.Eval(&variables{values: values()})
			got, _, gotErr := program.Eval(&variables{values: values()})
			if want, got := outcome(want, wantErr), outcome(got, gotErr); names.Replace(want) != got {
				t.Errorf("%s: %s:\ncel-go:   %s\nclosures: %s", reason, expression, want, got)
			}
		}
	}
}

// names makes names of types those that API servers tell.
var names = strings.NewReplacer("type: cel.tree", "type: *types.baseMap", "type: *cel.list", "type: *types.baseList")

// TestEvaluationsInEvaluations evaluates an expression while another one is evaluated with the same variables.
func TestEvaluationsInEvaluations(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	for _, row := range []struct{ reason, outer, inner, want string }{
		{"each has its own variables", "[1, 2].map(x, [3].map(y, x * 100 + y * 10 + inner))", "[5].map(x, [6].map(y, x))[0][0]", "list [[135], [235]]"},
		{"one needs more of them than there is memory for", "[1, 2].map(x, inner + x)", "[1].map(a, [a].map(b, [b].map(c, [c].map(d, [d].map(e, [e].map(f, [f].map(g, [g].map(h, [h].map(i, i)))))))))[0][0][0][0][0][0][0][0][0]", "list [2, 3]"},
		{"one ends with a panic", "[1, 2].filter(x, inner || x == 2)", "[dyn(b'a')].exists(x, [x].exists(y, y in ['a', 'b']))", "error: internal error: runtime error: hash of unhashable type types.Bytes"},
		{"a panic that does not decide", "[1, 2].filter(x, inner || x > 0)", "[dyn(b'a')].exists(x, [x].exists(y, y in ['a', 'b']))", "list [1, 2]"},
	} {
		program := func(expression string) *cel.Program {
			ast, issues, err := env.Check(&cel.Budget{}, expression)
			if err != nil || issues.Err() != nil {
				t.Fatal(err, issues.Err())
			}
			p, err := env.Plan(ast)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		v := &variables{values: values(), inner: program(row.inner)}
		outer := program(row.outer)
		for range 2 {
			value, _, err := outer.Eval(v)
			if got := outcome(value, err); got != row.want {
				t.Errorf("%s: got %s, expected %s", row.reason, got, row.want)
			}
		}
	}
}

// TestKeysInKeys: a key is evaluated once, also if it turns out to be none. Here it would be evaluated 2^40 times.
func TestKeysInKeys(t *testing.T) {
	t.Parallel()
	key := "has(object.map)"
	for range 40 {
		key = "(object[" + key + " ? object.map : object] == 1 || has(object.map))"
	}
	env := newEnvironment(t)
	ast, issues, err := env.Check(&cel.Budget{}, key)
	if err != nil || issues.Err() != nil {
		t.Fatal(err, issues.Err())
	}
	program, err := env.Plan(ast)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := program.Eval(&variables{values: values()}); err != nil || got.Value() != true {
		t.Errorf("%v %v", got, err)
	}
}
