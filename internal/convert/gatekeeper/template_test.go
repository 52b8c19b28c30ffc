package gatekeeper_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/convert/gatekeeper"
)

func TestRewritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ reason, from, want string }{
		{"both variables", "has(variables.anyObject.metadata) && variables.params.labels.all(l, l.key == 'x')", "has(object.metadata) && params.labels.all(l, l.key == 'x')"},
		{"with space", "!has( variables . params.x)\n  ? [] : variables.params", "!has( params.x)\n  ? [] : params"},
		{"presence", "!has(variables.params) ? 1 : has( variables.anyObject ) && has(variables.params.x)", "!true ? 1 : true && has(params.x)"},
		{"other variables", "variables.paramsOf + variables.containers + x.variables.params", "variables.paramsOf + variables.containers + x.variables.params"},
		{"texts", `"variables.params" + 'it\'s variables.anyObject' + r'\' + variables.params + """variables.params "x" """`, `"variables.params" + 'it\'s variables.anyObject' + r'\' + params + """variables.params "x" """`},
		{"comments", "variables.params // variables.params\n== 1", "params // variables.params\n== 1"},
		{"object is the same", "object == null", "object == null"},
	} {
		if got, _, err := gatekeeper.Rewritten(tt.from); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.reason, got, err, tt.want)
		}
	}
	for _, hidden := range []string{"params.spec.x == 1", "[1].all(object, variables.anyObject.x == object)", "[1].exists( params , variables.params == params)"} {
		if got, _, err := gatekeeper.Rewritten(hidden); err == nil {
			t.Errorf("%s: %q", hidden, got)
		}
	}
}
