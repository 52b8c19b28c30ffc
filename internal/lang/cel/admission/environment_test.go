package admission_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestEveryFunctionHasABound fails for a function that only some expressions may call, and none can.
func TestEveryFunctionHasABound(t *testing.T) {
	t.Parallel()
	if names, err := admission.Unbounded(); err != nil || len(names) > 0 {
		t.Errorf("functions without bounds: %v, %v", names, err)
	}
}
