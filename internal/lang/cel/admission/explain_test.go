package admission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// pod is an object with a list, a map, and fields that are absent.
func pod() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "cart", "namespace": "shop", "labels": map[string]any{"app": "cart", "team": "red"}},
		"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "image": "x/cart:1"},
			map[string]any{"name": "log", "image": "y/log:2"},
		}},
	}
}

func podInput() *admission.Input {
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "cart", Namespace: "shop", Object: usher.TreeObject(pod())}
	r.User.Name = "jane"
	r.Kind.Version, r.Kind.Kind = "v1", "Pod"
	return &admission.Input{Request: r, Object: pod(), Facts: &fact.Known{}}
}

func TestExplainParts(t *testing.T) {
	t.Parallel()
	containers := `object.spec.containers → [{"image":"x/cart:1","name":"main"},{"image":"y/log:2","name":"log"}]`
	for _, test := range []struct {
		reason, expression string
		want               []string
	}{
		{"a literal is not told", "object.metadata.name == 'web'", []string{
			`object.metadata.name == 'web' → false`, `  object.metadata.name → "cart"`,
		}},
		{"&& ends at the first that is false", "object.metadata.name == 'web' && request.name == 'x' && has(object.spec)", []string{
			`object.metadata.name == 'web' && request.name == 'x' && has(object.spec) → false`,
			`  object.metadata.name == "web" → false`, `    object.metadata.name → "cart"`,
			`  request.name == "x" not evaluated`, `  has(object.spec) not evaluated`,
		}},
		{"|| goes on after an error", "object.spec.nodeName == 'a' || has(object.status)", []string{
			`object.spec.nodeName == 'a' || has(object.status) → error no such key: nodeName`,
			`  object.spec.nodeName == "a" → error no such key: nodeName`, `    object.spec.nodeName → error no such key: nodeName`,
			`  has(object.status) → false`,
		}},
		{"?: evaluates one branch", "request.name == 'x' ? object.metadata.name == 'a' : object.metadata.name == 'b'", []string{
			`request.name == 'x' ? object.metadata.name == 'a' : object.metadata.name == 'b' → false`,
			`  request.name == "x" → false`, `    request.name → "cart"`,
			`  object.metadata.name == "a" not evaluated`,
			`  object.metadata.name == "b" → false`, `    object.metadata.name → "cart"`,
		}},
		{"branches that are only names are told, too", "(request.name == 'cart' ? object.spec.nope : object.metadata.name) == 'b'", []string{
			`(request.name == 'cart' ? object.spec.nope : object.metadata.name) == 'b' → error no such key: nope`,
			`  (request.name == "cart") ? object.spec.nope : object.metadata.name → error no such key: nope`,
			`    request.name == "cart" → true`, `      request.name → "cart"`,
			`    object.spec.nope → error no such key: nope`, `    object.metadata.name not evaluated`,
		}},
		{"all is decided by the first item that is not so", "object.spec.containers.all(c, c.image.startsWith('x/'))", []string{
			`object.spec.containers.all(c, c.image.startsWith('x/')) → false`, `  ` + containers,
			`  c at [1] → {"image":"y/log:2","name":"log"}`, `    c.image.startsWith("x/") → false`, `      c.image → "y/log:2"`,
		}},
		{"an item with an error is told", "object.spec.containers.all(c, c.image == 'x/cart:1' || c.limit > 1)", []string{
			`object.spec.containers.all(c, c.image == 'x/cart:1' || c.limit > 1) → error no such key: limit`, `  ` + containers,
			`  c at [1] → {"image":"y/log:2","name":"log"}`,
			`    c.image == "x/cart:1" || c.limit > 1 → error no such key: limit`,
			`      c.image == "x/cart:1" → false`, `        c.image → "y/log:2"`,
			`      c.limit > 1 → error no such key: limit`, `        c.limit → error no such key: limit`,
		}},
		{"exists without any tells the first", "object.spec.containers.exists(c, c.name == 'x')", []string{
			`object.spec.containers.exists(c, c.name == 'x') → false`, `  ` + containers,
			`  c at [0] → {"image":"x/cart:1","name":"main"}`, `    c.name == "x" → false`, `      c.name → "main"`,
			`  c at [1] → {"image":"y/log:2","name":"log"}`, `    c.name == "x" → false`, `      c.name → "log"`,
		}},
		{"loops in loops", "object.spec.containers.all(c, object.metadata.labels.exists(k, k == c.name || k == 'team'))", []string{
			`object.spec.containers.all(c, object.metadata.labels.exists(k, k == c.name || k == 'team')) → true`,
			`  object.spec.containers → [{"image":"x/cart:1","name":"main"},{"image":"y/log:2","name":"log"}]`,
			`  object.metadata.labels → {"app":"cart","team":"red"}`,
		}},
		{"the keys of maps", "object.metadata.labels.all(k, k == 'app')", []string{
			`object.metadata.labels.all(k, k == 'app') → false`, `  object.metadata.labels → {"app":"cart","team":"red"}`,
			`  k → "team"`, `    k == "app" → false`, `      k → "team"`,
		}},
		{"two variables", "object.metadata.labels.all(k, v, v == 'cart')", []string{
			`object.metadata.labels.all(k, v, v == 'cart') → false`, `  object.metadata.labels → {"app":"cart","team":"red"}`,
			`  k, v at ["team"] → "red"`, `    v == "cart" → false`, `      v → "red"`,
		}},
		{"optionals", "object.metadata.?labels.?zone.orValue(request.name) == 'a'", []string{
			`object.metadata.?labels.?zone.orValue(request.name) == 'a' → false`,
			`  object.metadata.?labels.?zone.orValue(request.name) → "cart"`,
			`    object.metadata.?labels.?zone → absent`, `    request.name → "cart"`,
		}},
		{"an optional with a value", "object.metadata.?labels.?app.orValue(request.name) == 'a'", []string{
			`object.metadata.?labels.?app.orValue(request.name) == 'a' → false`,
			`  object.metadata.?labels.?app.orValue(request.name) → "cart"`,
			`    object.metadata.?labels.?app → "cart"`, `    request.name not evaluated`,
		}},
		{"the keys that are computed", "object.metadata.labels[request.name == 'cart' ? 'team' : 'app'] == 'blue'", []string{
			`object.metadata.labels[request.name == 'cart' ? 'team' : 'app'] == 'blue' → false`,
			`  object.metadata.labels[(request.name == "cart") ? "team" : "app"] → "red"`,
			`    (request.name == "cart") ? "team" : "app" → "team"`,
			`      request.name == "cart" → true`, `        request.name → "cart"`,
		}},
		{"what has no form in JSON is left out", "quantity('1Gi').isGreaterThan(quantity(object.metadata.name + ''))", []string{
			`quantity('1Gi').isGreaterThan(quantity(object.metadata.name + '')) → error quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
			`  quantity(object.metadata.name + "") → error quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
			`    object.metadata.name + "" → "cart"`, `      object.metadata.name → "cart"`,
		}},
		{"an expression that holds tells what it read", "object.metadata.name.startsWith('c') && object.spec.containers.size() < 9", []string{
			`object.metadata.name.startsWith('c') && object.spec.containers.size() < 9 → true`,
			`  object.metadata.name → "cart"`, `  ` + containers,
		}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: test.expression}}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			told, err := p.Explain(t.Context(), podInput(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, drawn(told, "")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			sameAsEvaluate(t, p, told)
		})
	}
}

// sameAsEvaluate compares the explained values of validations with the decision.
func sameAsEvaluate(t *testing.T, p *admission.Program, told []rule.Expression) {
	t.Helper()
	result, err := p.Evaluate(t.Context(), podInput())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]admission.Denial{}
	for _, d := range result.Denials {
		want[fmt.Sprintf("spec.validations[%d].expression", d.Index)] = d
	}
	for _, e := range told {
		if !strings.HasPrefix(e.Field, "spec.validations") || strings.HasSuffix(e.Field, "messageExpression") {
			continue
		}
		d, denied := want[e.Field]
		if denied != (e.Value != true) || d.Failed != (e.Error != "") || d.Failed && !strings.HasSuffix(d.Message, e.Error) {
			t.Errorf("%s: explained %v %q, decided %+v", e.Field, e.Value, e.Error, d)
		}
	}
}

// drawn are lines with expressions and their parts.
func drawn(all []rule.Expression, indent string) []string {
	var lines []string
	for _, e := range all {
		value, err := json.Marshal(e.Value)
		if err != nil {
			value = []byte(err.Error())
		}
		text := " → " + string(value)
		switch {
		case e.Unevaluated:
			text = " not evaluated"
		case e.Error != "":
			text = " → error " + e.Error
		case e.Absent:
			text = " → absent"
		}
		lines = append(lines, indent+e.Text+text)
		lines = append(lines, drawn(e.Parts, indent+"  ")...)
	}
	return lines
}

func TestExplainFollowsEvaluation(t *testing.T) {
	t.Parallel()
	source := admission.Code{
		Conditions: []admission.Named{{Name: "by-jane", Expression: "request.userInfo.username == variables.who"}},
		Variables: []admission.Named{
			{Name: "who", Expression: "'jane'"}, {Name: "unused", Expression: "object.nope"}, {Name: "name", Expression: "object.metadata.name"},
		},
		Validations: []admission.Validation{
			{Expression: "variables.name == 'web'", MessageExpression: "'not web but ' + variables.name"},
			{Expression: "variables.name != ''", MessageExpression: "'empty'"},
		},
		Annotations: []admission.Annotation{{Key: "who", ValueExpression: "variables.who"}},
	}
	fields := func(s admission.Code, in *admission.Input) []string {
		t.Helper()
		p, problems := admission.Compile(s)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		told, err := p.Explain(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range told {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s=%v", e.Field, e.Name, e.Value)))
		}
		return all
	}
	want := []string{
		"spec.variables[0].expression who=jane",
		"spec.matchConditions[0].expression by-jane=true",
		"spec.variables[2].expression name=cart",
		"spec.validations[0].expression =false",
		"spec.validations[1].expression =true",
		"spec.validations[0].messageExpression =not web but cart",
		"spec.auditAnnotations[0].valueExpression who=jane",
	}
	if diff := cmp.Diff(want, fields(source, podInput())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	other := podInput()
	other.Request.User.Name = "john"
	want = []string{"spec.variables[0].expression who=jane", "spec.matchConditions[0].expression by-jane=false"}
	if diff := cmp.Diff(want, fields(source, other)); diff != "" {
		t.Errorf("a false condition ends it (-want +got):\n%s", diff)
	}
}

// A fact that is missing is asked for, as by Evaluate.
func TestExplainLacksFacts(t *testing.T) {
	t.Parallel()
	p, _ := admission.Compile(admission.Code{
		Variables:   []admission.Named{{Name: "env", Expression: "namespaceObject.metadata.labels.env"}},
		Validations: []admission.Validation{{Expression: "variables.env == 'prod'"}},
	})
	in := podInput()
	_, err := p.Explain(t.Context(), in, nil)
	missing, ok := errors.AsType[*fact.Missing](err)
	if !ok {
		t.Fatalf("error %v, want *fact.Missing", err)
	}
	in.Facts.Set(missing.Ref, map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]any{"env": "test"}}}, nil)
	told, err := p.Explain(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`namespaceObject.metadata.labels.env → "test"`,
		`variables.env == 'prod' → false`, `  variables.env → "test"`,
	}
	if diff := cmp.Diff(want, drawn(told, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What takes too much has the values of other parts told nevertheless, and names the limit of explanations.
func TestExplainWhatTakesTooMuch(t *testing.T) {
	t.Parallel()
	p, problems := admission.Compile(admission.Code{
		Variables: []admission.Named{
			{Name: "many", Expression: "object.spec.containers.map(a, object.spec.containers.map(b, object.spec.containers.map(c, c.image + a.image + b.image))).size() > 0"},
			{Name: "few", Expression: "object.metadata.name"},
		},
		Validations: []admission.Validation{{Expression: "variables.few == 'cart' && variables.many"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in := podInput()
	var containers []any
	for range 6 {
		containers = append(containers, map[string]any{"image": strings.Repeat("x", 20<<10)})
	}
	in.Object["spec"] = map[string]any{"containers": containers}
	in.Allowance = allowance.Explaining(time.Second, 4<<20)
	told, err := p.Explain(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Join(drawn(told, ""), "\n")
	for _, want := range []string{"object.metadata.name → \"cart\"", "variables.few → \"cart\"", "takes too much memory: it needs at least", "and an explanation may use 4 MiB"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is not in\n%.3000s", want, lines)
		}
	}
}
