package template_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason, template string
		severity         rule.Severity
		field            string
	}{
		{"type", `{operation: add, path: a}`, rule.Error, "template.type"},
		{"an unknown type", `{type: pab, operation: add}`, rule.Error, "template.type"},
		{"operation", `{type: labels, path: a}`, rule.Error, "template.operation"},
		{"an unknown operation", `{type: labels, operation: move, path: a}`, rule.Error, "template.operation"},
		{"remove needs a key", `{type: annotations, operation: remove}`, rule.Error, "template.path"},
		{"a value needs a key", `{type: annotations, operation: add, path: /, value: {string: a}}`, rule.Error, "template.path"},
		{"a reference needs a key", `{type: annotations, operation: add, valueRef: {from: current, path: /a}}`, rule.Error, "template.path"},
		{"a reference needs a path", `{type: labels, operation: add, path: a, valueRef: {from: owner}}`, rule.Error, "template.valueRef.path"},
		{"a reference to an object needs one", `{type: labels, operation: add, path: a, valueRef: {from: k8s, path: /a}}`, rule.Error, "template.valueRef.k8s"},
		{"a reference to an answer needs a question", `{type: labels, operation: add, path: a, valueRef: {from: http, path: body.a}}`, rule.Error, "template.valueRef.http"},
		{"a factor is a number", `{type: resourcesOversell, operation: add, resourcesOversell: {cpuFactor: "0.5", memoryFactor: lots}}`, rule.Error, "template.resourcesOversell.memoryFactor"},
		{"a factor has no suffix", `{type: resourcesOversell, operation: add, resourcesOversell: {cpuFactor: "0.5", memoryFactor: 1E}}`, rule.Error, "template.resourcesOversell.memoryFactor"},
		{"a factor is not negative", `{type: resourcesOversell, operation: add, resourcesOversell: {cpuFactor: "0.5", memoryFactor: "-1"}}`, rule.Error, "template.resourcesOversell.memoryFactor"},
		{"neither value nor reference", `{type: labels, operation: add, path: a}`, rule.Warning, "template.value"},
		{"a reference that does not count", `{type: labels, operation: add, path: a, value: {string: a}, valueRef: {from: k8s}}`, rule.Warning, "template.valueRef"},
		{"no resources", `{type: resources, operation: add}`, rule.Warning, "template.resources"},
		{"no factor", `{type: resourcesOversell, operation: add}`, rule.Warning, "template.resourcesOversell"},
		{"no tolerations", `{type: tolerations, operation: add, tolerations: [null]}`, rule.Warning, "template.tolerations"},
		{"no affinity", `{type: affinity, operation: add}`, rule.Warning, "template.affinity"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			tmpl := parse(t, tc.template)
			program, problems := template.Compile(tmpl)
			text, again := template.Render(tmpl)
			if diff := cmp.Diff(problems, again); diff != "" {
				t.Errorf("Compile and Render disagree:\n%s", diff)
			}
			if len(problems) != 1 || problems[0].Severity != tc.severity || problems[0].Field != tc.field {
				t.Fatalf("got %v, want one %s of %s", problems, tc.severity, tc.field)
			}
			if problems[0].What == "" || problems[0].Do == "" {
				t.Errorf("problem %v does not say what is wrong and what to do", problems[0])
			}
			if failed := tc.severity == rule.Error; (program == nil) != failed || (text == "") != failed {
				t.Errorf("got program %v and text %q", program, text)
			}
		})
	}
}

// TestOpen checks that CUE of the policy's own is left to an evaluator.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason, template string
		want             []string
	}{
		{"a computed constant", `{type: labels, operation: add, path: a, value: {string: '\(strings.ToUpper(object.metadata.name))'}}`,
			[]string{`import "strings"`, `value: "\(strings.ToUpper(object.metadata.name))"`}},
		{"a computed path", `{type: labels, operation: add, path: a, valueRef: {from: current, path: 'metadata.labels[strings.ToLower("B")]'}}`,
			[]string{`import "strings"`, `object.metadata.labels[strings.ToLower("B")]`}},
		{"a constant that names the referenced object", `{type: labels, operation: add, path: a, value: {string: '\(otherObject.data.zone)'}, valueRef: {from: k8s, path: /data, k8s: {apiVersion: v1, kind: ConfigMap, name: site}}}`,
			[]string{`otherObject: data.extraParams.otherObject`, `value: "\(otherObject.data.zone)"`}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			tmpl := parse(t, tc.template)
			if program, problems := template.Compile(tmpl); program != nil || problems != nil {
				t.Errorf("got program %v, problems %v", program, problems)
			}
			text, problems := template.Render(tmpl)
			if len(problems) > 0 {
				t.Errorf("got problems %v", problems)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
		})
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	tmpl := parse(t, `{type: labels, operation: add, path: a, valueRef: {from: k8s, path: /data/zone, k8s: {apiVersion: v1, kind: ConfigMap, name: site}}}`)
	in := &rule.Input{Object: tree(t, `{metadata: {labels: {}}}`), Facts: &fact.Known{}}
	params := template.Params(tmpl)
	_, err := params(in)
	var missing *fact.Missing
	if !errors.As(err, &missing) {
		t.Fatalf("got error %v, want a missing fact", err)
	}
	in.Facts.Set(missing.Ref, map[string]any{"data": map[string]any{"zone": "eu"}}, nil)
	got, err := params(in)
	want := map[string]any{"otherObject": map[string]any{"data": map[string]any{"zone": "eu"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, params (-want +got):\n%s", err, diff)
	}
	if got, err := template.Params(parse(t, `{type: labels, operation: remove, path: a}`))(in); got != nil || err != nil {
		t.Errorf("a template without reference needs %v, %v", got, err)
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{type: labels, operation: add, path: a/b, value: {string: 'x\(object.metadata.name)'}}`:                                    `add labels "a/b"="x\(object.metadata.name)"`,
		`{type: labels, operation: remove, path: a}`:                                                                                `remove labels "a"`,
		`{type: labels, operation: add, path: a, valueRef: {from: current, path: /b}}`:                                              `add labels "a" from current /b`,
		`{type: resources, operation: add, resources: {limits: {cpu: 500m}}}`:                                                       `add resources limits.cpu=500m`,
		`{type: resourcesOversell, operation: add, resourcesOversell: {cpuFactor: "0.50", diskFactor: ".25"}}`:                      `add resourcesOversell cpu*0.5, disk*0.25`,
		`{type: tolerations, operation: remove, tolerations: [{key: a, operator: Exists}, {key: b, value: c}]}`:                     `remove tolerations a Exists, b=c`,
		`{type: affinity, operation: remove, affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{}, {}]}}}`: `remove affinity podAffinity.preferredDuringSchedulingIgnoredDuringExecution (2)`,
	} {
		program, _ := template.Compile(parse(t, text))
		if got := program.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestRunGivesUp(t *testing.T) {
	t.Parallel()
	program, _ := template.Compile(parse(t, `{type: labels, operation: remove, path: a}`))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := program.Run(ctx, &rule.Input{}); err == nil {
		t.Error("ran although its context was done")
	}
}

func parse(t testing.TB, text string) *v1alpha1.OverrideRuleTemplate {
	t.Helper()
	var tmpl v1alpha1.OverrideRuleTemplate
	if err := yaml.UnmarshalStrict([]byte(text), &tmpl); err != nil {
		t.Fatal(fmt.Errorf("parse %s: %w", text, err))
	}
	return &tmpl
}

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	var object map[string]any
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = utiljson.Unmarshal(raw, &object)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("parse %s: %w", text, err))
	}
	return object
}
