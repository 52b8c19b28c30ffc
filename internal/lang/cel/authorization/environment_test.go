package authorization_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel/authorization"
)

// TestEveryFunctionHasABound is that of the environment of Kubernetes, with the functions of requests.
func TestEveryFunctionHasABound(t *testing.T) {
	t.Parallel()
	if names, err := authorization.Unbounded(); err != nil || len(names) > 0 {
		t.Errorf("functions without bounds: %v, %v", names, err)
	}
}
