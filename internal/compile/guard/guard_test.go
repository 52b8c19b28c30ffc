package guard_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
)

const cases = "../../policytest/testdata/kinitiras"

// A testCase is a case file whose request writes a policy.
type testCase struct {
	Name    string      `json:"name"`
	Phase   usher.Phase `json:"phase"`
	Request struct {
		Operation usher.Operation `json:"operation"`
		Object    map[string]any  `json:"object"`
		OldObject map[string]any  `json:"oldObject"`
	} `json:"request"`
	policytest.Answers[expectation]
}

type expectation struct {
	Allowed         bool   `json:"allowed"`
	Code            int32  `json:"code"`
	MessageContains string `json:"messageContains"`
	ReasonContains  string `json:"reasonContains"`
	Unchanged       bool   `json:"unchanged"`
	Fields          []struct {
		Path     string `json:"path"`
		Value    any    `json:"value"`
		Absent   bool   `json:"absent"`
		NonEmpty bool   `json:"nonEmpty"`
		Matches  string `json:"matches"`
	} `json:"fields"`
}

func (c *testCase) request() *usher.Request {
	r := &usher.Request{
		Phase: c.Phase, Operation: c.Request.Operation,
		Object: usher.TreeObject(c.Request.Object), OldObject: usher.TreeObject(c.Request.OldObject),
	}
	tree, _ := r.Target().Tree()
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	r.Kind = schema.FromAPIVersionAndKind(apiVersion, kind)
	return r
}

// elsewhere are the cases whose expectation is not the guard's: with the reason.
var elsewhere = map[string]string{
	"n26-policies-are-objects-too":            "the engine changes the policy",
	"n28-validate-policies-apply-to-policies": "the engine refuses the policy",
	"n33-oversell-factor-not-a-number":        "refused at once, not only when it is validated",
}

// TestCases runs the case files that write a policy, with nothing behind the guard.
func TestCases(t *testing.T) {
	t.Parallel()
	documents, err := policytest.Documents(cases)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, d := range documents {
		c := &testCase{}
		if err := d.Case(c); err != nil {
			t.Fatalf("%s: %v", d.File, err)
		}
		r := c.request()
		if !api.IsPolicy(r.Kind) || elsewhere[c.Name] != "" {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{}).Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			check(t, c, d, *c.Expected())
		})
	}
	if ran < 25 {
		t.Errorf("only %d cases write a policy", ran)
	}
}

func allow(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil }

func check(t *testing.T, c *testCase, d usher.Decision, want expectation) {
	t.Helper()
	if allowed := d.Verdict != usher.Deny; allowed != want.Allowed {
		t.Fatalf("allowed %t, want %t: %+v", allowed, want.Allowed, d)
	}
	if want.Code != 0 && d.Code != want.Code {
		t.Errorf("code %d, want %d", d.Code, want.Code)
	}
	if !strings.Contains(d.Message, want.MessageContains) {
		t.Errorf("message %q, want one that contains %q", d.Message, want.MessageContains)
	}
	if !strings.Contains(d.Reason, want.ReasonContains) {
		t.Errorf("reason %q, want one that contains %q", d.Reason, want.ReasonContains)
	}
	if d.Verdict == usher.Deny && (len(d.Findings) == 0 || d.Findings[0].Policy.Name == "") {
		t.Errorf("findings %v do not name the policy", d.Findings)
	}
	if want.Unchanged && len(d.Patch) > 0 {
		t.Errorf("patch %v, want none", d.Patch)
	}
	if len(want.Fields) == 0 {
		return
	}
	patched, _, err := jsonpatch.Apply(c.Request.Object, d.Patch)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range want.Fields {
		value, present := at(patched, f.Path)
		text, _ := value.(string)
		switch {
		case f.Absent:
			if present {
				t.Errorf("%s is %v, want nothing", f.Path, value)
			}
		case f.NonEmpty:
			if text == "" {
				t.Errorf("%s is %v, want text", f.Path, value)
			}
		case f.Matches != "":
			if !regexp.MustCompile(f.Matches).MatchString(text) {
				t.Errorf("%s is %q, want text that matches %q", f.Path, text, f.Matches)
			}
		default:
			if diff := cmp.Diff(f.Value, value); diff != "" {
				t.Errorf("%s (-want +got):\n%s", f.Path, diff)
			}
		}
	}
}

// at follows a JSON pointer.
func at(value any, path string) (any, bool) {
	for _, key := range strings.Split(path, "/")[1:] {
		switch v := value.(type) {
		case map[string]any:
			child, ok := v[key]
			if !ok {
				return nil, false
			}
			value = child
		case []any:
			if key != "0" && key != "1" && key != "2" {
				return nil, false
			}
			value = v[key[0]-'0']
		default:
			return nil, false
		}
	}
	return value, true
}

const header = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":`

const (
	goodOverride = header + `"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{"overrideRules":[{"overriders":` +
		`{"plaintext":[{"path":"/metadata/labels/a","op":"add","value":"1"}]}}]}}`
	badOverride = header + `"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{"overrideRules":[` +
		`{"overriders":{"cue":"patches: ["}},{"overriders":{"cue":"patches: [{op: \"add\", path: nowhere}]"}}]}}`
	hugeOverride = header + `"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{"overrideRules":[` +
		`{"overriders":{"cue":"patches: []\nx: 1000000*(1000000*\"x\")"}}]}}`
	templateOverride = header + `"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{"overrideRules":[{"overriders":` +
		`{"template":{"type":"labels","operation":"add","path":"a","value":{"string":"b"}}}}]}}`
	badTemplates = header + `"ClusterValidatePolicy","metadata":{"name":"p"},"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"validateRules":[` +
		`{"template":{"type":"condition","condition":{"cond":"Exist"}}},{"template":{"type":"condition","condition":{"cond":"Regex"}}}]}}`
	pab = header + `"ClusterValidatePolicy","metadata":{"name":"p"},"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"validateRules":[` +
		`{"template":{"type":"pab","podAvailableBadge":{"maxUnavailable":"60%"}}}]}}`
	warned = header + `"ClusterValidatePolicy","metadata":{"name":"p"},"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"validateRules":[` +
		`{"targetOperations":["create"],"cue":"validate: {valid: true}"}]}}`
	mistaken = header + `"ClusterValidatePolicy","metadata":{"name":"p"},"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"validateRules":[` +
		`{"cue":"validate: {vaild: false}"}]}}`
	misshapen  = header + `"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{"overrideRules":"all"}}`
	generated  = header + `"ClusterOverridePolicy","metadata":{"generateName":"p-"},"spec":{"overrideRules":[{"overriders":{"plaintext":[{"path":"/a","op":"remove"}]}}]}}`
	namespaced = header + `"OverridePolicy","metadata":{"name":"p"},"spec":{"overrideRules":[{"overriders":{"plaintext":[{"path":"/a","op":"remove"}]}}]}}`
	unknown    = header + `"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{"more":1,"overrideRules":[{"overriders":{"plaintext":[{"path":"/a","op":"remove"}]}}]}}`
	pod        = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
)

// TestWhoDecides checks which requests reach what is behind the guard, and the codes of
// those that do not.
func TestWhoDecides(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason      string
		phase       usher.Phase
		operation   usher.Operation
		subresource string
		namespace   string
		object, old string
		asked       bool
		code        int32
		mentions    []string
	}{
		{reason: "not a policy", phase: usher.Validate, operation: usher.Create, object: pod, asked: true},
		{reason: "authorization has no object", phase: usher.Authorize, operation: usher.Create, object: badOverride, asked: true},
		{reason: "a bad policy can go", phase: usher.Validate, operation: usher.Delete, old: badOverride, asked: true},
		{reason: "a deletion renders nothing", phase: usher.Mutate, operation: usher.Delete, old: badTemplates, asked: true},
		{reason: "a subresource is no policy", phase: usher.Validate, operation: usher.Update, subresource: "status", object: badOverride, asked: true},
		{reason: "a policy without templates is an object like others", phase: usher.Mutate, operation: usher.Create, object: goodOverride, asked: true},
		{reason: "a policy with templates is rendered", phase: usher.Mutate, operation: usher.Create, object: templateOverride},
		{reason: "nothing is rendered again if the spec is unchanged", phase: usher.Mutate, operation: usher.Update, object: templateOverride, old: templateOverride, asked: true},
		{reason: "a bad policy can be updated if its spec is unchanged", phase: usher.Validate, operation: usher.Update, object: badOverride, old: badOverride, asked: true},
		{
			reason: "the spec is unchanged if it says the same in other words", phase: usher.Validate, operation: usher.Update,
			object: warned, old: strings.Replace(warned, `"cue"`, `"renderedCue":"","cue"`, 1), asked: true,
		},
		{reason: "even one that cannot be decoded", phase: usher.Validate, operation: usher.Update, object: misshapen, old: misshapen, asked: true},
		{reason: "an unreadable old policy does not excuse a new bad one", phase: usher.Validate, operation: usher.Update, object: badOverride, old: misshapen, code: 403},
		{reason: "a good policy is validated by the others too", phase: usher.Validate, operation: usher.Create, object: goodOverride, asked: true},
		{
			reason: "every problem is named", phase: usher.Validate, operation: usher.Create, object: badOverride, code: 403,
			mentions: []string{"ClusterOverridePolicy p", "spec.overrideRules[0].overriders.cue", "spec.overrideRules[1].overriders.cue", "nowhere"},
		},
		{
			reason: "what no process could hold", phase: usher.Validate, operation: usher.Create, object: hugeOverride, code: 403,
			mentions: []string{"spec.overrideRules[0].overriders.cue", "takes more memory than there is for it"},
		},
		{
			reason: "every rendering error is named", phase: usher.Mutate, operation: usher.Create, object: badTemplates, code: 500,
			mentions: []string{"ClusterValidatePolicy p", "spec.validateRules[0].template", "spec.validateRules[1].template"},
		},
		{reason: "what is no policy of its kind", phase: usher.Mutate, operation: usher.Create, object: misshapen, code: 400, mentions: []string{"spec.overrideRules"}},
		{reason: "the same when it is validated", phase: usher.Validate, operation: usher.Create, object: misshapen, code: 400, mentions: []string{"spec.overrideRules"}},
		{reason: "the name is still to be generated", phase: usher.Validate, operation: usher.Create, object: generated, asked: true},
		{reason: "the namespace is that of the request", phase: usher.Validate, operation: usher.Create, namespace: "shop", object: namespaced, asked: true},
		{reason: "the API server has dropped unknown fields", phase: usher.Validate, operation: usher.Create, object: unknown, asked: true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			asked := false
			next := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
				asked = true
				return allow(ctx, r)
			})
			d, err := guard.Wrap(next, guard.Options{}).Decide(t.Context(), &usher.Request{
				Phase: test.phase, Operation: test.operation, Subresource: test.subresource, Namespace: test.namespace,
				Object: usher.RawObject([]byte(test.object)), OldObject: usher.RawObject([]byte(test.old)),
			})
			if err != nil {
				t.Fatal(err)
			}
			if asked != test.asked || d.Code != test.code || (d.Verdict == usher.Deny) != (test.code != 0) {
				t.Errorf("next was asked: %t, want %t; code %d, want %d; %+v", asked, test.asked, d.Code, test.code, d)
			}
			for _, mention := range test.mentions {
				if !strings.Contains(d.Message, mention) {
					t.Errorf("message %q does not mention %q", d.Message, mention)
				}
			}
			if test.code == 403 && d.Reason != d.Message {
				t.Errorf("reason %q, want the message %q, as kinitiras answers", d.Reason, d.Message)
			}
		})
	}
}

func TestRendering(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, object string
		paths          []string
	}{
		{reason: "a template", object: templateOverride, paths: []string{"/spec/overrideRules/0/overriders/renderedCue"}},
		{
			reason: "the legacy type gets its default reference", object: pab,
			paths: []string{"/spec/validateRules/0/template/podAvailableBadge/replicaReference", "/spec/validateRules/0/renderedCue"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			object := test.object
			first := mutate(t, object)
			var paths []string
			for _, op := range first.Patch {
				paths = append(paths, op.Path)
			}
			if diff := cmp.Diff(test.paths, paths); diff != "" {
				t.Fatalf("patched paths (-want +got):\n%s", diff)
			}
			tree, err := usher.RawObject([]byte(object)).Tree()
			if err != nil {
				t.Fatal(err)
			}
			rendered, _, err := jsonpatch.Apply(tree, first.Patch)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := usher.TreeObject(rendered).Raw()
			if err != nil {
				t.Fatal(err)
			}
			if again := mutate(t, string(raw)); len(again.Patch) > 0 {
				t.Errorf("what is rendered is patched again: %v", again.Patch)
			}
		})
	}
}

func mutate(t *testing.T, object string) usher.Decision {
	t.Helper()
	refuse := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Denied("a policy with templates is not for others to change"), nil
	})
	d, err := guard.Wrap(refuse, guard.Options{}).Decide(t.Context(), &usher.Request{
		Phase: usher.Mutate, Operation: usher.Create, Object: usher.RawObject([]byte(object)),
	})
	if err != nil || d.Verdict != usher.Allow {
		t.Fatalf("decision %+v, %v", d, err)
	}
	return d
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	next := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Allow, Warnings: []string{"from behind"}}, nil
	})
	d, err := guard.Wrap(next, guard.Options{}).Decide(t.Context(), &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Object: usher.RawObject([]byte(warned)),
	})
	if err != nil || d.Verdict != usher.Allow {
		t.Fatalf("decision %+v, %v", d, err)
	}
	if len(d.Warnings) != 2 || !strings.Contains(d.Warnings[0], "targetOperations[0]") || d.Warnings[1] != "from behind" {
		t.Errorf("warnings %q, want one about targetOperations[0] and the one from behind", d.Warnings)
	}
}

// TestScalingUnseen: kubectl scale writes another resource than the one that the policy is for.
func TestScalingUnseen(t *testing.T) {
	t.Parallel()
	for resources, want := range map[string]int{"deployments": 1, "deployments, deployments/scale": 0} {
		text := fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: {matchConstraints: {
			resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [%s], operations: [CREATE, UPDATE]}]}, validations: [{expression: "object.spec.replicas < 4"}]}}`, resources)
		d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{}).Decide(t.Context(), &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(object(t, text)),
		})
		if err != nil || d.Verdict != usher.Allow || len(d.Warnings) != want {
			t.Errorf("%s: decision %+v, %v, want %d warnings", resources, d, err, want)
		}
	}
}

// TestTrialsWarn: findings on sample objects are warnings, and deny nothing.
func TestTrialsWarn(t *testing.T) {
	t.Parallel()
	tried := func(ctx context.Context, c compile.Compiled) []rule.Problem {
		if _, bounded := ctx.Deadline(); !bounded || c.Ref.Name != "p" {
			t.Errorf("trial of %s, bounded in time: %t", c.Ref, bounded)
		}
		return []rule.Problem{{Severity: rule.Warning, Field: "spec", What: "every Pod would be refused", Do: "write less"}}
	}
	d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{Trial: tried}).Decide(t.Context(), &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Object: usher.RawObject([]byte(generated)), Name: "p",
	})
	if err != nil || d.Verdict != usher.Allow {
		t.Fatalf("decision %+v, %v", d, err)
	}
	if !slices.Contains(d.Warnings, "spec: every Pod would be refused (write less)") {
		t.Errorf("warnings %q, want that of the trial", d.Warnings)
	}
}

// TestTrialsRefuseMistakes: what can be nothing else is refused before anybody asks for rights, with a reason
// that kubectl does not print as a second message. A policy that is suspended only has a warning of
// it, and none of effects.
func TestTrialsRefuseMistakes(t *testing.T) {
	t.Parallel()
	tried := func(context.Context, compile.Compiled) []rule.Problem {
		return []rule.Problem{
			{Severity: rule.Mistake, Field: "spec", What: "there is no resource pod", Do: "did you mean pods?"},
			{Severity: rule.Warning, What: "an effect in force"},
		}
	}
	asked := func(context.Context, *usher.Request) (bool, error) {
		t.Error("rights are asked for")
		return false, nil
	}
	for suspended, want := range map[string]usher.Verdict{"": usher.Deny, "suspend: true, ": usher.Allow} {
		text := fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: {%smatchConstraints: {
			resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pod], operations: [CREATE]}]}, validations: [{expression: "true"}]}}`, suspended)
		d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{Trial: tried, May: asked, Places: places}).Decide(t.Context(), &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, Object: usher.TreeObject(object(t, text)),
		})
		if err != nil || d.Verdict != want {
			t.Fatalf("%s: decision %+v, %v", suspended, d, err)
		}
		const said = "spec: there is no resource pod (did you mean pods?)"
		if want == usher.Allow && (!slices.Contains(d.Warnings, "cannot be put into force again: "+said) || slices.Contains(d.Warnings, "an effect in force")) {
			t.Errorf("warnings %q, want %q", d.Warnings, said)
		}
		if want == usher.Deny && (!strings.Contains(d.Message, said) || d.Code != 422 || d.Reason != "Invalid") {
			t.Errorf("decision %+v, want %q", d, said)
		}
	}
}

// TestMistakesAreRefused: a program that cannot do what it says.
func TestMistakesAreRefused(t *testing.T) {
	t.Parallel()
	d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{}).Decide(t.Context(), &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Object: usher.RawObject([]byte(mistaken)),
	})
	if err != nil || d.Verdict != usher.Deny || !strings.Contains(d.Message, `unknown field "vaild"`) || !strings.Contains(d.Message, "did you mean valid?") {
		t.Errorf("decision %+v, %v, want a refusal with a suggestion", d, err)
	}
}

func TestErrorFromBehind(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	next := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{}, broken
	})
	for _, object := range []string{pod, goodOverride} {
		d, err := guard.Wrap(next, guard.Options{}).Decide(t.Context(), &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, Object: usher.RawObject([]byte(object)),
		})
		if !errors.Is(err, broken) || !reflect.DeepEqual(d, usher.Decision{}) {
			t.Errorf("decision %+v, %v, want the error only", d, err)
		}
	}
}

// BenchmarkDecide measures what the guard costs requests that are none of its business,
// and a policy that is validated.
func BenchmarkDecide(b *testing.B) {
	for name, object := range map[string]string{"pod": pod, "plaintext": goodOverride} {
		b.Run(name, func(b *testing.B) {
			r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.RawObject([]byte(object))}
			tree, err := r.Object.Tree()
			if err != nil {
				b.Fatal(err)
			}
			r.Kind = schema.FromAPIVersionAndKind(tree["apiVersion"].(string), tree["kind"].(string))
			d := guard.Wrap(usher.DeciderFunc(allow), guard.Options{})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decide(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestSpecsAreKept: nothing is filled in where specs stay as they are written, templates are
// checked nevertheless, and other policies may change the policy.
func TestSpecsAreKept(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		template, message string
		reason            string
	}{
		{`{type: condition, condition: {cond: Exist, dataRef: {from: current, path: /spec/x}}}`, "", "affectMode and renderedCue are left out"},
		{`{type: condition, condition: {cond: Nope, dataRef: {from: current, path: /spec/x}}}`, `unknown cond "Nope"`, "a template that cannot be rendered"},
	} {
		behind := false
		d, err := guard.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			behind = true
			return usher.Allowed(), nil
		}), guard.Options{KeepSpecs: true}).Decide(t.Context(), &usher.Request{
			Phase: usher.Mutate, Operation: usher.Create,
			Kind: schema.GroupVersionKind{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Kind: "ClusterValidatePolicy"},
			Object: usher.RawObject([]byte(yamlToJSON(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: a}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  validateRules: [{template: `+test.template+`}]
`))),
		})
		if err != nil || len(d.Patch) > 0 || !strings.Contains(d.Message, test.message) || behind != (test.message == "") {
			t.Errorf("%s: %+v, %v, asked others: %t", test.reason, d, err, behind)
		}
	}
}

func yamlToJSON(t *testing.T, text string) string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
