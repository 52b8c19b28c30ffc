package origin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/origin"
	"github.com/usher-dev/usher/internal/rule"
)

func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		entries string
		object  string
		path    string
		want    string
	}{
		{
			reason:  "add merges keys",
			entries: `[{type: annotations, operation: add, annotations: {b: "2", c: "3"}}]`,
			object:  `{kind: ConfigMap, metadata: {annotations: {a: "1", b: "1"}}}`,
			path:    "metadata.annotations",
			want:    `{a: "1", b: "2", c: "3"}`,
		},
		{
			reason:  "add makes the map",
			entries: `[{type: labels, operation: add, labels: {a: "1"}}]`,
			object:  `{kind: ConfigMap, metadata: {}}`,
			path:    "metadata.labels",
			want:    `{a: "1"}`,
		},
		{
			reason:  "replace without the flag merges too",
			entries: `[{type: labels, operation: replace, labels: {a: "2"}}]`,
			object:  `{kind: ConfigMap, metadata: {labels: {a: "1", b: "1"}}}`,
			path:    "metadata.labels",
			want:    `{a: "2", b: "1"}`,
		},
		{
			reason:  "the flag exchanges the map",
			entries: `[{type: labels, operation: replace, replace: true, labels: {a: "2"}}]`,
			object:  `{kind: ConfigMap, metadata: {labels: {b: "1"}}}`,
			path:    "metadata.labels",
			want:    `{a: "2"}`,
		},
		{
			reason:  "exchanging for nothing writes null",
			entries: `[{type: labels, operation: replace, replace: true}]`,
			object:  `{kind: ConfigMap, metadata: {labels: {b: "1"}}}`,
			path:    "metadata.labels",
			want:    `null`,
		},
		{
			reason:  "remove looks at keys only, and leaves an empty map",
			entries: `[{type: annotations, operation: remove, annotations: {a: ""}}]`,
			object:  `{kind: ConfigMap, metadata: {annotations: {a: "1"}}}`,
			path:    "metadata.annotations",
			want:    `{}`,
		},
		{
			reason:  "remove from nothing writes null",
			entries: `[{type: annotations, operation: remove, annotations: {a: ""}}]`,
			object:  `{kind: ConfigMap, metadata: {}}`,
			path:    "metadata.annotations",
			want:    `null`,
		},
		{
			reason:  "the pod template of a Deployment",
			entries: `[{type: nodeSelector, operation: replace, nodeSelector: {disk: ssd}}]`,
			object:  `{apiVersion: apps/v1, kind: Deployment, metadata: {}, spec: {template: {spec: {}}}}`,
			path:    "spec.template.spec.nodeSelector",
			want:    `{disk: ssd}`,
		},
		{
			reason:  "a pod's own node selector",
			entries: `[{type: nodeSelector, operation: remove, nodeSelector: {disk: ""}}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {nodeSelector: {disk: hdd, arch: arm}}}`,
			path:    "spec.nodeSelector",
			want:    `{arch: arm}`,
		},
		{
			reason:  "false is a value",
			entries: `[{type: hostNetwork, operation: replace}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {hostNetwork: true}}`,
			path:    "spec.hostNetwork",
			want:    `false`,
		},
		{
			reason:  "scheduler name",
			entries: `[{type: schedulerName, operation: replace, schedulerName: batch}]`,
			object:  `{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {}}}}`,
			path:    "spec.template.spec.schedulerName",
			want:    `batch`,
		},
		{
			reason: "affinity is written without empty fields",
			entries: `[{type: affinity, operation: replace, affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
				{weight: 5, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}}]`,
			object: `{apiVersion: v1, kind: Pod, spec: {affinity: {nodeAffinity: {}}}}`,
			path:   "spec.affinity",
			want: `{podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
				{weight: 5, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}`,
		},
		{
			reason:  "no affinity is null",
			entries: `[{type: affinity, operation: replace}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {affinity: {nodeAffinity: {}}}}`,
			path:    "spec.affinity",
			want:    `null`,
		},
		{
			reason:  "spread constraints are replaced as a whole",
			entries: `[{type: topologySpreadConstraints, operation: replace, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {topologySpreadConstraints: [{maxSkew: 2, topologyKey: host, whenUnsatisfiable: DoNotSchedule}]}}`,
			path:    "spec.topologySpreadConstraints",
			want:    `[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`,
		},
		{
			reason:  "requirements replace the whole block, in canonical quantities",
			entries: `[{type: resourceRequirements, operation: replace, containerCount: 1, resourceRequirements: {requests: {cpu: "0.5", memory: 1024Mi}}}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}, {name: b, resources: {limits: {cpu: 2}}}]}}`,
			path:    "spec.containers",
			want:    `[{name: a}, {name: b, resources: {requests: {cpu: 500m, memory: 1Gi}}}]`,
		},
		{
			reason:  "given tolerations come first; an equal one gets the new seconds",
			entries: `[{type: tolerations, operation: add, tolerations: [{key: gpu, operator: Exists}, {key: node, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {tolerations: [{key: s, value: x}, {key: node, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]}}`,
			path:    "spec.tolerations",
			want:    `[{key: gpu, operator: Exists}, {key: node, operator: Exists, effect: NoExecute, tolerationSeconds: 10}, {key: s, value: x}]`,
		},
		{
			reason:  "tolerations are exchanged by the flag",
			entries: `[{type: tolerations, operation: replace, replace: true, tolerations: [{key: gpu, operator: Exists}]}]`,
			object:  `{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {tolerations: [{key: s, value: x}]}}}}`,
			path:    "spec.template.spec.tolerations",
			want:    `[{key: gpu, operator: Exists}]`,
		},
		{
			reason:  "remove takes equal tolerations out",
			entries: `[{type: tolerations, operation: remove, tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}, {key: gpu, operator: Exists, effect: NoExecute}]}}`,
			path:    "spec.tolerations",
			want:    `[{key: gpu, operator: Exists, effect: NoExecute}]`,
		},
		{
			reason:  "tolerations removed from none are null",
			entries: `[{type: tolerations, operation: remove, tolerations: [{key: gpu, operator: Exists}]}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {}}`,
			path:    "spec.tolerations",
			want:    `null`,
		},
		{
			reason: "quantities are multiplied and truncated; absent, zero and other ones stay",
			entries: `[{type: resourceOversell, operation: replace, resourcesOversell: {
				requests: {cpu: "0.1", memory: "0.3", ephemeral-storage: "0.5", nvidia.com/gpu: "0.5"}, limits: {memory: "0.5", cpu: "0.5"}}}]`,
			object: `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, resources: {claims: [{name: c}],
				requests: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 2}, limits: {memory: 3, cpu: 0, storage: 1024Mi}}}]}}`,
			path: "spec.containers",
			want: `[{name: a, resources: {claims: [{name: c}], requests: {cpu: 100m, memory: "322122547", nvidia.com/gpu: "2"},
				limits: {memory: "1", cpu: "0", storage: 1Gi}}}]`,
		},
		{
			reason:  "memory stays readable in powers of two",
			entries: `[{type: resourceOversell, operation: replace, containerCount: 1, resourcesOversell: {limits: {memory: "0.5", cpu: "0.5"}}}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}, {name: b, resources: {limits: {memory: 1Gi, cpu: 1500m}}}]}}`,
			path:    "spec.containers",
			want:    `[{name: a}, {name: b, resources: {limits: {memory: 512Mi, cpu: 750m}}}]`,
		},
		{
			reason:  "there may be nothing to oversell",
			entries: `[{type: resourceOversell, operation: replace, resourcesOversell: {limits: {memory: "0.5"}}}]`,
			object:  `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}]}}`,
			path:    "spec.containers",
			want:    `[{name: a, resources: {}}]`,
		},
		{
			reason: "entries see what those before wrote",
			entries: `[{type: labels, operation: add, labels: {first: "1"}}, {type: labels, operation: add, labels: {second: "1"}},
				{type: labels, operation: remove, labels: {a: ""}}]`,
			object: `{kind: ConfigMap, metadata: {labels: {a: "1"}}}`,
			path:   "metadata.labels",
			want:   `{first: "1", second: "1"}`,
		},
		{
			reason: "so do those inside of pods and containers",
			entries: `[{type: tolerations, operation: add, tolerations: [{key: a, operator: Exists}]}, {type: tolerations, operation: add, tolerations: [{key: b, operator: Exists}]},
				{type: nodeSelector, operation: add, nodeSelector: {a: b}}, {type: nodeSelector, operation: add, nodeSelector: {c: d}},
				{type: resourceOversell, operation: replace, resourcesOversell: {limits: {cpu: "0.5"}}}, {type: resourceOversell, operation: replace, resourcesOversell: {limits: {cpu: "0.5"}}}]`,
			object: `{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, resources: {limits: {cpu: "1"}}}]}}`,
			path:   "spec",
			want: `{containers: [{name: a, resources: {limits: {cpu: 250m}}}], nodeSelector: {a: b, c: d},
				tolerations: [{key: b, operator: Exists}, {key: a, operator: Exists}]}`,
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, _ := origin.Compile(entries(t, test.entries))
			object, untouched := tree(t, test.object), tree(t, test.object)
			got, err := apply(t, program, object)
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			field, ok := at(got, test.path)
			if !ok {
				t.Fatalf("%s is missing", test.path)
			}
			if diff := cmp.Diff(value(t, test.want), field); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.path, diff)
			}
			if diff := cmp.Diff(untouched, object); diff != "" {
				t.Errorf("the input changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	const pod = `{apiVersion: v1, kind: Pod, metadata: {labels: 7}, spec: {tolerations: {}, containers: [{name: a, resources: {limits: {cpu: fast}}}, {name: b, resources: [1]}]}}`
	tests := []struct {
		reason  string
		entries string
		object  string
		want    string
	}{
		{"operations other than replace", `[{type: hostNetwork, operation: add}]`, pod, "unsupported operator type error"},
		{"no operation", `[{type: labels, labels: {a: b}}]`, pod, "unsupported operator type error: no operation"},
		{"no operation on tolerations", `[{type: tolerations}]`, pod, "unsupported operator type error"},
		{"removing resources", `[{type: resourceOversell, operation: remove}]`, pod, "unsupported operator type error"},
		{"kinds without a known pod", `[{type: schedulerName, operation: replace}]`, `{apiVersion: apps/v1, kind: StatefulSet, spec: {template: {spec: {}}}}`, "unsupported kind type error"},
		{"kinds of the same name", `[{type: tolerations, operation: add}]`, `{apiVersion: example.org/v1, kind: Pod, spec: {}}`, "unsupported kind type error"},
		{"the same for resources", `[{type: resourceOversell, operation: replace}]`, `{apiVersion: v1, kind: ConfigMap}`, "unsupported kind type error"},
		{"a container that is not there", `[{type: resourceRequirements, operation: replace, containerCount: 5}]`, pod, "missing path"},
		{"a container that is not there to oversell", `[{type: resourceOversell, operation: replace, containerCount: 2}]`, pod, "containerCount 2 is out of range"},
		{"a negative container", `[{type: resourceOversell, operation: replace, containerCount: -1}]`, pod, "containerCount -1 is out of range"},
		{"an unreadable quantity", `[{type: resourceOversell, operation: replace}]`, pod, `cpu: "fast"`},
		{"resources of another shape", `[{type: resourceOversell, operation: replace, containerCount: 1}]`, pod, "not a map"},
		{"labels of another shape", `[{type: labels, operation: add, labels: {a: b}}]`, pod, "not a map"},
		{"tolerations of another shape", `[{type: tolerations, operation: add}]`, pod, "not a list"},
		{"a factor that is not a number", `[{type: resourceOversell, operation: replace, resourcesOversell: {limits: {cpu: half}}}]`, pod, `the factor "half" is not a number`},
		{"a factor that is no finite number", `[{type: resourceOversell, operation: replace, resourcesOversell: {limits: {cpu: NaN}}}]`, pod, `the factor "NaN" is not a number`},
		{"a factor that is too large", `[{type: resourceOversell, operation: replace, resourcesOversell: {limits: {cpu: "1e300"}}}]`,
			`{apiVersion: v1, kind: Pod, spec: {containers: [{resources: {limits: {cpu: 1}}}]}}`, "too large"},
		{"no type", `[{type: labels, operation: add, labels: {a: b}}, {operation: add, labels: {a: b}}]`, `{kind: ConfigMap, metadata: {}}`, "origin[1]: the type is missing"},
		{"an unknown type", `[{type: volumes, operation: add}]`, pod, `unknown type "volumes"`},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, _ := origin.Compile(entries(t, test.entries))
			_, err := apply(t, program, tree(t, test.object))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		entries string
		want    []string
	}{
		{"a sound policy", `[{type: tolerations, operation: add, tolerations: [{operator: Exists}, {key: a.b/c, value: x, effect: NoExecute, tolerationSeconds: 3}]},
			{type: resourceOversell, operation: replace, containerCount: 1, resourcesOversell: {limits: {cpu: "0.5"}}}, {type: resourceRequirements, operation: replace}]`, nil},
		{"no type", `[{operation: add}]`, []string{"error origin[0].type the type is missing"}},
		{"a bad factor", `[{type: resourceOversell, operation: replace, resourcesOversell: {limits: {cpu: half, memory: ""}}}]`,
			[]string{`error origin[0].resourcesOversell.limits.cpu the factor "half" is not a number`}},
		{"an impossible operation", `[{type: affinity, operation: add}]`,
			[]string{"warning origin[0].operation unsupported operator type error: add of affinity is not possible, and fails on every request"}},
		{"Exists with a value", `[{type: tolerations, operation: add, tolerations: [{key: a, operator: Exists, value: v}]}]`,
			[]string{"error origin[0].tolerations[0].value value must be empty when operator is 'Exists'"}},
		{"Equal without a key", `[{type: tolerations, operation: add, tolerations: [{operator: Equal, value: v}]}]`,
			[]string{"error origin[0].tolerations[0].operator operator must be Exists when key is empty, which means every key and value"}},
		{"seconds without NoExecute", `[{type: tolerations, operation: add, tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}]}]`,
			[]string{"error origin[0].tolerations[0].effect effect must be 'NoExecute' when tolerationSeconds is set"}},
		{"an unknown operator", `[{type: tolerations, operation: add, tolerations: [{key: a, operator: Like}]}]`,
			[]string{`error origin[0].tolerations[0].operator Unsupported value: "Like": supported values: "Equal", "Exists"`}},
		{"an unknown effect", `[{type: tolerations, operation: add, tolerations: [{key: a, effect: Never}]}]`,
			[]string{`error origin[0].tolerations[0].effect Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"`}},
		{"tolerations are checked next to another type", `[{type: labels, operation: add, tolerations: [{operator: Exists}, {key: a, operator: Exists, value: v}]}]`,
			[]string{"error origin[0].tolerations[1].value value must be empty when operator is 'Exists'",
				"warning origin[0].labels the type is labels, and labels is empty: the entry adds nothing"}},
		{"resources both written and oversold", `[{type: resourceRequirements, operation: replace}, {type: labels, operation: add}, {type: resourceOversell, operation: replace}]`,
			[]string{"error origin[2].containerCount containerCount 0 is used by both a resourceRequirements and a resourceOversell entry"}},
		{"factors without effect, or with too much", `[{type: resourceOversell, operation: replace, resourcesOversell: {maximum: {cpu: "0.5"}, limits: {pods: "0.5", cpu: "2"}}}]`,
			[]string{"warning origin[0].resourcesOversell.limits.cpu the factor 2 is not between 0 and 1, and is used nevertheless",
				"warning origin[0].resourcesOversell.limits.pods pods is not oversold: the factor does nothing",
				`warning origin[0].resourcesOversell.maximum "maximum" is neither requests nor limits, and does nothing`}},
		{"replace next to remove", `[{type: labels, operation: remove, replace: true}]`,
			[]string{"warning origin[0].replace replace does not count together with the operation remove"}},
		{"negative containers", `[{type: resourceRequirements, operation: replace, containerCount: -1}, {type: resourceOversell, operation: replace, containerCount: -2}]`,
			[]string{"warning origin[0].containerCount a negative containerCount counts from the last container",
				"warning origin[1].containerCount a negative containerCount is out of range: the entry fails on every request"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := origin.Compile(entries(t, test.entries))
			if program == nil {
				t.Error("no program")
			}
			var got []string
			for _, p := range problems {
				got = append(got, string(p.Severity)+" "+p.Field+" "+p.What)
				if p.Do == "" {
					t.Errorf("%s: nothing to do about it", p.What)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidLabelTexts(t *testing.T) {
	t.Parallel()
	_, problems := origin.Compile(entries(t, `[{type: tolerations, operation: add, tolerations: [{key: "a b", value: "c d"}]}]`))
	if len(problems) != 2 || problems[0].Field != "origin[0].tolerations[0].key" || problems[1].Field != "origin[0].tolerations[0].value" {
		t.Errorf("problems = %v, want one for the key and one for the value", problems)
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	program, _ := origin.Compile(entries(t, `[{type: labels, operation: add}, {type: tolerations, operation: replace, replace: true},
		{type: resourceOversell, operation: replace, containerCount: 1}]`))
	if got, want := program.String(), "add labels, replace tolerations as a whole, replace resourceOversell of container 1"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

func BenchmarkRun(b *testing.B) {
	program, _ := origin.Compile(entries(b, `[{type: labels, operation: add, labels: {a: "1"}}, {type: tolerations, operation: add, tolerations: [{key: a, operator: Exists}]},
		{type: resourceOversell, operation: replace, resourcesOversell: {requests: {cpu: "0.5", memory: "0.5"}}}]`))
	in := &rule.Input{Object: tree(b, `{apiVersion: v1, kind: Pod, metadata: {labels: {app: cart}}, spec: {tolerations: [{operator: Exists}],
		containers: [{name: main, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "2"}}}]}}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := program.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

func entries(tb testing.TB, text string) []v1alpha1.OverrideRuleOrigin {
	tb.Helper()
	var list []v1alpha1.OverrideRuleOrigin
	if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
		tb.Fatalf("decode %s: %v", text, err)
	}
	return list
}

func value(tb testing.TB, text string) any {
	tb.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		tb.Fatalf("decode %s: %v", text, err)
	}
	var v any
	if err := k8sjson.Unmarshal(raw, &v); err != nil {
		tb.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func tree(tb testing.TB, text string) map[string]any {
	tb.Helper()
	return value(tb, text).(map[string]any)
}

func apply(t *testing.T, program rule.Program, object map[string]any) (map[string]any, error) {
	t.Helper()
	outcome, err := program.Run(t.Context(), &rule.Input{Object: object})
	if err != nil {
		return nil, err
	}
	got, _, err := jsonpatch.Apply(object, outcome.Patch)
	return got, err
}

func at(object map[string]any, path string) (v any, ok bool) {
	v = object
	for key := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v, ok = m[key]
	}
	return v, ok
}
