package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

// A row is a template, an object, and the patch that comes of them, an operation a line.
type row struct {
	reason, template, object string
	want                     string
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	testRows(t, []row{
		{
			reason:   "a missing map is made first",
			template: `{type: annotations, operation: add, path: owned-by, value: {string: sre}}`,
			object:   `{metadata: {name: cart}}`,
			want: `add /metadata/annotations {}
add /metadata/annotations/owned-by "sre"`,
		},
		{
			reason:   "null is no map",
			template: `{type: labels, operation: replace, path: a, value: {string: b}}`,
			object:   `{metadata: {labels: null}}`,
			want: `add /metadata/labels {}
add /metadata/labels/a "b"`,
		},
		{
			reason:   "the annotations of the object itself, not of its pods",
			template: `{type: annotations, operation: add, path: a, value: {string: b}}`,
			object:   `{kind: Deployment, metadata: {annotations: {}}, spec: {template: {metadata: {annotations: {}}}}}`,
			want:     `add /metadata/annotations/a "b"`,
		},
		{
			reason:   "remove of a key that is not there does nothing",
			template: `{type: labels, operation: remove, path: a}`,
			object:   `{metadata: {labels: {b: c}}}`,
		},
		{
			reason:   "remove finds a key with a slash, however it is written",
			template: `{type: labels, operation: remove, path: corp.example/team}`,
			object:   `{metadata: {labels: {corp.example/team: c}}}`,
			want:     `remove /metadata/labels/corp.example~1team`,
		},
		{
			reason:   "remove finds a key whose value is null",
			template: `{type: labels, operation: remove, path: a}`,
			object:   `{metadata: {labels: {a: null}}}`,
			want:     `remove /metadata/labels/a`,
		},
		{
			reason:   "the escape of kinitiras for a slash goes on working",
			template: `{type: annotations, operation: add, path: corp.example~1team, value: {string: x}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/corp.example~1team "x"`,
		},
		{
			reason:   "slashes around a key are not part of it",
			template: `{type: annotations, operation: add, path: /my-corp.io/team/, value: {string: x}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/my-corp.io~1team "x"`,
		},
		{
			reason:   "a key of digits is a key",
			template: `{type: annotations, operation: add, path: "0", value: {string: x}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/0 "x"`,
		},
		{
			reason:   "a computed key is one key, whatever it holds",
			template: `{type: annotations, operation: add, path: 'by-\(object.metadata.name)', value: {string: x}}`,
			object:   `{metadata: {name: a/b~c, annotations: {}}}`,
			want:     `add /metadata/annotations/by-a~1b~0c "x"`,
		},
		{
			reason:   "remove with a key that cannot be computed finds nothing",
			template: `{type: annotations, operation: remove, path: 'by-\(object.metadata.nick)'}`,
			object:   `{metadata: {name: a, annotations: {by-: a}}}`,
		},
		{
			reason:   "entries of a map are set in the order of their keys, references in them filled in",
			template: `{type: labels, operation: replace, value: {stringMap: {b: 'is \(object.metadata.name)', 'a/c': '1'}}}`,
			object:   `{metadata: {name: cart, labels: {b: old}}}`,
			want: `add /metadata/labels/a~1c "1"
add /metadata/labels/b "is cart"`,
		},
		{
			reason:   "decimals stay as they were written",
			template: `{type: annotations, operation: add, path: a, value: {float: "1.50"}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/a "1.50"`,
		},
		{
			reason:   "lists have the text that Go gives them",
			template: `{type: annotations, operation: add, path: a, value: {integerSlice: [1, 2]}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/a "[1 2]"`,
		},
		{
			reason:   "an empty value counts as none",
			template: `{type: annotations, operation: add, path: a, value: {stringSlice: []}, valueRef: {from: current, path: /metadata/name}}`,
			object:   `{metadata: {name: cart, annotations: {}}}`,
			want:     `add /metadata/annotations/a "cart"`,
		},
		{
			reason:   "an empty string is a value",
			template: `{type: annotations, operation: add, path: a, value: {string: ""}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/a ""`,
		},
		{
			reason:   "a constant cannot add operations",
			template: `{type: labels, operation: add, path: a, value: {string: 'v"},{op:"add",path:"/spec/hostNetwork",value:true}'}}`,
			object:   `{metadata: {labels: {}}}`,
			want:     `add /metadata/labels/a "v\"},{op:\"add\",path:\"/spec/hostNetwork\",value:true}"`,
		},
		{
			reason:   "a reference to the object before, on create",
			template: `{type: annotations, operation: add, path: was, valueRef: {from: old, path: /spec/image}}`,
			object:   `{metadata: {annotations: {}}, spec: {image: a}}`,
		},
		{
			reason:   "a reference that leads to null finds it",
			template: `{type: annotations, operation: add, path: copy, valueRef: {from: current, path: /spec/image}}`,
			object:   `{metadata: {annotations: {}}, spec: {image: null}}`,
			want:     `add /metadata/annotations/copy null`,
		},
		{
			reason:   "a value wins over a reference, which is then not asked for",
			template: `{type: annotations, operation: add, path: a, value: {string: x}, valueRef: {from: owner, path: /metadata/name}}`,
			object:   `{metadata: {annotations: {}}}`,
			want:     `add /metadata/annotations/a "x"`,
		},
	})
}

func TestResources(t *testing.T) {
	t.Parallel()
	testRows(t, []row{
		{
			reason:   "missing maps are made first, from the outside in",
			template: `{type: resources, operation: add, resources: {limits: {cpu: 2}, requests: {memory: 1Gi, cpu: 1}}}`,
			object:   `{kind: Pod, spec: {containers: [{name: a}]}}`,
			want: `add /spec/containers/0/resources {}
add /spec/containers/0/resources/requests {}
add /spec/containers/0/resources/limits {}
add /spec/containers/0/resources/requests/cpu "1"
add /spec/containers/0/resources/requests/memory "1073741824"
add /spec/containers/0/resources/limits/cpu "2"`,
		},
		{
			reason:   "a workload has its pod in a template",
			template: `{type: resources, operation: replace, resources: {limits: {cpu: 1500m}}}`,
			object:   `{kind: StatefulSet, spec: {template: {spec: {containers: [{resources: {requests: {}, limits: {}}}]}}}}`,
			want:     `add /spec/template/spec/containers/0/resources/limits/cpu "1500m"`,
		},
		{
			reason:   "a CronJob has it one level deeper",
			template: `{type: resources, operation: replace, resources: {limits: {cpu: 2000m}}}`,
			object:   `{kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{resources: {requests: {}, limits: {}}}]}}}}}}`,
			want:     `add /spec/jobTemplate/spec/template/spec/containers/0/resources/limits/cpu "2"`,
		},
		{
			reason:   "a PodTemplate has no spec around it",
			template: `{type: resources, operation: remove, resources: {limits: {cpu: 0, nvidia.com/gpu: 0}}}`,
			object:   `{kind: PodTemplate, template: {spec: {containers: [{resources: {requests: {}, limits: {cpu: 1, nvidia.com/gpu: 1}}}]}}}`,
			want: `remove /template/spec/containers/0/resources/limits/cpu
remove /template/spec/containers/0/resources/limits/nvidia.com~1gpu`,
		},
		{
			reason:   "a fraction keeps its canonical form",
			template: `{type: resources, operation: replace, resources: {limits: {memory: 0.5, cpu: 100n}}}`,
			object:   `{kind: Pod, spec: {containers: [{resources: {requests: {}, limits: {}}}]}}`,
			want: `add /spec/containers/0/resources/limits/cpu "100n"
add /spec/containers/0/resources/limits/memory "500m"`,
		},
	})
}

func TestOversell(t *testing.T) {
	t.Parallel()
	const all = `resourcesOversell: {cpuFactor: "0.5", memoryFactor: "0.25", diskFactor: "0.1"}`
	limits := func(limits string) string {
		return `{kind: Pod, spec: {containers: [{resources: {requests: {}, limits: ` + limits + `}}]}}`
	}
	requests := func(cpu, memory, disk string) string {
		var lines []string
		for _, l := range [][2]string{{"cpu", cpu}, {"memory", memory}, {"ephemeral-storage", disk}} {
			if l[1] != "" {
				lines = append(lines, "add /spec/containers/0/resources/requests/"+l[0]+" "+l[1])
			}
		}
		return strings.Join(lines, "\n")
	}
	rows := []row{
		{reason: "binary and decimal suffixes", object: limits(`{cpu: "3", memory: 4Gi, ephemeral-storage: 10G}`), want: requests(`"1500m"`, "1073741824", "1000000000")},
		{reason: "small suffixes", object: limits(`{cpu: 100u, memory: 4Ki, ephemeral-storage: 10k}`), want: requests(`"0m"`, "1024", "1000")},
		{reason: "K as kinitiras has it", object: limits(`{cpu: 1500m, memory: 4K, ephemeral-storage: 1T}`), want: requests(`"750m"`, "1000", "100000000000")},
		{reason: "large suffixes", object: limits(`{cpu: 1k, memory: 4Ei, ephemeral-storage: 2Pi}`), want: requests(`"500000m"`, "1152921504606846976", "225179981368525")},
		{reason: "exponents and fractions", object: limits(`{cpu: ".5", memory: 1.5e3, ephemeral-storage: 0.5Ti}`), want: requests(`"250m"`, "375", "54975581389")},
		{reason: "numbers", object: limits(`{cpu: 2, memory: 4000, ephemeral-storage: 1.5}`), want: requests(`"1000m"`, "1000", "0")},
		{reason: "half is rounded up", object: limits(`{cpu: 1m, memory: 2, ephemeral-storage: 5}`), want: requests(`"1m"`, "1", "1")},
		{reason: "what is no quantity counts as missing", object: limits(`{cpu: many, memory: -1Gi, ephemeral-storage: e5}`), want: requests(`"0m"`, "", "")},
		{reason: "zero of disk is left alone", object: limits(`{memory: "0", ephemeral-storage: "0.0"}`), want: requests(`"0m"`, "0", "")},
		{reason: "beyond 64 bits there is nothing to say", object: limits(`{memory: 9999999999999999999E}`), want: requests(`"0m"`, "", "")},
	}
	for i := range rows {
		rows[i].template = `{type: resourcesOversell, operation: replace, ` + all + `}`
	}
	testRows(t, append(rows, []row{
		{
			reason:   "no factor between 0 and 1 is no rule, whatever else it says",
			template: `{type: resourcesOversell, operation: replace, resourcesOversell: {cpuFactor: "1", memoryFactor: "0", diskFactor: lots}}`,
			object:   `{kind: Pod, spec: {containers: [{}]}}`,
		},
		{
			reason:   "a request of zero stays, also as written before",
			template: `{type: resourcesOversell, operation: add, resourcesOversell: {cpuFactor: "+5e-1"}}`,
			object:   `{kind: Pod, spec: {containers: [{resources: {requests: {cpu: 0m}, limits: {cpu: 4}}}]}}`,
			want:     `add /spec/containers/0/resources/requests/cpu "0m"`,
		},
		{
			reason:   "remove takes the requests away, that of disk only if there is a limit",
			template: `{type: resourcesOversell, operation: remove, ` + all + `}`,
			object:   `{kind: Pod, spec: {containers: [{resources: {requests: {cpu: 1, memory: 1, ephemeral-storage: 1}, limits: {}}}]}}`,
			want: `remove /spec/containers/0/resources/requests/cpu
remove /spec/containers/0/resources/requests/memory`,
		},
		{
			reason:   "remove leaves requests without a factor, and does nothing for missing ones",
			template: `{type: resourcesOversell, operation: remove, resourcesOversell: {memoryFactor: "0.5", diskFactor: "0"}}`,
			object:   `{kind: Pod, spec: {containers: [{resources: {requests: {cpu: 1, ephemeral-storage: 1}, limits: {ephemeral-storage: 1Gi}}}]}}`,
			want:     `remove /spec/containers/0/resources/requests/ephemeral-storage`,
		},
	}...))
}

func TestTolerations(t *testing.T) {
	t.Parallel()
	const several = `tolerations: [{key: gpu, operator: Exists}, {key: spot, operator: Equal, value: "yes", tolerationSeconds: 60}]`
	testRows(t, []row{
		{
			reason:   "no tolerations: the list is set",
			template: `{type: tolerations, operation: replace, ` + several + `}`,
			object:   `{kind: Pod, spec: {}}`,
			want:     `add /spec/tolerations [{"key":"gpu","operator":"Exists"},{"key":"spot","operator":"Equal","tolerationSeconds":60,"value":"yes"}]`,
		},
		{
			reason:   "each is inserted in front of all",
			template: `{type: tolerations, operation: add, ` + several + `}`,
			object:   `{kind: DaemonSet, spec: {template: {spec: {tolerations: [{operator: Exists}]}}}}`,
			want: `add /spec/template/spec/tolerations/0 {"key":"gpu","operator":"Exists"}
add /spec/template/spec/tolerations/0 {"key":"spot","operator":"Equal","tolerationSeconds":60,"value":"yes"}`,
		},
		{
			reason:   "entries are replaced by the one that they match",
			template: `{type: tolerations, operation: replace, ` + several + `}`,
			object:   `{kind: Pod, spec: {tolerations: [{key: spot, value: "yes"}, {key: gpu, value: x}, {key: spot, value: "no"}]}}`,
			want: `replace /spec/tolerations/1 {"key":"gpu","operator":"Exists"}
replace /spec/tolerations/0 {"key":"spot","operator":"Equal","tolerationSeconds":60,"value":"yes"}`,
		},
		{
			reason:   "entries are removed from the last to the first, each once",
			template: `{type: tolerations, operation: remove, tolerations: [{key: gpu, operator: Exists}, {key: gpu, value: a}, {key: x}]}`,
			object:   `{kind: Pod, spec: {tolerations: [{key: gpu, value: a}, {key: x, value: ""}, {key: y}, {key: gpu}, {key: x}]}}`,
			want: `remove /spec/tolerations/4
remove /spec/tolerations/3
remove /spec/tolerations/1
remove /spec/tolerations/0`,
		},
		{
			reason:   "an entry for every value has no value that could be equal",
			template: `{type: tolerations, operation: remove, tolerations: [{key: gpu}]}`,
			object:   `{kind: Pod, spec: {tolerations: [{key: gpu, operator: Exists}]}}`,
		},
		{
			reason:   "a toleration of everything is the one without a key",
			template: `{type: tolerations, operation: remove, tolerations: [{operator: Exists}]}`,
			object:   `{kind: Pod, spec: {tolerations: [{operator: Exists}, {key: gpu, operator: Exists}]}}`,
			want:     `remove /spec/tolerations/0`,
		},
		{
			reason:   "what is no toleration matches as little as one without a key",
			template: `{type: tolerations, operation: remove, tolerations: [{key: gpu, operator: Exists}]}`,
			object:   `{kind: Pod, spec: {tolerations: [null, gpu, {key: 5}, [gpu]]}}`,
		},
		{
			reason:   "no toleration in the template",
			template: `{type: tolerations, operation: add, tolerations: []}`,
			object:   `{kind: Pod, spec: {}}`,
		},
	})
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	const (
		node      = `nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: a, operator: Exists}]}, {}]}}`
		anti      = `podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: t}}]}`
		nodeValue = `{"nodeSelectorTerms":[{"matchFields":[{"key":"a","operator":"Exists"}]},{}]}`
		antiValue = `[{"podAffinityTerm":{"topologyKey":"t"},"weight":1}]`
		nodePath  = `/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution`
		antiPath  = `/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution`
	)
	template := func(operation string, branches ...string) string {
		return `{type: affinity, operation: ` + operation + `, affinity: {` + strings.Join(branches, ", ") + `}}`
	}
	testRows(t, []row{
		{
			reason:   "no affinity: it is set, without branches that say nothing",
			template: template("replace", node, "podAffinity: {}"),
			object:   `{kind: Job, spec: {template: {spec: {affinity: null}}}}`,
			want:     `add /spec/template/spec/affinity {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + nodeValue + `}}`,
		},
		{
			reason:   "a missing branch is set as a whole",
			template: template("add", node, anti),
			object:   `{kind: Pod, spec: {affinity: {nodeAffinity: {}}}}`,
			want: `add /spec/affinity` + nodePath + ` ` + nodeValue + `
add /spec/affinity/podAntiAffinity {"preferredDuringSchedulingIgnoredDuringExecution":` + antiValue + `}`,
		},
		{
			reason:   "an empty list is set, terms go in front of others",
			template: template("add", node, anti),
			object: `{kind: Pod, spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{x: y}]}},
  podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}}}`,
			want: `add /spec/affinity` + nodePath + `/nodeSelectorTerms/0 {"matchFields":[{"key":"a","operator":"Exists"}]}
add /spec/affinity` + nodePath + `/nodeSelectorTerms/0 {}
add /spec/affinity` + antiPath + ` ` + antiValue,
		},
		{
			reason:   "replace sets what is listed",
			template: template("replace", node, anti),
			object:   `{kind: Pod, spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{x: y}]}}, podAntiAffinity: {}}}}`,
			want: `add /spec/affinity` + nodePath + ` ` + nodeValue + `
add /spec/affinity` + antiPath + ` ` + antiValue,
		},
		{
			reason:   "remove takes away what is listed and there",
			template: template("remove", node, anti),
			object:   `{kind: Pod, spec: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}}}`,
			want:     `remove /spec/affinity` + antiPath,
		},
		{
			reason:   "a template without terms does nothing",
			template: template("replace", "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}"),
			object:   `{kind: Pod, spec: {}}`,
		},
	})
}

func testRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.reason, func(t *testing.T) {
			t.Parallel()
			program, problems := template.Compile(parse(t, r.template))
			if program == nil {
				t.Fatalf("no program: %v", problems)
			}
			in := &rule.Input{Object: tree(t, r.object)}
			before, _ := json.Marshal(in.Object)
			outcome, err := program.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.want, lines(outcome.Patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if after, _ := json.Marshal(in.Object); string(after) != string(before) {
				t.Errorf("the object was changed to %s", after)
			}
			differ(t, parse(t, r.template), in)
		})
	}
}

// lines prints a patch, an operation a line.
func lines(patch usher.Patch) string {
	all := make([]string, len(patch))
	for i, op := range patch {
		all[i] = op.Op + " " + op.Path
		if op.Op != "remove" {
			raw, _ := json.Marshal(op.Value)
			all[i] += " " + string(raw)
		}
	}
	return strings.Join(all, "\n")
}
