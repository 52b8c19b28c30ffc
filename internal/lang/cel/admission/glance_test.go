package admission_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestGlance: what takes the same time for every object is known at a glance, unless it denies.
func TestGlance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, expression string
		known              bool
	}{
		{"a constant", "object.metadata.name != 'x'", true},
		{"presence", "has(object.metadata) && !has(object.spec.nothing)", true},
		{"one of constants", "!(object.metadata.name in ['x', 'y'])", true},
		{"a part of small params", "object.metadata.name != params.name", true},
		{"the request", "request.operation == 'CREATE' || request.userInfo.username != 'x'", true},
		{"a choice", "object.metadata.name == 'x' ? false : true", true},
		{"it denies", "object.metadata.name == 'x' || false", false},
		{"it has an error", "object.nothing.at.all == 1", false},
		{"two values of objects, each as large as it likes", "object.metadata == object.metadata", false},
		{"a list of the object", "!('x' in object.metadata)", false},
		{"a loop", "object.spec.containers.all(c, c.image != '')", false},
		{"a regular expression", "!object.metadata.name.matches('(a|b|c)*x')", false},
		{"a text as long as it likes", "size(object.metadata.name) < 1000000", false},
		{"a new text", "object.metadata.name + 'x' != 'x'", false},
		{"the namespace is a fact", "namespaceObject.metadata.name != 'x'", false},
		{"the authorizer is one", "!authorizer.path('/x').check('get').allowed()", false},
		{"a list of values that are computed", "!(object.metadata.name in [object.metadata.name + 'x'])", false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Params: true, Validations: []admission.Validation{{Expression: row.expression}}})
			if p == nil {
				t.Fatal(problems)
			}
			in := podInput()
			in.Params, in.ParamsSize = map[string]any{"name": "x"}, cel.Size{Total: 8, Longest: 1}
			if _, known := p.Glance(t.Context(), in); known != row.known {
				t.Errorf("known %t (%v)", known, problems)
			}
			in.ParamsSize = cel.Size{Total: 1 << 20, Longest: 1 << 20}
			if _, known := p.Glance(t.Context(), in); known {
				t.Error("it is known with params that are large")
			}
		})
	}
}
