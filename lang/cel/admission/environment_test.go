package admission

import "testing"

// TestEveryFunctionHasABound fails for a function that only some expressions may call, and none can.
func TestEveryFunctionHasABound(t *testing.T) {
	t.Parallel()
	e := takeEnvironments()
	defer e.release()
	for _, d := range []declared{{}, {params: true, authorizer: true, data: true}, {authorizer: true, patchTypes: true}} {
		env, err := e.with(d)
		if err != nil {
			t.Fatal(err)
		}
		if names := env.Unbounded(); names != nil {
			t.Errorf("functions without bounds: %v", names)
		}
	}
}
