package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

func compiled(t *testing.T, s admission.Code) *admission.Program {
	t.Helper()
	p, problems := admission.Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// TestSizesAreShared has policies that read the same large values: each value is measured once.
func TestSizesAreShared(t *testing.T) {
	t.Parallel()
	in := podInputs()[0]
	in.Object, in.OldObject, in.Size, in.Memo = large(), large(), cel.Size{}, &rule.Memo{}
	for i, text := range []string{
		"object.items.size() == 0 || object.items.all(x, object.items.all(y, x == y || x.name == '%d')) || true",
		"object.items.size() == 0 || object.items.all(x, object.items.all(y, x == y && x.name == '%d')) || true",
		"object.items.size() == 0 || object.items.all(x, oldObject.items.all(y, x == y && x.name == '%d')) || true",
	} {
		p := compiled(t, admission.Code{Validations: []admission.Validation{{Expression: fmt.Sprintf(text, i)}}})
		if _, err := p.Evaluate(t.Context(), &in); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]cel.Size{`object["items"]`: cel.SizeOf(in.Object["items"]), `oldObject["items"]`: cel.SizeOf(in.OldObject["items"])}
	if diff := cmp.Diff(want, admission.Sizes(in.Memo)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestParamsOfOneInput evaluates a policy with objects of params of several sizes, one after the other:
// the budget holds for each.
func TestParamsOfOneInput(t *testing.T) {
	t.Parallel()
	p := compiled(t, admission.Code{Params: true, Validations: []admission.Validation{{Expression: "params.list.all(x, params.list.all(y, params.list.exists(z, z == 'b')))"}}})
	in := podInputs()[0]
	in.Facts = &fact.Known{}
	for _, row := range []struct {
		elements int
		stopped  bool
	}{{2, false}, {300, true}, {3, false}, {400, true}} {
		in.Params = map[string]any{"list": append(slices.Repeat([]any{"a"}, row.elements), "b")}
		result, err := p.Evaluate(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		stopped := len(result.Denials) > 0 && strings.Contains(result.Denials[0].Message, "cost limit exceeded")
		if stopped != row.stopped {
			t.Errorf("%d elements: %+v", row.elements, result)
		}
	}
}
