package admission_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// hostile is a request with a list of n numbers, a long text, and an object that is nested deeply.
func hostile(t *testing.T, n int) *situation {
	t.Helper()
	numbers := make([]any, n)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	spec := map[string]any{"numbers": numbers, "many": int64(1) << 62, "n": int64(n), "text": strings.Repeat("a", n), "deep": nest(2000), "deeper": nest(2001)}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": spec}}
	q := request{name: "hostile", operation: usher.Update, kind: widgetKind, resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, object: object, old: object}
	return q.situation(t)
}

// TestExcessIsNotEvaluated evaluates calls that would take hours, or all memory, which upstream makes;
// with lists that are only somewhat too long it has the same error as upstream.
func TestExcessIsNotEvaluated(t *testing.T) {
	t.Parallel()
	endless := []string{"lists.range(object.spec.many).size() > 0", "lists.range(4611686018427387904) == []", "lists.range(object.spec.many).size() > 0 || true"}
	texts := []string{
		"object.spec.numbers.distinct().size() > 0", "sets.equivalent(object.spec.numbers, object.spec.numbers)", "sets.contains(object.spec.numbers, object.spec.numbers)",
		"sets.intersects(object.spec.numbers, object.spec.numbers.map(n, n + 1000000))", "lists.range(object.spec.n * 2000).size() > 0", "object.spec.numbers.distinct().size() > 0 || true",
		"lists.range(3) == [0, 1, 2] && lists.range(-1) == []", "lists.range(999989).size() > 0",
	}
	program, err := admission.CompileAny(admission.Code{}, append(endless, texts...)...)
	if err != nil {
		t.Fatal(err)
	}
	long := hostile(t, 300_000)
	for i, text := range append(endless, texts[:3]...) {
		if a := long.usher(t, program, i, wholeBudget); a.Stopped == "" && !strings.Contains(a.Err, "takes too ") {
			t.Errorf("%s: %v", text, a)
		}
	}
	somewhat := hostile(t, 710)
	o := newOracle(t, nil)
	for i, text := range texts {
		p := pair{text: text, upstream: o.compile(text), program: program, index: i + len(endless)}
		p.compare(t, somewhat, &tally{})
	}
}

// TestDeepObjects compares objects that are nested deeply.
func TestDeepObjects(t *testing.T) {
	t.Parallel()
	s := hostile(t, 10)
	for _, p := range pairs(t, admission.Code{}, "object == oldObject", "object.spec.deep == object.spec.deeper", "'%s'.format([object.spec.deep]).size() > 0", "object.spec.deep in [object.spec.deeper, object.spec.deep]",
		"sets.contains([object.spec.deep], [oldObject.spec.deep])", "type(object.spec.deep) == map", "dyn(object.spec).map(k, k).size() == 6",
		"object.spec in ['a', 'b']", "object.spec.numbers in ['a', 'b']", "{'a': object}[object.kind] == 1", "[object.spec, object.spec].distinct().size() == 1") {
		p.compare(t, s, &tally{})
	}
}

// TestComparedIsNoList has functions that compare the elements of a list get an error, or a value of
// another type. In API servers that ends the evaluation, even where it does not matter.
func TestComparedIsNoList(t *testing.T) {
	t.Parallel()
	s := hostile(t, 10)
	var texts []string
	for _, text := range []string{
		"object.spec.none.distinct()", "object.spec.none.sort()", "object.spec.text.distinct()", "object.spec.text.sort()", "dyn(object.spec.text).distinct()",
		"[1, 2].map(x, x / 0).distinct()", "[1, 2].map(x, x / 0).sort()", "object.spec.numbers.map(n, string(n / 0)).sort()", "dyn([3, 1]).sort()", "[dyn(3), dyn('a')].sort()",
		"object.spec.numbers.sortBy(n, string(n / 0))", "object.spec.none.sortBy(n, n)", "[object.spec.numbers, object.spec.numbers].distinct()", "object.spec.numbers.map(n, -n).sort()",
	} {
		texts = append(texts, text, text+".size() == 0 || true", "true || "+text+".size() == 0")
	}
	for _, p := range pairs(t, admission.Code{}, texts...) {
		p.compare(t, s, &tally{})
	}
}

// TestSharedPrograms evaluates the programs of one policy at the same time. The race detector watches.
func TestSharedPrograms(t *testing.T) {
	t.Parallel()
	s := admission.Code{
		Params: true, Variables: source.Variables,
		Conditions: []admission.Named{{Name: "c", Expression: "variables.number > 2"}},
		Validations: []admission.Validation{
			{Expression: "object.metadata.name.matches('^[a-z]+$') && quantity('4Gi').add(quantity('1Gi')).isGreaterThan(quantity('8Gi'))", MessageExpression: "variables.chain + string(quantity('1Gi').add(1).asInteger())"},
			{Expression: "object.spec.containers.all(c, c.image.find('[0-9]+').size() > 0 && [3, 1, 2].sort()[0] == 7)", Message: "no"},
			{Expression: "sets.contains(['x'], variables.names) || variables.broken"}, {Expression: "authorizer.requestResource.check('get').allowed() && semver('1.2.3').isLessThan(semver('1.0.0'))"},
			{Expression: "namespaceObject.metadata.labels.env == 'none' && ip('10.0.0.1').isLoopback()"}, {Expression: "format.named('dns1123Label').value().validate('A_').hasValue() && object.nothing"},
		},
		Annotations: []admission.Annotation{{Key: "k", ValueExpression: "variables.text + url('https://a.b/c').getHost()"}},
	}
	program, problems := admission.Compile(s)
	if len(problems) != 1 {
		t.Fatalf("one variable does not compile: %v", problems)
	}
	all := situations(t, 8)["widget"]
	wanted := make([]admission.Evaluation, len(all))
	for i := range all {
		wanted[i] = evaluate(t, program, all[i])
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range all {
				if got := evaluate(t, program, all[i]); !cmp.Equal(wanted[i], got) {
					t.Errorf("%s: %+v, but alone %+v", all[i].name, got, wanted[i])
				}
			}
		})
	}
	group.Wait()
}
