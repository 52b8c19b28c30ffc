package prove_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
	"github.com/usher-dev/usher/internal/convert/kyverno/prove"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/kind"
)

// What a policy of the corpus makes of generated objects is what Kyverno makes of them, and what makes something else
// differs.
func TestGeneratedChanges(t *testing.T) {
	t.Parallel()
	files, err := corpus.Load("../testdata/mutations")
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := corpus.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i := range files {
		f := &files[i]
		o := options(kinds)
		i := o.Convert(t.Context(), []convert.Foreign{{Object: f.Policy, File: f.Name}})[0]
		for _, r := range prove.Generated(t.Context(), &i, nil, o) {
			switch {
			case r.Outcome == proof.Differs:
				t.Errorf("%s: %s: %s", f.Name, r.Name, r.Why)
			case r.Outcome == proof.Holds && strings.Contains(r.Name, "are changed"):
				changed++
			case r.Outcome == proof.Unjudged:
				t.Logf("%s: %s", f.Name, r.Why)
			}
		}
	}
	if changed < 35 {
		t.Errorf("of %d files generated objects are changed", changed)
	}
}

func TestGeneratedChangesDiffer(t *testing.T) {
	t.Parallel()
	files, err := corpus.Load("../testdata/mutations")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(files, func(f corpus.File) bool { return f.Name == "mutate-list" })
	o := options(kind.Recorded())
	i := o.Convert(t.Context(), []convert.Foreign{{Object: files[at].Policy, File: files[at].Name}})[0]
	policy, ok := i.To[0].(*v1alpha1.ClusterObjectPolicy)
	if !ok {
		t.Fatalf("got %T", i.To[0])
	}
	for n := range policy.Spec.Mutations {
		if patch := policy.Spec.Mutations[n].JSONPatch; patch != nil {
			patch.Expression = strings.ReplaceAll(patch.Expression, "'Exists'", "'Equal'")
		}
	}
	rows := prove.Generated(t.Context(), &i, nil, o)
	if len(rows) == 0 || rows[0].Outcome != proof.Differs || !strings.Contains(rows[0].Why, "Kyverno makes") {
		t.Errorf("got %v", rows)
	}
}
