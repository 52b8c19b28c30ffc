package cel_test

import (
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/lang/cel"
)

// TestReads finds what expressions read of an object: [] are the elements of a list, and ? says that there
// is a value.
func TestReads(t *testing.T) {
	t.Parallel()
	env, err := cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{celgo.Variable("o", celgo.DynType)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		expression string
		want       []string
	}{
		{"o.a.b == 1", []string{"a.b"}},
		{"has(o.a.b)", []string{"a.b.?"}},
		{"o.a", []string{"a"}},
		{"o.a.all(c, c.b.d == 1)", []string{"a.[].?", "a.[].b.d"}},
		{"o.a.exists(c, c == 1)", []string{"a.[]"}},
		{"o.a.all(c, true)", []string{"a.[].?"}},
		{"o.a.map(c, c.b)", []string{"a.[].?", "a.[].b"}},
		{"o.a.filter(c, c.b == 1)", []string{"a"}},
		{"o.a.filter(c, c.b == 1).map(c, c.d)", []string{"a.[].?", "a.[].b", "a.[].d"}},
		{"o.a.filter(c, c.b == 1).size() == 2", []string{"a.[].?", "a.[].b"}},
		{"o.a.filter(c, c.b == 1) == []", []string{"a"}},
		{"o.a.filter(c, c.b == 1)[0].d", []string{"a"}},
		{"(o.a + o.?b.orValue([])).all(c, c.d)", []string{"a.[].?", "a.[].d", "b.[].?", "b.[].d"}},
		{"o.a + o.b", []string{"a", "b"}},
		{"o.a.all(c, c.b.exists(d, d.e == c.f))", []string{"a.[].?", "a.[].b.[].?", "a.[].b.[].e", "a.[].f"}},
		{"o.a.map(c, c.b).all(b, b.d)", []string{"a.[].?", "a.[].b"}},
		{"o.a.map(c, [c, c]).all(p, p[0].b)", []string{"a"}},
		{"o.a.all(i, c, c.b == i)", []string{"a.[].?", "a.[].b"}},
		{"o.a.exists_one(c, c.b)", []string{"a.[].?", "a.[].b"}},
		{"o.a.transformList(i, c, c.b > 1, c)", []string{"a"}},
		{"o.a.transformMap(k, v, v.b)", []string{"a.[].?", "a.[].b"}},
		{"o.a.all(c, o.b[c])", []string{"a.[]", "b"}},
		{"size(o.a) == size(o.b.c)", []string{"a.[].?", "b.c.[].?"}},
		{"[o.a, o.b].all(c, c.d)", []string{"a", "b"}},
		{"o.a.all(c, [c].all(d, d.b))", []string{"a.[].?", "a.[].b"}},
		{"o.a.filter(c, o.a.filter(d, d.e == c.e).size() == 1).all(c, c.b)", []string{"a.[].?", "a.[].b", "a.[].e"}},
		{"o.?a.optMap(l, l.filter(c, c.b)).orValue([]).all(c, c.d)", []string{"a.[].?", "a.[].b", "a.[].d", "a.?"}},
		{"type(o.a) == list ? o.a.all(c, c.b) : true", []string{"a.?", "a.[].?", "a.[].b"}},
		{"o.a.sortBy(c, c.b).all(c, c.d)", []string{"a"}},
		{"o.all(c, c.b)", []string{"[].?", "[].b"}},
	} {
		ast, issues, err := env.Check(&cel.Budget{}, row.expression)
		if err != nil || issues.Err() != nil {
			t.Fatal(row.expression, err, issues.Err())
		}
		var reads cel.Reads
		reads.AddValue(reads.Add(ast, map[string]cel.Provenance{"o": cel.Variable("o")}))
		if !reads.Only("o") {
			t.Errorf("%s reads more than the object", row.expression)
		}
		want, got := &usher.Paths{}, reads.Paths("o")
		for _, path := range row.want {
			want.Add(strings.Split(strings.NewReplacer("[]", jsontree.Element, "?", jsontree.Presence).Replace(path), ".")...)
		}
		if !want.Within(got) || !got.Within(want) {
			t.Errorf("%s does not read %q: %v", row.expression, row.want, got)
		}
		for _, whole := range reads.Whole("o") {
			if slices.Contains(whole, jsontree.Element) {
				t.Errorf("%s has the size of elements: %q", row.expression, whole)
			}
		}
	}
}
