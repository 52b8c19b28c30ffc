package fact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/fact"
)

// TestSampler adds objects, each a name and the UID of its controller.
func TestSampler(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		most   int
		added  string
		size   int
		want   string
		full   bool
	}{
		{"none", 3, "", 0, "", false},
		{"all fit", 3, "a b c", 0, "a b c", true},
		{"one of each controller comes first", 4, "a/1 b/1 c/2 d", 0, "a c d b", false},
		{"others are left out for objects without controller", 3, "a/1 b/1 c/1 d e", 0, "a d e", true},
		{"others are left out for the first of another controller", 2, "a/1 b/1 c/2", 0, "a c", true},
		{"what does not fit is left out", 2, "a b c d/1", 0, "a b", true},
		{"bytes are limited", 9, "a b c", 15 << 20, "a b", false},
		{"others make place for bytes", 9, "a/1 b/1 c", 15 << 20, "a c", false},
	} {
		s := fact.NewSampler(&fact.Sample{Most: row.most})
		for word := range strings.FieldsSeq(row.added) {
			name, controller, _ := strings.Cut(word, "/")
			metadata := map[string]any{"name": name}
			if controller != "" {
				metadata["ownerReferences"] = []any{map[string]any{"uid": "other"}, map[string]any{"uid": controller, "controller": true}}
			}
			tree := map[string]any{"metadata": metadata}
			item := fact.Item{Decoded: tree}
			if row.size > 0 {
				item = fact.Item{JSON: fmt.Appendf(nil, `{"metadata":{"name":%q},"data":%q}`, name, strings.Repeat("x", row.size))}
			}
			s.Add(item, tree)
		}
		got := s.Sampled(5)
		var names []string
		for i := range got.Objects {
			tree, err := got.Objects[i].Tree()
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tree["metadata"].(map[string]any)["name"].(string))
		}
		if diff := cmp.Diff(row.want, strings.Join(names, " ")); diff != "" || s.Full() != row.full || got.Total != len(strings.Fields(row.added))+5 {
			t.Errorf("%s: full is %t, total %d, -want +got:\n%s", row.reason, s.Full(), got.Total, diff)
		}
	}
}
