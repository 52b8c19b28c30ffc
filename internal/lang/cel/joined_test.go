package cel_test

import (
	"bytes"
	"slices"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// TestJoinedBytes joins bytes that have been joined before, and bytes of a constant.
func TestJoinedBytes(t *testing.T) {
	t.Parallel()
	env, err := cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{celgo.Variable("x", celgo.StringType)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ reason, expression, want string }{
		{"one half of the result", "[b'abcde' + bytes(x)].map(b, [b + b'1', b + b'2'])[0][0]", "abcdex1"},
		{"the other half", "[b'abcde' + bytes(x)].map(b, [b + b'1', b + b'2'])[0][1]", "abcdex2"},
		{"a constant", "b'abc' + bytes(x)", "abcx"},
		{"a constant that is made of text", "bytes('abc') + bytes(x)", "abcx"},
		{"a long constant", "b'abcdefghijklmnopqrstuvwxyzabcdefghi' + bytes(x)", "abcdefghijklmnopqrstuvwxyzabcdefghix"},
		{"in a loop", "[b'abcde' + bytes(x)].map(b, [b'1', b'2'].map(n, b + n))[0][0]", "abcdex1"},
	} {
		ast, issues, err := env.Check(&cel.Budget{}, row.expression)
		if err != nil || issues.Err() != nil {
			t.Fatal(row.reason, err, issues.Err())
		}
		plain, err := env.Plan(ast)
		if err != nil {
			t.Fatal(err)
		}
		interpreted, err := env.PlanPart(ast, ast.NativeRep().Expr())
		if err != nil {
			t.Fatal(err)
		}
		counted, err := env.PlanCounted(ast, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []*cel.Program{plain, interpreted, counted} {
			joined := func(x string) []byte {
				variables, err := interpreter.NewActivation(map[string]any{"x": x})
				if err != nil {
					t.Fatal(err)
				}
				value, _, err := p.Eval(variables)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := value.(types.Bytes)
				return b
			}
			first := joined("x")
			before := slices.Clone(first)
			joined("y")
			if !bytes.Equal(first, []byte(row.want)) || !bytes.Equal(before, []byte(row.want)) {
				t.Errorf("%s, program %d: %q, and %q after another evaluation", row.reason, i, before, first)
			}
		}
	}
}
