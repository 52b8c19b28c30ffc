package admission_test

import (
	"sync"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestExplainWhileCompiling: environments are used again, by one at a time.
func TestExplainWhileCompiling(t *testing.T) {
	t.Parallel()
	source := admission.Code{
		Variables:   []admission.Named{{Name: "x", Expression: "object.metadata"}},
		Validations: []admission.Validation{{Expression: "variables.x.name == 'a' || variables.x.name == 'b'"}},
	}
	p, problems := admission.Compile(source)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for range 300 {
			admission.Compile(source)
		}
	})
	both.Go(func() {
		inputs := podInputs()
		for i := range 300 {
			if _, err := p.Explain(t.Context(), &inputs[i%len(inputs)], nil); err != nil {
				t.Errorf("explain: %v", err)
			}
		}
	})
	both.Go(func() {
		inputs := podInputs()
		for i := range 300 {
			// Programs of parts are kept with those of the policy.
			again, _ := admission.Compile(source)
			again.Field(t.Context(), &inputs[i%len(inputs)], 0)
		}
	})
	both.Wait()
}
