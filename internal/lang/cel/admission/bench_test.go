package admission_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// typical is a policy of five validations and a variable.
func typical(n int) admission.Code {
	return admission.Code{
		Variables: []admission.Named{{Name: "containers", Expression: "object.spec.containers + object.spec.?initContainers.orValue([])"}},
		Validations: []admission.Validation{
			{Expression: fmt.Sprintf("object.spec.terminationGracePeriodSeconds <= %d", 60+n), Message: "too slow"},
			{Expression: "has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'].matches('^[a-z0-9-]+$')"},
			{Expression: "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits)", MessageExpression: "'limits of ' + object.metadata.name"},
			{Expression: "variables.containers.all(c, quantity(c.resources.limits['memory']).compareTo(quantity('4Gi')) <= 0)"},
			{Expression: "request.operation != 'UPDATE' || object.metadata.name == oldObject.metadata.name"},
		},
	}
}

// podTree is a pod of some 5 KB.
func podTree(n int) map[string]any {
	container := func(i int) map[string]any {
		var env []any
		for j := range 15 {
			env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", j), "value": strings.Repeat("x", 40)})
		}
		return map[string]any{
			"name": fmt.Sprintf("c%d", i), "image": fmt.Sprintf("registry.example/team/app-%d:1.2.%d", i, n), "env": env,
			"resources": map[string]any{"limits": map[string]any{"memory": "2Gi", "cpu": "500m"}, "requests": map[string]any{"memory": "1Gi"}},
			"ports":     []any{map[string]any{"containerPort": int64(80)}, map[string]any{"containerPort": int64(8080 + n)}},
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": fmt.Sprintf("web-%d", n), "tier": "2"}},
		"spec":     map[string]any{"terminationGracePeriodSeconds": int64(30), "containers": []any{container(1), container(2), container(3)}},
	}
}

func size(tree map[string]any) cel.Size { return cel.SizeOf(tree) }

func podInputs() []admission.Input {
	inputs := make([]admission.Input, 64)
	for i := range inputs {
		tree := podTree(i)
		r := &usher.Request{
			Phase: usher.Validate, Operation: usher.Update, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Namespace: "shop", User: usher.User{Name: "jane", Groups: []string{"devs"}},
		}
		inputs[i] = admission.Input{Request: r, Object: tree, OldObject: podTree(i + 1), Facts: &fact.Known{}, Size: size(tree).Plus(size(podTree(i + 1)))}
	}
	return inputs
}

func BenchmarkEvaluate(b *testing.B) {
	p, problems := admission.Compile(typical(0))
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	inputs := podInputs()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in := inputs[i%len(inputs)]
		result, err := p.Evaluate(b.Context(), &in)
		if err != nil || len(result.Denials) > 0 {
			b.Fatal(result, err)
		}
	}
}

func BenchmarkExpression(b *testing.B) {
	inputs := podInputs()
	for i, v := range typical(0).Validations {
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			p, problems := admission.Compile(admission.Code{Variables: typical(0).Variables, Validations: []admission.Validation{v}})
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				in := inputs[i%len(inputs)]
				if result, err := p.Evaluate(b.Context(), &in); err != nil || len(result.Denials) > 0 {
					b.Fatal(result, err)
				}
			}
		})
	}
}

// BenchmarkRestricted evaluates the policies of a pack that allow a pod, and what cel-go makes of them.
func BenchmarkRestricted(b *testing.B) {
	tree := map[string]any{}
	text, err := os.ReadFile("../../../../sandbox/podsecurity/testdata/pod.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &tree)
	}
	if err != nil {
		b.Fatal(err)
	}
	tree, err = usher.RawObject(must(json.Marshal(tree))).Tree()
	if err != nil {
		b.Fatal(err)
	}
	var closures, interpreted []*admission.Program
	for _, w := range policiesWritten(b, "library/pod-security-restricted") {
		s := admission.Code{Params: true, LazyMessages: true, Variables: w.Spec.Variables, Conditions: w.Spec.MatchConditions}
		for _, v := range w.Spec.Validations {
			s.Validations = append(s.Validations, admission.Validation{Expression: v.Expression, MessageExpression: v.MessageExpression})
		}
		p, problems := admission.Compile(s)
		i, err := admission.CompileInterpreted(s)
		if len(problems) > 0 || err != nil {
			b.Fatal(problems, err)
		}
		closures, interpreted = append(closures, p), append(interpreted, i)
	}
	r := podInputs()[0].Request
	for name, programs := range map[string][]*admission.Program{"closures": closures, "cel-go": interpreted} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime(b)
			n := 0
			defer func() { b.ReportMetric(float64(cpuTime(b)-start)/float64(n), "cpu-ns/op") }()
			for b.Loop() {
				n++
				in := admission.Input{
					Request: r, Object: tree, Params: map[string]any{"version": "latest", "exemptRuntimeClasses": []any{}},
					Facts: &fact.Known{}, Size: cel.Size{Total: 1},
				}
				for _, p := range programs {
					if result, err := p.Evaluate(b.Context(), &in); err != nil || len(result.Denials) > 0 {
						b.Fatal(result, err)
					}
				}
			}
		})
	}
}

// cpuTime is what the process has used: on a busy machine, elapsed time is that of others, too.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func BenchmarkCompile(b *testing.B) {
	admission.Compile(typical(0))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, problems := admission.Compile(typical(i)); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

// BenchmarkMemory reports the memory of a compiled policy.
func BenchmarkMemory(b *testing.B) {
	admission.Compile(typical(0))
	for b.Loop() {
		const policies = 1000
		before := inUse()
		kept := make([]*admission.Program, policies)
		for i := range kept {
			kept[i], _ = admission.Compile(typical(i))
		}
		b.ReportMetric(float64(inUse()-before)/policies, "B/policy")
		runtime.KeepAlive(kept)
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
