package admission_test

import (
	"slices"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// TestSharedValues has two policies of which the last variables may be the same value.
func TestSharedValues(t *testing.T) {
	t.Parallel()
	one, two := rule.DigestOf("one"), rule.DigestOf("two")
	for _, row := range []struct {
		reason string
		// a and b are the texts of variables, by name in order.
		a, b []admission.Named
		// params are digests of those of each.
		params [2]rule.Digest
		want   bool
	}{
		{"one text", []admission.Named{{"x", "object.a"}}, []admission.Named{{"y", "object.a"}}, [2]rule.Digest{one, two}, true},
		{"the old object", []admission.Named{{"x", "oldObject.a"}}, []admission.Named{{"x", "oldObject.a"}}, [2]rule.Digest{one, two}, true},
		{"another text", []admission.Named{{"x", "object.a"}}, []admission.Named{{"x", "object.b"}}, [2]rule.Digest{one, one}, false},
		{"equal params", []admission.Named{{"x", "params.a"}}, []admission.Named{{"x", "params.a"}}, [2]rule.Digest{one, one}, true},
		{"other params", []admission.Named{{"x", "params.a"}}, []admission.Named{{"x", "params.a"}}, [2]rule.Digest{one, two}, false},
		{"params that are read", []admission.Named{{"x", "params.a"}}, []admission.Named{{"x", "params.a"}}, [2]rule.Digest{}, false},
		{
			"equal variables", []admission.Named{{"v", "object.a"}, {"x", "variables.v"}}, []admission.Named{{"w", "1"}, {"v", "object.a"}, {"x", "variables.v"}},
			[2]rule.Digest{one, two}, true,
		},
		{
			"other variables", []admission.Named{{"v", "object.a"}, {"x", "variables.v"}}, []admission.Named{{"v", "object.b"}, {"x", "variables.v"}},
			[2]rule.Digest{one, one}, false,
		},
		{
			"variables of other params", []admission.Named{{"v", "params.a"}, {"x", "variables.v"}}, []admission.Named{{"v", "params.a"}, {"x", "variables.v"}},
			[2]rule.Digest{one, two}, false,
		},
		{
			"all variables", []admission.Named{{"v", "object.a"}, {"x", "variables.?v"}}, []admission.Named{{"v", "object.a"}, {"x", "variables.?v"}},
			[2]rule.Digest{one, one}, false,
		},
		{
			"a variable that is defined again after it is read", []admission.Named{{"v", "object.a"}, {"x", "variables.v"}, {"v", "object.b"}, {"y", "variables.x"}},
			[]admission.Named{{"v", "object.a"}, {"x", "variables.v"}, {"v", "object.c"}, {"y", "variables.x"}}, [2]rule.Digest{one, one}, true,
		},
		{"the user", []admission.Named{{"x", "request.userInfo"}}, []admission.Named{{"x", "request.userInfo"}}, [2]rule.Digest{one, one}, false},
		{"the namespace", []admission.Named{{"x", "namespaceObject.metadata"}}, []admission.Named{{"x", "namespaceObject.metadata"}}, [2]rule.Digest{one, one}, false},
		{"access", []admission.Named{{"x", "authorizer.path('/').check('get')"}}, []admission.Named{{"x", "authorizer.path('/').check('get')"}}, [2]rule.Digest{one, one}, false},
	} {
		// Only the last variables are of interest: what both have besides is shared in any case.
		of := func(all []admission.Named, params rule.Digest) []rule.Shared {
			whole := compiled(t, admission.Code{Params: true, Variables: all}).SharedValues([]rule.Digest{params})
			before := compiled(t, admission.Code{Params: true, Variables: all[:len(all)-1]}).SharedValues([]rule.Digest{params})
			return slices.DeleteFunc(whole, func(v rule.Shared) bool { return slices.Contains(before, v) })
		}
		a, b := of(row.a, row.params[0]), of(row.b, row.params[1])
		if got := len(a) == 1 && slices.Equal(a, b); got != row.want {
			t.Errorf("%s: shared is %t, expected %t: %v, %v", row.reason, got, row.want, a, b)
		}
	}
}

// TestKeptValues has another policy know the value of a variable: it is not computed again.
func TestKeptValues(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		source admission.Code
		params rule.Digest
	}{
		{"a variable", admission.Code{Variables: []admission.Named{{"x", "object.missing"}}, Validations: []admission.Validation{{Expression: "variables.x == 'kept'"}}}, rule.Digest{}},
		{
			"a variable of params", admission.Code{Params: true, Variables: []admission.Named{{"x", "params.missing"}}, Validations: []admission.Validation{{Expression: "variables.x == 'kept'"}}},
			rule.DigestOf("params"),
		},
	} {
		p := compiled(t, row.source)
		in := podInputs()[0]
		in.Memo, in.ParamsDigest = &rule.Memo{}, row.params
		values := p.SharedValues([]rule.Digest{row.params})
		in.Memo.Share(rule.Common{values[0]: 0})
		*in.Memo.Place(values[0]) = "kept"
		result, err := p.Evaluate(t.Context(), &in)
		if err != nil || len(result.Denials) > 0 {
			t.Errorf("%s: %+v, %v", row.reason, result, err)
		}
	}
}
