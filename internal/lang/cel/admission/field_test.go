package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// fieldObject is a pod with what the expressions of TestField read.
func fieldObject() map[string]any {
	p := pod()
	spec := p["spec"].(map[string]any)
	containers := spec["containers"].([]any)
	containers[1].(map[string]any)["securityContext"] = map[string]any{"privileged": true}
	containers[1].(map[string]any)["ports"] = []any{map[string]any{"hostPort": int64(0)}, map[string]any{"hostPort": int64(80)}}
	spec["initContainers"] = []any{map[string]any{"name": "init", "image": "z/init"}}
	spec["hostNetwork"], spec["replicas"] = true, int64(1)
	p["metadata"].(map[string]any)["annotations"] = map[string]any{"example.com/owner": "nobody", "line\nbreak": "x"}
	return p
}

func fieldInput(object, params map[string]any) *admission.Input {
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "cart", Namespace: "shop", Object: usher.TreeObject(object)}
	r.User.Name = "jane"
	r.Kind.Version, r.Kind.Kind = "v1", "Pod"
	return &admission.Input{Request: r, Object: object, Params: params, Facts: &fact.Known{}}
}

// TestField tells which field a validation that is not true is about.
func TestField(t *testing.T) {
	t.Parallel()
	variables := []admission.Named{
		{Name: "containers", Expression: "object.spec.containers"},
		{Name: "everything", Expression: "object.spec.?initContainers.orValue([]) + variables.containers"},
		{Name: "images", Expression: "variables.everything.map(c, c.image)"},
		{Name: "privileged", Expression: "variables.containers.filter(c, c.?securityContext.privileged.orValue(false))"},
		{Name: "root", Expression: "object.spec.?securityContext.orValue({})"},
		{Name: "isOpen", Expression: "object.spec.hostNetwork && request.name != ''"},
		{Name: "limit", Expression: "2"},
		{Name: "key", Expression: "object.metadata.name"},
	}
	params := map[string]any{"registries": []any{"x/"}, "least": int64(2), "label": "team", "on": false}
	for _, test := range []struct{ reason, expression, want string }{
		{"a field that is false", "!object.spec.hostNetwork", "spec.hostNetwork"},
		{"a comparison", "object.spec.replicas >= 2", "spec.replicas"},
		{"a comparison the other way", "2 <= object.spec.replicas", "spec.replicas"},
		{"of two fields, the first", "object.metadata.name == object.metadata.namespace", "metadata.name"},
		{"a comparison with params", "params.least <= object.spec.replicas", "spec.replicas"},
		{"has", "has(object.spec.nodeName)", "spec.nodeName"},
		{"has of what is not there", "has(object.status) && has(object.status.phase)", "status"},
		{"an optional field", "!object.spec.?hostNetwork.orValue(false)", "spec.hostNetwork"},
		{"optional fields below each other", "object.spec.?securityContext.?runAsNonRoot.orValue(false) == true", "spec.securityContext.runAsNonRoot"},
		{"the value of an optional", "object.?spec.hostNetwork.value() == false", "spec.hostNetwork"},
		{"or with an optional", "object.spec.?a.or(object.spec.?b).orValue(false) == true", "spec.a"},
		{"optMap", "object.spec.?replicas.optMap(r, r > 1).orValue(true)", "spec.replicas"},
		{"a field by its key", "object['spec']['hostNetwork'] == false", "spec.hostNetwork"},
		{"a key with special characters", "object.metadata.annotations['example.com/owner'] == 'jane'", "metadata.annotations[example.com/owner]"},
		{"a key with a hyphen", "object.metadata.annotations[?'cost-centre'].hasValue()", "metadata.annotations.cost-centre"},
		{"a key that cannot be printed", `object.metadata.annotations['line\nbreak'] == 'y'`, "metadata.annotations"},
		{"a key in a map", "'owner' in object.metadata.labels", "metadata.labels"},
		{"a position in a list", "object.spec.containers[1].image == 'x'", "spec.containers[1].image"},
		{"a function", "size(object.spec.containers) <= 1", "spec.containers"},
		{"a method", "object.metadata.name.startsWith('web')", "metadata.name"},
		{"a part of a text", "object.spec.containers[0].image.split(':')[1] == '2'", "spec.containers[0].image"},
		{"a sum", "object.spec.replicas + 1 > 2", "spec.replicas"},
		{"&&: the first that is false", "has(object.spec) && object.spec.replicas > 1 && !object.spec.hostNetwork", "spec.replicas"},
		{"&&: an operand of another policy is not the object's", "params.on && object.spec.replicas == 1", ""},
		{"||: one reads the object", "request.operation == 'DELETE' || object.spec.replicas > 1", "spec.replicas"},
		{"||: tests whether the field is there", "!has(object.spec.hostNetwork) || object.spec.hostNetwork == false", "spec.hostNetwork"},
		{"||: tests one level above", "!has(object.spec.containers) || object.spec.containers[0].name == 'x'", "spec.containers[0].name"},
		{"||: what they have in common", "object.metadata.labels.app == 'x' || object.metadata.labels.team == 'y'", "metadata.labels"},
		{"||: nothing in common, the last", "object.metadata.name == 'x' || object.spec.replicas > 1", "spec.replicas"},
		{"a negated ||: the one that is true", "!(has(object.spec.nodeName) || object.spec.hostNetwork)", "spec.hostNetwork"},
		{"a negated &&: both", "!(has(object.spec.hostNetwork) && object.spec.hostNetwork)", "spec.hostNetwork"},
		{"?: the branch taken", "object.metadata.name == 'cart' ? object.spec.replicas > 1 : object.spec.hostNetwork == false", "spec.replicas"},
		{"?: a branch without fields", "has(object.spec.hostNetwork) ? false : true", "spec.hostNetwork"},
		{"all: the item and its field", "object.spec.containers.all(c, !c.?securityContext.?privileged.orValue(false))", "spec.containers[1].securityContext.privileged"},
		{"all: the first item of two", "object.spec.containers.all(c, c.image == 'y')", "spec.containers[0].image"},
		{"all: what is not there", "object.spec.containers.all(c, has(c.resources))", "spec.containers[0].resources"},
		{"all: the item itself", "object.spec.containers.all(c, c == {})", "spec.containers[0]"},
		{"all: a body without the item", "object.spec.containers.all(c, false)", "spec.containers[0]"},
		{"all with position and item", "object.spec.containers.all(i, c, i == 0 || c.image == 'x')", "spec.containers[1].image"},
		{"all in all", "object.spec.containers.all(c, c.?ports.orValue([]).all(p, p.hostPort == 0))", "spec.containers[1].ports[1].hostPort"},
		{"all of a map", "object.metadata.labels.all(k, k == 'app')", "metadata.labels"},
		{"all of a map by its keys", "object.metadata.labels.all(k, object.metadata.labels[k] == 'cart')", "metadata.labels"},
		{"all of a map with values", "object.metadata.labels.all(k, v, v == 'x')", "metadata.labels"},
		{"exists: the list", "object.spec.containers.exists(c, c.name == 'web')", "spec.containers"},
		{"a negated exists: the item", "!object.spec.containers.exists(c, c.name == 'log')", "spec.containers[1].name"},
		{"exists_one: the list", "object.spec.containers.exists_one(c, c.name == 'web')", "spec.containers"},
		{"filter: the list", "object.spec.containers.filter(c, c.name == 'log').size() == 2", "spec.containers"},
		{"filter that should find nothing: the item", "object.spec.containers.filter(c, c.name == 'log').size() == 0", "spec.containers[1].name"},
		{"map: the list", "object.spec.containers.map(c, c.name) == ['a']", "spec.containers"},
		{"exists of params: the field that all items read", "params.registries.exists(r, object.spec.containers[1].image.startsWith(r))", "spec.containers[1].image"},
		{"exists of params in all", "object.spec.containers.all(c, params.registries.exists(r, c.image.startsWith(r)))", "spec.containers[1].image"},
		{"all of literals", "['app', 'owner'].all(k, k in object.metadata.labels)", "metadata.labels"},
		{"all of two lists: the second", "(object.spec.initContainers + object.spec.containers).all(c, c.name != 'log')", "spec.containers[1].name"},
		{"all of two lists: the first", "(object.spec.initContainers + object.spec.containers).all(c, c.name != 'init')", "spec.initContainers[0].name"},
		{"a list that should be empty: the list", "size(object.spec.initContainers) == 0", "spec.initContainers"},
		{"nothing of two lists: the second", "(object.spec.containers + object.spec.initContainers).filter(c, c.image.startsWith('z/')).size() == 0", "spec.initContainers[0].image"},
		{"nothing of two lists: the first", "(object.spec.containers + object.spec.initContainers).filter(c, c.name == 'log').size() == 0", "spec.containers[1].name"},
		{"nothing of three lists, one of which is not there", "(object.spec.containers + object.spec.?ephemeralContainers.orValue([]) + object.spec.?initContainers.orValue([])).filter(c, c.image.startsWith('z/')) == []", "spec.initContainers[0].image"},
		{"the size is not more than 0", "!(size((object.spec.containers + object.spec.initContainers).filter(c, c.image.startsWith('z/'))) > 0)", "spec.initContainers[0].image"},
		{"the size is less than 1", "(object.spec.containers + object.spec.initContainers).filter(c, c.image.startsWith('z/')).size() < 1", "spec.initContainers[0].image"},
		{"0 is the size", "0 == (object.spec.containers + object.spec.initContainers).filter(c, c.image.startsWith('z/')).size()", "spec.initContainers[0].image"},
		{"nothing of what is mapped: what the filter reads", "(object.spec.containers + object.spec.initContainers).filter(c, c.image.startsWith('z/')).map(c, c.name).size() == 0", "spec.initContainers[0].image"},
		{"nothing of what was mapped before", "(object.spec.containers + object.spec.initContainers).map(c, c.image).filter(i, i.startsWith('z/')).distinct().sort().size() == 0", "spec.initContainers[0].image"},
		{"nothing of lists in lists", "(object.spec.initContainers + object.spec.containers).map(c, c.?ports.orValue([]).filter(p, p.hostPort > 0).map(p, string(p.hostPort))).flatten().size() == 0", "spec.containers[1].ports[1].hostPort"},
		{"nothing of lists that are made one", "(object.spec.initContainers + object.spec.containers).map(c, c.?ports.orValue([]).map(p, p.hostPort)).flatten().filter(p, p > 0).size() == 0", "spec.containers[1].ports[1].hostPort"},
		{"nothing of what params list", "(object.spec.initContainers + object.spec.containers).map(c, params.registries.filter(r, !c.image.startsWith(r) && c.name == 'log')).flatten().size() == 0", "spec.containers[1]"},
		{"nothing of what is made of the items: what it comes from", "(object.spec.containers + object.spec.initContainers).map(c, c.image).map(i, i.contains('.') ? i : 'docker.io/' + i).filter(i, i.contains('/z')).size() == 0", "spec.initContainers[0].image"},
		{"a value in two lists", "!('z/init' in (object.spec.containers + object.spec.initContainers).map(c, c.image))", "spec.initContainers[0].image"},
		{"a value that two lists do not have: what they have in common", "'y' in (object.spec.containers + object.spec.initContainers).map(c, c.image)", "spec"},
		{"the size of two lists: what they have in common", "(object.spec.containers + object.spec.initContainers).size() == 2", "spec"},
		{"the size of two lists, one of which is empty", "(object.spec.?ephemeralContainers.orValue([]) + object.spec.initContainers).size() == 2", "spec.initContainers"},
		{"two lists that should be empty: the first that is not", "(object.spec.?ephemeralContainers.orValue([]) + object.spec.initContainers).size() == 0", "spec.initContainers"},
		{"names that should be none of the labels", "object.metadata.labels.filter(k, k == 'app').size() == 0", "metadata.labels"},
		{"a variable that finds nothing", "variables.privileged.size() == 0", "spec.containers[1].securityContext.privileged"},
		{"all of a list of lists", "[object.spec.containers, object.spec.initContainers].all(l, l.all(c, c.name != 'init'))", "spec.initContainers[0].name"},
		{"all of what is filtered", "object.spec.containers.filter(c, c.name == 'log').all(c, c.image == 'x')", "spec.containers[1].image"},
		{"all of what is mapped", "object.spec.containers.map(c, c.image).all(i, i.startsWith('x/'))", "spec.containers[1].image"},
		{"all of one of two lists", "(request.name == '' ? object.spec.initContainers : object.spec.containers).all(c, c.name == 'main')", "spec.containers[1].name"},
		{"a variable that is a path", "variables.containers.all(c, c.name == 'main')", "spec.containers[1].name"},
		{"a variable of two lists", "variables.everything.all(c, c.name != 'log')", "spec.containers[1].name"},
		{"a variable of mapped lists", "variables.images.all(i, i.contains(':'))", "spec.initContainers[0].image"},
		{"a variable that is filtered", "variables.privileged.all(c, c.name == 'main')", "spec.containers[1].name"},
		{"a variable that is optional", "variables.root.?runAsUser.orValue(0) > 0", "spec.securityContext.runAsUser"},
		{"a variable that is a decision", "!variables.isOpen", "spec.hostNetwork"},
		{"a variable without fields", "variables.limit > 2", ""},
		{"optMap with a field", "object.?spec.optMap(s, s.replicas > 1).orValue(true)", "spec.replicas"},
		{"optMap in all", "object.spec.containers.all(c, c.?image.optMap(i, i.startsWith('x/')).orValue(true))", "spec.containers[1].image"},
		{"a variable of a loop hides the object", "[{'a': 1}].all(object, object.a == 2)", ""},
		{"a key of params is not told", "object.metadata.labels[params.label] == 'blue'", "metadata.labels"},
		{"a key of the object is not told", "object.metadata.labels[?object.metadata.name].orValue('x') == 'y'", "metadata.labels"},
		{"a key of a variable is not told", "object.metadata.labels[?variables.key].orValue('x') == 'y'", "metadata.labels"},
		{"below a computed key nothing is told", "object.spec[?object.metadata.name].?inner.hasValue()", "spec"},
		{"the object itself", "object == {}", ""},
		{"the old object", "oldObject != null", ""},
		{"the request", "request.name == 'web'", ""},
		{"params", "params.least == 3", ""},
		{"a literal", "false", ""},
		{"an error: the field that is not there", "object.spec.nodeName == 'a'", "spec.nodeName"},
		{"an error: the operand", "has(object.spec) && object.spec.nodeName == 'a'", "spec.nodeName"},
		{"an error: the item", "object.spec.containers.all(c, c.name == 'main' || c.limit > 1)", "spec.containers[1].limit"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := admission.Compile(admission.Code{
				Params: true, Variables: variables, Validations: []admission.Validation{{Expression: "true"}, {Expression: test.expression}},
			})
			if len(problems) > 0 {
				t.Fatalf("%s: %v", test.expression, problems)
			}
			in := fieldInput(fieldObject(), params)
			result, err := program.Evaluate(t.Context(), in)
			if err != nil || len(result.Denials) != 1 || result.Denials[0].Index != 1 {
				t.Fatalf("%s: %v, %v: not denied", test.expression, result, err)
			}
			if got := program.Field(t.Context(), in, 1); got != test.want {
				t.Errorf("%s: %q, not %q", test.expression, got, test.want)
			}
		})
	}
}

// TestFieldIsBounded: whatever policies and objects say, finding a field ends and tells no values.
func TestFieldIsBounded(t *testing.T) {
	t.Parallel()
	long := fieldObject()
	var many []any
	for i := range 5000 {
		many = append(many, map[string]any{"name": fmt.Sprint(i)})
	}
	long["spec"].(map[string]any)["containers"] = many
	secret := map[string]any{"kind": "Secret", "metadata": map[string]any{"name": "s"}, "data": map[string]any{"hunter2": "aHVudGVyMg=="}}
	var doubled []admission.Named
	for i := range 30 {
		expression := "object.spec.replicas > 1"
		if i > 0 {
			expression = fmt.Sprintf("variables.v%d || variables.v%d", i-1, i-1)
		}
		doubled = append(doubled, admission.Named{Name: fmt.Sprintf("v%d", i), Expression: expression})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		reason, expression string
		object             map[string]any
		ctx                context.Context
		want               string
	}{
		{"an item that is far behind", "object.spec.containers.all(c, c.name != '4999')", long, t.Context(), "spec.containers"},
		{"an item that is in reach", "object.spec.containers.all(c, c.name != '900')", long, t.Context(), "spec.containers[900].name"},
		{"loops in loops over a long list", "object.spec.containers.all(c, object.spec.containers.exists(d, d.name == c.name && c.name != '7'))", long, t.Context(), "spec.containers"},
		{"variables that double", "variables.v29", fieldObject(), t.Context(), ""},
		{"few variables that double", "variables.v3", fieldObject(), t.Context(), "spec.replicas"},
		{"deep nesting", strings.Repeat("!(", 60) + "object.spec.replicas > 1" + strings.Repeat(")", 60), fieldObject(), t.Context(), "spec.replicas"},
		{"many operands", strings.Repeat("object.spec.replicas > 1 || ", 500) + "false", fieldObject(), t.Context(), "spec.replicas"},
		{"a decision that has ended", "object.spec.replicas > 1", fieldObject(), ended, ""},
		{"names in a Secret", "object.data.all(k, k != 'hunter2')", secret, t.Context(), "data"},
		{"values in a Secret", "object.data.all(k, v, size(v) > 100 || object.data[k] == '')", secret, t.Context(), "data"},
		{"names in a Secret that are found", "object.data.filter(k, k == 'hunter2').map(k, k + '!').size() == 0", secret, t.Context(), "data"},
		{"loops over a long list in loops over it", "object.spec.containers.map(c, object.spec.containers.filter(d, d.name == c.name && c.name == '990')).flatten().size() == 0", long, t.Context(), ""},
		{"names of a Secret as keys", "object.data.map(k, k).all(k, object.data[k] == '')", secret, t.Context(), "data"},
		{"an object that is deleted", "object.spec.replicas > 1", nil, t.Context(), ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := admission.Compile(admission.Code{Variables: doubled, Validations: []admission.Validation{{Expression: test.expression}}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := program.Field(test.ctx, fieldInput(test.object, nil), 0); got != test.want {
				t.Errorf("%q, not %q", got, test.want)
			}
		})
	}
}
