package apply_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
)

// A comparison merges by upstream's code and by ours.
type comparison struct {
	converter managedfields.TypeConverter
	schema    func(kinds.GroupVersionKind) (*apply.Schema, error)
	// merged, refused and lenient count the outcomes.
	merged, refused, lenient int
}

// compare returns how the results differ, empty if they do not.
func (c *comparison) compare(kind kinds.GroupVersionKind, object, configuration map[string]any) string {
	s, err := c.schema(kind)
	if err != nil || s == nil {
		return fmt.Sprintf("no structure: %v", err)
	}
	before := runtime.DeepCopyJSON(object)
	set := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(configuration)}
	set.SetGroupVersionKind(kind)
	want, wantErr := patch.ApplyStructuredMergeDiff(c.converter, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}, set)
	ops, gotErr := s.Merge(object, configuration)
	if diff := cmp.Diff(before, object); diff != "" {
		return "the object has changed:\n" + diff
	}
	switch {
	case wantErr != nil && gotErr == nil && strings.HasPrefix(wantErr.Error(), "failed to convert original object"):
		// Only what the configuration touches is checked.
		c.lenient++
		return ""
	case wantErr != nil && gotErr != nil && isRandom(wantErr) && isRandom(gotErr):
		// Maps are read in random order, and only until the first unknown field.
		c.refused++
		return ""
	case fmt.Sprint(wantErr) != fmt.Sprint(gotErr) && !slices.Equal(sorted(wantErr), sorted(gotErr)):
		return fmt.Sprintf("error %v, upstream has %v", gotErr, wantErr)
	case wantErr != nil:
		c.refused++
		return ""
	}
	c.merged++
	got, _, err := jsonpatch.Apply(object, ops)
	if err != nil {
		return fmt.Sprintf("the operations %v do not apply: %v", ops, err)
	}
	expected, _ := want.(*unstructured.Unstructured)
	if diff := cmp.Diff(expected.Object, got, sameNumbers()); diff != "" {
		return fmt.Sprintf("-upstream +merge by %v:\n%s", ops, diff)
	}
	return ""
}

// sameNumbers has numbers equal that are the same in JSON.
func sameNumbers() cmp.Option {
	return cmp.FilterValues(func(a, b any) bool {
		_, x := a.(float64)
		_, y := b.(float64)
		return x != y
	}, cmp.Comparer(func(a, b any) bool { return text(a) == text(b) && text(a) != "other" }))
}

// isRandom reports whether another attempt could find other mistakes of the configuration.
func isRandom(err error) bool {
	return strings.HasPrefix(err.Error(), "failed to convert patch object") && strings.Contains(err.Error(), "errors:") ||
		strings.Contains(err.Error(), "not declared in schema")
}

// sorted are the parts of an error that have no order.
func sorted(err error) []string {
	if err == nil {
		return nil
	}
	parts := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == ',' || r == '\n' || r == ' ' || r == ':' })
	slices.Sort(parts)
	return parts
}

// generated compares a merge of made-up values.
func (c *comparison) generated(kind kinds.GroupVersionKind, random *rand.Rand) string {
	stub := &unstructured.Unstructured{}
	stub.SetGroupVersionKind(kind)
	typed, err := c.converter.ObjectToTyped(stub)
	if err != nil {
		return err.Error()
	}
	g := &generator{Rand: random, types: typed.Schema(), atomics: 30}
	if random.IntN(4) == 0 {
		g.duplicates = 30
	}
	if random.IntN(4) == 0 {
		g.nulls = 50
	}
	object := g.whole(typed.TypeRef().NamedType, kind)
	g.atomics, g.duplicates = 0, 0
	switch random.IntN(8) {
	case 0:
		g.mistakes = 20
	case 1:
		g.atomics = 20
	case 2:
		g.duplicates = 5
	}
	configuration := g.whole(typed.TypeRef().NamedType, kind)
	if diff := c.compare(kind, object, configuration); diff != "" {
		return fmt.Sprintf("%s: %v\ninto %v:\n%s", kind, configuration, object, diff)
	}
	return ""
}

// TestMergesAsUpstream merges made-up configurations into made-up objects of all kinds.
func TestMergesAsUpstream(t *testing.T) {
	t.Parallel()
	const each = 60
	c := &comparison{converter: upstream(), schema: apply.NewTypes().Schema}
	for i, kind := range builtin(t, c.converter) {
		for j := range each {
			if diff := c.generated(kind, rand.New(rand.NewPCG(uint64(i), uint64(j)))); diff != "" {
				t.Fatalf("seed %d, %d: %s", i, j, diff)
			}
		}
	}
	t.Logf("%d merged, %d refused alike, %d merged where upstream refuses the object", c.merged, c.refused, c.lenient)
	if c.merged < 5000 || c.refused < 300 {
		t.Errorf("only %d merged and %d refused: the comparison says little", c.merged, c.refused)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	deployment, service := kinds.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, kinds.GroupVersionKind{Version: "v1", Kind: "Service"}
	pod := kinds.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for _, test := range []struct {
		reason        string
		kind          kinds.GroupVersionKind
		object        string
		configuration string
		// want is the patch, or a part of the error.
		want string
	}{
		{"a field that is not there", deployment, `{spec: {}}`, `{spec: {replicas: 3}}`, `[{"op":"add","path":"/spec/replicas","value":3}]`},
		{"a field that is there", deployment, `{spec: {replicas: 1}}`, `{spec: {replicas: 3}}`, `[{"op":"replace","path":"/spec/replicas","value":3}]`},
		{"nothing changes", deployment, `{spec: {replicas: 3}}`, `{spec: {replicas: 3}}`, `null`},
		{"a parent that is not there", deployment, `{}`, `{spec: {replicas: 3}}`, `[{"op":"add","path":"/spec","value":{"replicas":3}}]`},
		{"a parent that is null", deployment, `{metadata: {labels: null}}`, `{metadata: {labels: {a: b}}}`, `[{"op":"replace","path":"/metadata/labels","value":{"a":"b"}}]`},
		{"null for a map keeps it", deployment, `{metadata: {labels: {a: b}}}`, `{metadata: {labels: null}}`, `null`},
		{"null for a scalar is stored", deployment, `{spec: {replicas: 1}}`, `{spec: {replicas: null}}`, `[{"op":"replace","path":"/spec/replicas","value":null}]`},
		{"an empty list keeps what there is", pod, `{spec: {containers: [{name: a}]}}`, `{spec: {containers: []}}`, `null`},
		{"a label with a slash", pod, `{metadata: {labels: {a: b}}}`, `{metadata: {labels: {c/d: e}}}`, `[{"op":"add","path":"/metadata/labels/c~1d","value":"e"}]`},
		{"the kind is that of the object", pod, `{}`, `{apiVersion: v2, kind: 7}`, `null`},
		{
			"elements with the same key are merged, others appended", pod, `{spec: {containers: [{name: a}, {name: b, image: x}]}}`,
			`{spec: {containers: [{name: b, image: z}, {name: c}]}}`,
			`[{"op":"replace","path":"/spec/containers/1/image","value":"z"},{"op":"add","path":"/spec/containers/2","value":{"name":"c"}}]`,
		},
		{
			"a new element goes where the configuration has it", pod, `{spec: {containers: [{name: a}, {name: b}]}}`,
			`{spec: {containers: [{name: a}, {name: c}, {name: b, image: z}]}}`,
			`[{"op":"add","path":"/spec/containers/1","value":{"name":"c"}},{"op":"add","path":"/spec/containers/2/image","value":"z"}]`,
		},
		{
			"another order replaces the list", pod, `{spec: {containers: [{name: a, image: x}, {name: b}]}}`, `{spec: {containers: [{name: b}, {name: a}]}}`,
			`[{"op":"replace","path":"/spec/containers","value":[{"name":"b"},{"image":"x","name":"a"}]}]`,
		},
		{
			"the default of a key counts, and so does 80.0", service, `{"spec": {"ports": [{"port": 80.0}]}}`,
			`{spec: {ports: [{port: 80, protocol: TCP, name: web}, {port: 80, protocol: UDP}]}}`,
			`[{"op":"replace","path":"/spec/ports/0/port","value":80},{"op":"add","path":"/spec/ports/0/protocol","value":"TCP"},{"op":"add","path":"/spec/ports/0/name","value":"web"},{"op":"add","path":"/spec/ports/1","value":{"port":80,"protocol":"UDP"}}]`,
		},
		{"a set", pod, `{metadata: {finalizers: [a, b]}}`, `{metadata: {finalizers: [b, c]}}`, `[{"op":"add","path":"/metadata/finalizers/2","value":"c"}]`},
		{
			"several with one key become one", pod, `{spec: {containers: [{name: a, image: x}, {name: b}, {name: a}]}}`, `{spec: {containers: [{name: a, image: z}]}}`,
			`[{"op":"replace","path":"/spec/containers","value":[{"image":"z","name":"a"},{"name":"b"}]}]`,
		},
		{"a field that the kind does not have", deployment, `{}`, `{spec: {replica: 3}}`, `failed to convert patch object to typed object: .spec.replica: field not declared in schema`},
		{"a value of another type", deployment, `{}`, `{spec: {replicas: three}}`, `failed to convert patch object to typed object: .spec.replicas: expected numeric (int or float), got string`},
		{"a list that is replaced", pod, `{}`, `{spec: {containers: [{name: a, args: [b]}]}}`, `invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args`},
		{"a map that is replaced", deployment, `{}`, `{spec: {selector: {matchLabels: {a: b}}}}`, `invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector`},
		{"twice the same key", pod, `{}`, `{spec: {containers: [{name: a}, {name: a}]}}`, `failed to convert patch object to typed object: .spec.containers: duplicate entries for key [name="a"]`},
		{"an object that nothing can be merged into", pod, `{spec: {containers: [a]}}`, `{spec: {containers: [{name: a}]}}`, `failed to convert original object to typed object: .spec.containers: element 0: associative list with keys may not have non-map elements`},
	} {
		object, configuration := tree(t, test.object), tree(t, test.configuration)
		object["apiVersion"], object["kind"] = test.kind.ToAPIVersionAndKind()
		c := &comparison{converter: upstream(), schema: apply.NewTypes().Schema}
		if diff := c.compare(test.kind, object, configuration); diff != "" {
			t.Errorf("%s: %s", test.reason, diff)
		}
		s, err := c.schema(test.kind)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := s.Merge(object, configuration)
		if err != nil {
			if !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s: %v\nwant %s", test.reason, err, test.want)
			}
			continue
		}
		if got, err := json.Marshal(patch); err != nil || !slices.Equal(operations(string(got)), operations(test.want)) {
			t.Errorf("%s: %s, %v\nwant %s", test.reason, got, err, test.want)
		}
	}
}

// TestErrorsOfLargeObjects merges into an object with an error in each element below a long name.
func TestErrorsOfLargeObjects(t *testing.T) {
	t.Parallel()
	s, err := apply.NewTypes().Schema(kinds.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	variables := make([]any, 1000)
	for i := range variables {
		variables[i] = map[string]any{"name": fmt.Sprint(i), "value": int64(1)}
	}
	object := map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{
		map[string]any{"name": strings.Repeat("a", 10_000), "env": variables}, "no container",
	}}}
	_, err = s.Merge(object, tree(t, "{spec: {containers: [{name: b}]}}"))
	if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "element 1: associative list with keys may not have non-map elements") {
		t.Errorf("got %.1000v", err)
	}
}

// operations are those of a patch, in order of their text: fields of a map have none.
func operations(patch string) []string {
	all := strings.Split(strings.Trim(patch, "[]"), `{"op"`)
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], ",")
	}
	slices.Sort(all)
	return all
}

func tree(tb testing.TB, text string) map[string]any {
	tb.Helper()
	object, err := usher.RawObject(toJSON(tb, text)).Tree()
	if err != nil {
		tb.Fatal(err)
	}
	return runtime.DeepCopyJSON(object)
}

func toJSON(tb testing.TB, text string) []byte {
	tb.Helper()
	if strings.HasPrefix(text, `{"`) {
		return []byte(text)
	}
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return converted
}

func BenchmarkMerge(b *testing.B) {
	s, err := apply.NewTypes().Schema(kinds.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if err != nil {
		b.Fatal(err)
	}
	containers := ""
	for i := range 5 {
		containers += fmt.Sprintf("  - {name: c%d, image: x, env: [{name: A, value: b}], ports: [{containerPort: 80}]}\n", i)
	}
	pod := tree(b, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: b}}\nspec:\n  containers:\n"+containers)
	for _, bench := range []struct{ name, configuration string }{
		{"label", "{metadata: {labels: {team: web}}}"},
		{"containers", "{spec: {containers: [{name: c1, securityContext: {runAsNonRoot: true}}, {name: c3, env: [{name: B, value: c}]}]}}"},
	} {
		configuration := tree(b, bench.configuration)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Merge(pod, configuration); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSchema(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := apply.NewTypes().Schema(kinds.GroupVersionKind{Version: "v1", Kind: "Pod"}); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzMerge(f *testing.F) {
	c := &comparison{converter: upstream(), schema: apply.NewTypes().Schema}
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		busy := []kinds.GroupVersionKind{
			{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Service"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "ServiceAccount"},
		}
		if diff := c.generated(busy[random.IntN(len(busy))], random); diff != "" {
			t.Error(diff)
		}
	})
}
