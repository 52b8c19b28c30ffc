package admission_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// TestSizesOfOthers has a policy measure what is absent or small, before one that reads much: the sizes that
// policies share do not hide that the budget of the second one is exceeded.
func TestSizesOfOthers(t *testing.T) {
	t.Parallel()
	const costly = "PATH.contains(PATH)"
	compile := func(path string) *admission.Program {
		p, problems := admission.Compile(admission.Code{Params: true, Validations: []admission.Validation{{Expression: strings.ReplaceAll(costly, "PATH", path)}}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return p
	}
	items := strings.Repeat("x", 200_000)
	small := map[string]any{"items": ""}
	for _, row := range []struct {
		reason, first, second string
	}{
		{"the key of the first path looks like the second path", `object["spec\x00items"]`, "object.spec.items"},
		{"the first path is in quotes", `object["spec\" \"items"]`, "object.spec.items"},
		{"the first path is that of the old object", "oldObject.spec.items", "object.spec.items"},
		{"the first path is one of params", "params.spec.items", "object.spec.items"},
		{"the same path of other params", "params.spec.items", "params.spec.items"},
	} {
		in := podInputs()[0]
		in.Size, in.Facts, in.Memo = cel.Size{}, &fact.Known{}, &rule.Memo{}
		in.Object, in.OldObject, in.Params = map[string]any{"spec": map[string]any{"items": items}}, map[string]any{"spec": small}, map[string]any{"spec": small}
		evaluate := func(path string) string {
			result, err := compile(path).Evaluate(t.Context(), &in)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Denials) == 0 {
				return ""
			}
			return result.Denials[0].Message
		}
		evaluate(row.first)
		in.Params = map[string]any{"spec": map[string]any{"items": items}}
		if got := evaluate(row.second); !strings.Contains(got, "running out of cost budget") {
			t.Errorf("%s: %q", row.reason, got)
		}
	}
}
