package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// configMap is a source of data that is a ConfigMap.
func configMap(name, expression string) admission.Data {
	return admission.Data{Name: name, NameExpression: expression, Load: func(in *admission.Input, at admission.Address) (any, error) {
		of := at.Name
		if expression == "" {
			of = name
		}
		return in.Facts.Value(&fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: of})
	}}
}

// A world has facts, and knows which were read.
type world struct {
	facts map[string]any
	read  []string
}

// know resolves the fact that an evaluation lacks, and reports whether it lacks one.
func (w *world) know(known *fact.Known, err error) bool {
	missing, ok := errors.AsType[*fact.Missing](err)
	if !ok {
		return false
	}
	text := missing.Ref.String()
	w.read = append(w.read, strings.TrimPrefix(text, "v1 ConfigMap shop/"))
	value, found := w.facts[w.read[len(w.read)-1]]
	if !found {
		known.Set(missing.Ref, nil, &fact.NotFound{Kind: "ConfigMap", Name: text})
	} else {
		known.Set(missing.Ref, value, nil)
	}
	return true
}

// evaluate evaluates a policy as an engine does.
func (w *world) evaluate(t *testing.T, p *admission.Program) admission.Evaluation {
	t.Helper()
	known := &fact.Known{}
	for {
		in := podInput()
		in.Facts, in.Size = known, cel.SizeOf(in.Object)
		result, err := p.Evaluate(t.Context(), in)
		if w.know(known, err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// facts are the objects of the tests below.
func facts() map[string]any {
	return map[string]any{
		"quota": map[string]any{"data": map[string]any{"most": "2", "team": "red"}},
		"red":   map[string]any{"data": map[string]any{"lead": "jane"}},
		"(namespaces)": []any{
			map[string]any{"metadata": map[string]any{"name": "a"}}, map[string]any{"metadata": map[string]any{"name": "b"}},
		},
	}
}

func TestData(t *testing.T) {
	t.Parallel()
	const none = `expression '%s' resulted in error: `
	for _, test := range []struct {
		reason string
		data   []admission.Data
		// expression is that of the only validation.
		expression string
		denied     string
		read       []string
	}{
		{"a field", []admission.Data{configMap("quota", "")}, "size(object.spec.containers) <= int(data.quota.data.most)", "", []string{"quota"}},
		{"a field that says no", []admission.Data{configMap("quota", "")}, "data.quota.data.team == 'blue'", "failed expression: data.quota.data.team == 'blue'", []string{"quota"}},
		{"what is not read is not asked for", []admission.Data{configMap("quota", ""), configMap("nope", "")}, "data.quota.data.team == 'red' || data.nope.data.x == ''", "", []string{"quota"}},
		{"one after the other", []admission.Data{configMap("red", ""), configMap("quota", "")}, "data.quota.data.team == 'red' && data.red.data.lead == 'jane'", "", []string{"quota", "red"}},
		{"what is missing is an error", []admission.Data{configMap("nope", "")}, "data.nope.data.x == ''", "data.nope: ConfigMap v1 ConfigMap shop/nope does not exist (in expression '%s')", []string{"nope"}},
		{"an error after || does not count", []admission.Data{configMap("nope", "")}, "data.nope.data.x == '' || true", "", []string{"nope"}},
		{"a name of the object", []admission.Data{configMap("lead", "object.metadata.labels.team")}, "data.lead.data.lead == request.userInfo.username", "", []string{"red"}},
		{"a name of the request", []admission.Data{configMap("x", "request.name + '-config'")}, "has(data.x.data)", `data.x: ConfigMap "v1 ConfigMap shop/cart-config" does not exist (in expression '%s')`, []string{"cart-config"}},
		{"has asks for the value", []admission.Data{configMap("quota", "")}, "has(data.quota.data.most) && !has(data.quota.data.least)", "", []string{"quota"}},
		{"optional fields", []admission.Data{configMap("quota", "")}, "data.quota.data.?least.orValue('1') == '1'", "", []string{"quota"}},
		{"it is there even if it is missing", []admission.Data{configMap("quota", "")}, "has(data.quota)", "", []string{"quota"}},
		{"by index", []admission.Data{configMap("quota", "")}, "dyn(data)['quota'].data.most == '2'", "", []string{"quota"}},
		{"the whole of it", []admission.Data{configMap("quota", ""), configMap("red", "")}, "size(dyn(data)) == 2", "", []string{"quota", "red"}},
		{"no such source", []admission.Data{configMap("quota", "")}, "dyn(data).nope == 1", none + "no such key: nope", nil},
		{"a name with a slash", []admission.Data{configMap("x", "'../secrets/root'")}, "has(data.x.a)", none + `data.x: nameExpression: the name "../secrets/root" is not possible: it may not contain '/'`, nil},
		{"a name that leads up", []admission.Data{configMap("x", "'..'")}, "has(data.x.a)", none + `data.x: nameExpression: the name ".." is not possible: it may not be '..'`, nil},
		{"a name with an escape", []admission.Data{configMap("x", "'a%2fb'")}, "has(data.x.a)", none + `data.x: nameExpression: the name "a%2fb" is not possible: it may not contain '%'`, nil},
		{"a huge name", []admission.Data{configMap("x", "lists.range(1000).map(i, 'x').join('')")}, "has(data.x.a)", none + `data.x: nameExpression: the name has 1000 bytes: at most 253 are possible`, nil},

		{"a name of what is absent", []admission.Data{configMap("x", "object.spec.nope")}, "has(data.x.a)", none + `data.x: nameExpression 'object.spec.nope' resulted in error: no such key: nope`, nil},
		{"a name that is no text", []admission.Data{configMap("x", "dyn(1)")}, "has(data.x.a)", none + "data.x: nameExpression 'dyn(1)' is no string", nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Data: test.data, Validations: []admission.Validation{{Expression: test.expression}}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			w := &world{facts: facts()}
			result := w.evaluate(t, p)
			denied := ""
			if len(result.Denials) > 0 {
				denied = result.Denials[0].Message
			}
			want := strings.Replace(test.denied, "%s", test.expression, 1)
			if diff := cmp.Diff(want, denied); diff != "" {
				t.Errorf("denied: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(test.read, w.read); diff != "" {
				t.Errorf("read: -want +got:\n%s", diff)
			}
		})
	}
}

func TestDataIsSeenByEveryExpression(t *testing.T) {
	t.Parallel()
	p, problems := admission.Compile(admission.Code{
		Data:       []admission.Data{configMap("quota", "")},
		Variables:  []admission.Named{{Name: "team", Expression: "data.quota.data.team"}},
		Conditions: []admission.Named{{Name: "most", Expression: "data.quota.data.most == '2'"}},
		Validations: []admission.Validation{
			{Expression: "variables.team == 'blue'", MessageExpression: "'only ' + data.quota.data.team + ' may'"},
		},
		Annotations: []admission.Annotation{{Key: "most", ValueExpression: "string(data.quota.data.most)"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := &world{facts: facts()}
	result := w.evaluate(t, p)
	want := admission.Evaluation{
		Denials:     []admission.Denial{{Message: "only red may", Reason: "Invalid"}},
		Annotations: []admission.Published{{Key: "most", Value: "2"}},
	}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"quota"}, w.read); diff != "" {
		t.Errorf("read: -want +got:\n%s", diff)
	}
}

// TestDataOfMutations changes the label that names an object: the mutation after it reads another.
func TestDataOfMutations(t *testing.T) {
	t.Parallel()
	p, problems := admission.Compile(admission.Code{
		Data: []admission.Data{configMap("of", "object.metadata.labels.team")},
		Mutations: []admission.Mutation{
			{Type: admission.JSONPatch, Expression: `[JSONPatch{op: "replace", path: "/metadata/labels/team", value: data.of.data.next}]`},
			{Type: admission.JSONPatch, Expression: `[JSONPatch{op: "add", path: "/metadata/labels/next", value: data.of.data.next}]`},
		},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := &world{facts: map[string]any{
		"red": map[string]any{"data": map[string]any{"next": "blue"}}, "blue": map[string]any{"data": map[string]any{"next": "green"}},
	}}
	known := &fact.Known{}
	for {
		in := podInput()
		in.Facts = known
		m, err := p.Mutate(t.Context(), in, nil)
		if w.know(known, err) {
			continue
		}
		if err != nil || len(m.Failures) > 0 {
			t.Fatal(err, m.Failures)
		}
		object, err := m.Object()
		if err != nil {
			t.Fatal(err)
		}
		labels := object["metadata"].(map[string]any)["labels"]
		if diff := cmp.Diff(map[string]any{"app": "cart", "team": "blue", "next": "green"}, labels); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		break
	}
	if diff := cmp.Diff([]string{"red", "blue"}, w.read); diff != "" {
		t.Errorf("read: -want +got:\n%s", diff)
	}
}

func TestProblemsOfData(t *testing.T) {
	t.Parallel()
	quota := []admission.Data{configMap("quota", "")}
	for _, test := range []struct {
		reason          string
		source          admission.Code
		field, what, do string
	}{
		{"a name that is misspelled", admission.Code{Data: quota, Validations: []admission.Validation{{Expression: "data.qouta.a == 1"}}}, "spec.validations[0].expression", "undefined field 'qouta'", "did you mean quota?"},
		{"no data", admission.Code{Validations: []admission.Validation{{Expression: "data.quota.a == 1"}}}, "spec.validations[0].expression", "undeclared reference to 'data'", "add a source to spec.data"},
		{"data in a name", admission.Code{Data: []admission.Data{configMap("a", ""), configMap("b", "data.a.data.x")}}, "spec.data[1].object.nameExpression", "undeclared reference to 'data'", "use object, oldObject, request and namespaceObject: the expression sees nothing else"},
		{"variables in a name", admission.Code{Data: []admission.Data{configMap("b", "variables.x")}, Variables: []admission.Named{{Name: "x", Expression: "'a'"}}}, "spec.data[0].object.nameExpression", "undefined field 'x'", "use object, oldObject, request and namespaceObject: the expression sees nothing else"},
		{"params in a name", admission.Code{Params: true, Data: []admission.Data{configMap("b", "params.x")}}, "spec.data[0].object.nameExpression", "undeclared reference to 'params'", "use object, oldObject, request and namespaceObject: the expression sees nothing else"},
		{"a name that is a number", admission.Code{Data: []admission.Data{configMap("b", "1")}}, "spec.data[0].object.nameExpression", "must evaluate to one of [string dyn] but got int", "use object, oldObject, request and namespaceObject: the expression sees nothing else"},
		{"no data left for the next policy", admission.Code{Data: []admission.Data{configMap("other", "")}, Validations: []admission.Validation{{Expression: "has(data.quota)"}}}, "spec.validations[0].expression", "undefined field 'quota'", "see docs/cel.md for the fields of request, namespaceObject and variables"},
	} {
		_, problems := admission.Compile(test.source)
		if len(problems) != 1 {
			t.Errorf("%s: %v", test.reason, problems)
			continue
		}
		p := problems[0]
		if p.Field != test.field || !strings.Contains(p.What, test.what) || p.Do != test.do {
			t.Errorf("%s: %s: %s: %s", test.reason, p.Field, p.What, p.Do)
		}
	}
}

// TestSizeOfData evaluates a loop over a list whose size decides whether a budget is exceeded: costs
// count only for the long one.
func TestSizeOfData(t *testing.T) {
	t.Parallel()
	const loop = "data.all.all(x, data.all.all(y, x.name == y.name || size(x.name) >= 0))"
	p, problems := admission.Compile(admission.Code{
		Data: []admission.Data{{Name: "all", Load: func(in *admission.Input, _ admission.Address) (any, error) {
			return in.Facts.Value(&fact.Object{APIVersion: "v1", Kind: "Pod", All: true})
		}}},
		Validations: []admission.Validation{{Expression: loop}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct {
		reason string
		length int
		denied string
	}{
		{"a short list", 10, ""},
		{"a long list exceeds the budget", 3_000, "operation cancelled: actual cost limit exceeded"},
	} {
		list := make([]any, test.length)
		for i := range list {
			list[i] = map[string]any{"name": fmt.Sprint("pod-", i)}
		}
		w := &world{facts: map[string]any{"v1 Pod ": list}}
		result := w.evaluate(t, p)
		denied := ""
		if len(result.Denials) > 0 {
			denied = result.Denials[0].Message
		}
		if test.denied == "" && denied != "" || !strings.Contains(denied, test.denied) {
			t.Errorf("%s: %q", test.reason, denied)
		}
	}
}

func TestExplainData(t *testing.T) {
	t.Parallel()
	of := configMap("of", "object.metadata.labels.team")
	of.NamespaceExpression = "request.namespace"
	p, problems := admission.Compile(admission.Code{
		Data:        []admission.Data{of, configMap("unread", "object.metadata.name")},
		Variables:   []admission.Named{{Name: "lead", Expression: "data.of.data.lead"}},
		Validations: []admission.Validation{{Expression: "variables.lead == 'joe' && data.unread.x"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w, known := &world{facts: facts()}, &fact.Known{}
	for {
		in := podInput()
		in.Facts = known
		told, err := p.Explain(t.Context(), in, nil)
		if w.know(known, err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, e := range told {
			lines = append(lines, e.Field+": "+strings.Join(drawn([]rule.Expression{e}, ""), "; "))
		}
		want := []string{
			`spec.data[0].object.namespaceExpression: request.namespace → "shop"`,
			`spec.data[0].object.nameExpression: object.metadata.labels.team → "red"`,
			`spec.variables[0].expression: data.of.data.lead → "jane"`,
			`spec.validations[0].expression: variables.lead == 'joe' && data.unread.x → false;   variables.lead == "joe" → false;     variables.lead → "jane";   data.unread.x not evaluated`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		return
	}
}
