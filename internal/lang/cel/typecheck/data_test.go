package typecheck_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
)

func TestData(t *testing.T) {
	t.Parallel()
	policy := func(expression string) *typecheck.Policy {
		return &typecheck.Policy{
			Expressions: []admission.Expression{{Field: "spec.validations[0].expression", Text: expression, Use: admission.Check}},
			Partial:     true,
			Data: []admission.Data{
				{Name: "quota", Kind: schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}},
				{Name: "pods", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, List: true},
				{Name: "custom", Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Plan"}},
			},
		}
	}
	checker := typecheck.New()
	for _, test := range []struct {
		reason, expression string
		want               []string
	}{
		{"a field that exists", "has(data.quota.spec.hard) && data.quota.metadata.name == 'a'", nil},
		{"a field that is misspelled", "data.quota.spec.hrad.size() > 0", []string{"no ResourceQuota has spec.hrad; did you mean spec.hard?"}},
		{"a field of the elements of a list", "data.pods.all(p, p.spec.nodename == 'a')", []string{"no Pod has [].spec.nodename; did you mean [].spec.nodeName?"}},
		{"an element by its index", "data.pods[0].spec.nodename == 'a'", []string{"no Pod has [].spec.nodename; did you mean [].spec.nodeName?"}},
		{"a list is no object", "data.pods.metadata.name == 'a'", []string{"data.pods is a list, which has no metadata; go through its elements: data.pods.all(e, …), or name one by its index"}},
		{"types that are never equal", "data.quota.metadata.name == 1", []string{`data.quota.metadata.name is text and 1 is a whole number: they are never equal; write "1", in quotes`}},
		{"null is possible", "data.quota == null || data.quota.metadata.name == 'a'", nil},
		{"a kind that nothing is known of", "data.custom.whatever == 1", nil},
		{"HTTP responses have no schema", "data.answer.whatever == 1", nil},
		{"a variable of a loop with its name", "[{'quota': 1}].all(data, data.quota == 1)", nil},
	} {
		problems, err := checker.Check(t.Context(), kind.Recorded(), policy(test.expression))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range problems {
			got = append(got, strings.TrimSuffix(p.What+"; "+p.Do, "; "))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}
