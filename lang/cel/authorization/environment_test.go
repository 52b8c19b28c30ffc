package authorization

import "testing"

// TestEveryFunctionHasABound is that of the environment of Kubernetes, with the functions of requests.
func TestEveryFunctionHasABound(t *testing.T) {
	t.Parallel()
	env, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	if names := env.Unbounded(); names != nil {
		t.Errorf("functions without bounds: %v", names)
	}
}
