package condition_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

func TestRender(t *testing.T) {
	t.Parallel()
	tests := []struct{ template, want, reason string }{
		{`{type: condition, condition: {cond: Exist, message: 'say "no"', dataRef: {from: current, path: /metadata/annotations/no-delete}}}`, `
data:      _ @tag(data)
object:    data.object
kind:      object.kind
oldObject: data.oldObject

validate: {
    if object.metadata.annotations["no-delete"] != _|_ {
        valid:  false
        reason: "say \"no\""
    }
}`, "the least there is; quotes are quoted"},
		{`{type: condition, condition: {affectMode: allow, cond: NotIn, message: m1, value: {stringSlice: [a, "b\\(strings.ToUpper(kind))"]}, dataRef: {from: owner, path: /spec/team}}}`, `
import (
    "list"
    "strings"
)

data:          _ @tag(data)
object:        data.object
kind:          object.kind
oldObject:     data.oldObject
otherObject_d: data.extraParams.otherObject_d

validate: {
    if otherObject_d.spec.team != _|_ {
        if !list.Contains(["a", "b\(strings.ToUpper(kind))"], otherObject_d.spec.team) {
            valid:  false
            reason: "m1"
        }
    }
}`, "what is used is imported and declared; both affect modes render alike"},
		{`{type: condition, condition: {cond: Gte, message: m1, valueRef: {from: old, path: /spec/a.b}, valueProcess: {operation: '-', operationWith: "-10%"}, dataRef: {from: http, path: body.x, http: {url: "http://svc"}}}}`, `
data:      _ @tag(data)
object:    data.object
kind:      object.kind
oldObject: data.oldObject
http_d:    data.extraParams.http_d

validate: {
    if http_d.body.x != _|_ {
        if (*oldObject.spec["a.b"] | oldObject.spec.a.b) != _|_ {
            if http_d.body.x >= ((*oldObject.spec["a.b"] | oldObject.spec.a.b) - (-0.1)) {
                valid:  false
                reason: "m1"
            }
        }
    }
}`, "both references have to exist"},
		{`{type: pab, podAvailableBadge: {maxUnavailable: 60%}}`, `
data:        _ @tag(data)
object:      data.object
kind:        object.kind
oldObject:   data.oldObject
otherObject: data.extraParams.otherObject

validate: {
    if object.kind == "Pod" {
        if object.status.phase != _|_ {
            if object.status.phase == "Running" {
                if otherObject.spec.replicas != _|_ {
                    if otherObject.status.replicas != _|_ {
                        if (otherObject.spec.replicas - (otherObject.spec.replicas * 0.6)) > (otherObject.status.replicas - 1) {
                            valid:  false
                            reason: "Cannot delete this pod, cause of hitting maxUnavailable(0.6)"
                        }
                    }
                }
            }
        }
    }
}`, "a badge"},
		{`{type: condition}`, `
validate: {}`, "a template without content allows everything"},
	}
	for _, test := range tests {
		got, problems := condition.Render(parse(t, test.template))
		if want := strings.TrimPrefix(test.want, "\n"); got != want {
			t.Errorf("%s: %s\n%v\n%s\nwant\n%s", test.template, test.reason, problems, got, want)
		}
	}
}

// TestOpenTemplates: only an evaluator knows what these mean, and it does.
func TestOpenTemplates(t *testing.T) {
	t.Parallel()
	tests := []struct{ template, want, reason string }{
		{`{type: condition, condition: {cond: Exist, message: "\\(strings.ToUpper(object.metadata.name))!", dataRef: {from: current, path: /metadata/name}}}`, "CART!", "a call in the message"},
		{`{type: condition, condition: {cond: Equal, message: m1, value: {string: "\\(len(object.spec.list))"}, dataRef: {from: current, path: 'spec.replicas'}}}`, "error", "a call in the value, which is a string then"},
		{`{type: condition, condition: {cond: Equal, message: m1, value: {string: a}, dataRef: {from: current, path: 'spec.list[len(object.spec.list)-2]'}}}`, "m1", "a computed index"},
		{`{type: condition, condition: {affectMode: allow, cond: Equal, message: m1, value: {string: b}, dataRef: {from: current, path: 'spec.list[len(object.spec.list)-2]'}}}`, "<denied>", "the same in mode allow"},
		{`{type: condition, condition: {cond: Exist, message: "\\(otherObject_d.data.zone)", dataRef: {from: k8s, path: /data, k8s: {apiVersion: v1, kind: ConfigMap, name: c}}}}`, "eu", "the message quotes the reference"},
	}
	for _, test := range tests {
		template := parse(t, test.template)
		if program, problems := condition.Compile(template); program != nil || problems != nil {
			t.Errorf("%s compiles to %v, %v, want neither program nor problems: %s", test.template, program, problems, test.reason)
		}
		in := &rule.Input{Request: &usher.Request{Operation: usher.Create}, Object: object()}
		if got := settle(t, evaluated(t, template), in); got != test.want {
			t.Errorf("%s: %s, want %s: %s", test.template, got, test.want, test.reason)
		}
	}
}

// evaluated is the template on CUE's own evaluator.
func evaluated(t *testing.T, template *v1alpha1.ValidateRuleTemplate) rule.Program {
	t.Helper()
	source, problems := condition.Render(template)
	if len(rule.Errors(problems)) > 0 {
		t.Fatalf("Render: %v", problems)
	}
	program, problems := cue.Compile(t.Context(), source, cue.RenderedValidate, cue.Options{ExtraParams: condition.Params(template), DependsOn: condition.ParamsDependOn(template)})
	if len(rule.Errors(problems)) > 0 {
		t.Fatalf("compile rendered template: %v\n%s", problems, source)
	}
	return condition.Evaluated(template, program)
}

// settle runs the program until it lacks no fact, and returns what came of it in a word.
func settle(t *testing.T, program rule.Program, in *rule.Input) string {
	t.Helper()
	known := &fact.Known{}
	in.Facts = known
	for range 5 {
		outcome, err := ruletest.Run(t, program, in)
		var missing *fact.Missing
		switch {
		case errors.As(err, &missing) && missing.Ref.Sort() == fact.Requests:
			known.Set(missing.Ref, map[string]any{"body": object(), "header": map[string]any{"X-Team": []any{"a"}}}, nil)
		case errors.As(err, &missing):
			known.Set(missing.Ref, map[string]any{"data": map[string]any{"zone": "eu"}, "spec": object()["spec"]}, nil)
		case err != nil:
			return "error"
		case outcome.Verdict == "":
			return "<allowed>"
		case outcome.Message == "":
			return "<denied>"
		default:
			return outcome.Message
		}
	}
	t.Fatalf("%s asks for facts again and again", program)
	return ""
}

// TestRenderedMeansTheSame runs random templates on random objects, as closures and on
// CUE's own evaluator.
func TestRenderedMeansTheSame(t *testing.T) {
	t.Parallel()
	r := random{rand.New(rand.NewPCG(1, 2))}
	outcomes := map[string]int{}
	for range 150 {
		for _, outcome := range differ(t, r, 4) {
			outcomes[outcome]++
		}
	}
	if outcomes["error"] == 0 || outcomes["<allowed>"] == 0 || outcomes["<denied>"] == 0 || outcomes["m1"] == 0 {
		t.Errorf("the templates are all of one kind: %v", outcomes)
	}
}

// FuzzCondition does the same for as long as wanted.
func FuzzCondition(f *testing.F) {
	f.Add(uint64(3), uint64(4))
	f.Fuzz(func(t *testing.T, seed1, seed2 uint64) {
		differ(t, random{rand.New(rand.NewPCG(seed1, seed2))}, 8)
	})
}

// differ makes a template, compares its closures with its evaluated rendering on a number
// of objects, and returns what they said.
func differ(t *testing.T, r random, objects int) []string {
	t.Helper()
	template := r.template()
	program, problems := condition.Compile(template)
	if program == nil {
		t.Fatalf("%+v: %v", template, problems)
	}
	slow := evaluated(t, template)
	outcomes := make([]string, objects)
	for i := range outcomes {
		in := &rule.Input{Request: &usher.Request{Operation: usher.Create}, Object: r.root()}
		if r.IntN(2) == 0 {
			in.Request.Operation = usher.Update
			in.OldObject = r.root()
		}
		got, want := settle(t, program, in), settle(t, slow, in)
		if got != want {
			source, _ := condition.Render(template)
			t.Errorf("%s: %q, evaluated %q\nobject %v\nold %v\n%s", program, got, want, in.Object, in.OldObject, source)
		}
		outcomes[i] = got
	}
	return outcomes
}

// random makes templates and objects that often have to do with each other.
type random struct{ *rand.Rand }

func choose[T any](r random, choices ...T) T { return choices[r.IntN(len(choices))] }

func (r random) template() *v1alpha1.ValidateRuleTemplate {
	if r.IntN(6) == 0 {
		return r.badge()
	}
	c := &v1alpha1.ValidateCondition{
		AffectMode: choose(r, v1alpha1.AffectReject, v1alpha1.AffectReject, v1alpha1.AffectAllow),
		Cond:       choose(r, condition.Conds()...),
		DataRef:    r.reference(),
		Message:    choose(r, "m1", "m1", r.text()),
	}
	switch condition.Takes(c.Cond) {
	case "nothing":
	case "several values":
		c.Value = choose(r, &v1alpha1.ConstantValue{StringSlice: []string{r.text(), r.text()}},
			&v1alpha1.ConstantValue{IntegerSlice: []int64{1, 2, 12}}, &v1alpha1.ConstantValue{FloatSlice: []v1alpha1.Float64{"1.2", "3"}})
	case "one value":
		r.right(c)
	}
	return &v1alpha1.ValidateRuleTemplate{Type: v1alpha1.TemplateCondition, Condition: c}
}

func (r random) right(c *v1alpha1.ValidateCondition) {
	c.ValueRef = r.reference()
	if r.IntN(2) == 0 {
		c.ValueRef = nil
		c.Value = choose(r, &v1alpha1.ConstantValue{Integer: new(int64(3))}, &v1alpha1.ConstantValue{Integer: new(int64(-4))},
			&v1alpha1.ConstantValue{Float: new(choose[v1alpha1.Float64](r, "1.5", "-2", "1e3", "007.10", "0.3", ".5", "2.0"))},
			&v1alpha1.ConstantValue{String: new(r.text())}, &v1alpha1.ConstantValue{Boolean: new(true)})
	}
	if r.IntN(2) == 0 {
		c.ValueProcess = &v1alpha1.ValueProcess{
			Operation: choose[v1alpha1.OperationType](r, "+", "-", "*", "/"),
			OperationWith: new(choose(r, intstr.FromInt32(2), intstr.FromInt32(-3), intstr.FromInt32(0), intstr.FromString("60%"),
				intstr.FromString("0.1"), intstr.FromString("3"), intstr.FromString("garbage"), intstr.FromString("-1.5"), intstr.FromString("200%"))),
		}
	}
}

func (r random) badge() *v1alpha1.ValidateRuleTemplate {
	limit := new(choose(r, intstr.FromInt32(2), intstr.FromInt32(0), intstr.FromString("60%"), intstr.FromString("33.3%"), intstr.FromString("100%")))
	source := r.reference()
	badge := &v1alpha1.PodAvailableBadge{MaxUnavailable: limit, ReplicaReference: &v1alpha1.ReplicaResourceRefer{
		From: source.From, K8s: source.K8s, Http: source.Http, TargetReplicaPath: "/spec/replicas", CurrentReplicaPath: "/status/replicas",
	}}
	if r.IntN(2) == 0 {
		badge.MaxUnavailable, badge.MinAvailable = nil, limit
	}
	return &v1alpha1.ValidateRuleTemplate{Type: v1alpha1.TemplatePodAvailableBadge, PodAvailableBadge: badge}
}

func (r random) reference() *v1alpha1.ResourceRefer {
	ref := &v1alpha1.ResourceRefer{Path: r.path(), From: choose(r, v1alpha1.FromCurrentObject, v1alpha1.FromCurrentObject,
		v1alpha1.FromOldObject, v1alpha1.FromK8s, v1alpha1.FromHTTP)}
	switch ref.From {
	case v1alpha1.FromK8s:
		ref.K8s = &v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: choose(r, "c1", "c2", "{{metadata.nope}}")}
	case v1alpha1.FromHTTP:
		ref.Http = &v1alpha1.HttpDataRef{URL: choose(r, "http://svc/a", "http://svc/{{metadata.nope}}")}
	}
	return ref
}

func (r random) path() string {
	if r.IntN(4) == 0 {
		return choose(r, `spec["a.b"]`, `spec.a`, `spec."a-b".a`, `spec.a[0]`, `spec`, `status.replicas`, `spec["if"]`, `body.spec.replicas`)
	}
	path := "/" + choose(r, "spec", "spec", "status")
	for range 1 + r.IntN(3) {
		path += "/" + choose(r, "a", "b", "a.b", "a-b", "b.a", "0", "1", "x~1y", "_h", "if", "replicas", `"a.b"`, "phase", "a[0]")
	}
	return path
}

func (r random) text() string {
	return choose(r, "a", "b", "12", `q"uo\te`, `\(object.metadata.name)`, `n \(object.spec.a) \(kind)`, `\(data.oldObject.spec.replicas)`, "multi\nline\x01", `\u00e9`)
}

func (r random) root() map[string]any {
	root := map[string]any{"kind": choose[any](r, "Pod", "Pod", "Node"), "metadata": map[string]any{"name": "cart"}}
	for _, key := range []string{"spec", "status"} {
		switch r.IntN(6) {
		case 0:
		case 1:
			root[key] = r.value(1)
		default:
			root[key] = r.object(1)
		}
	}
	if status, ok := root["status"].(map[string]any); ok && r.IntN(2) == 0 {
		status["phase"] = "Running"
	}
	return root
}

func (r random) object(depth int) map[string]any {
	object := map[string]any{}
	for range 4 {
		object[choose(r, "a", "b", "a.b", "a-b", "b.a", "x/y", "_h", "if", "replicas", "phase")] = r.value(depth + 1)
	}
	return object
}

func (r random) value(depth int) any {
	switch n := r.IntN(11); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n < 4:
		return choose[int64](r, 0, 1, 2, 3, -1, 10, 100000)
	case n < 5:
		return choose(r, 0.5, 1.5, 0.1, 0.2, 2.25, 1e-7, 3.3)
	case n < 7 || depth > 3:
		return choose(r, "a", "b", "", "12", "1.2", "Running", `x"y`, "3", "a\nb")
	case n == 7:
		return []any{r.value(depth + 1), r.value(depth + 1)}
	}
	return r.object(depth)
}
