package judge_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
)

// usual are rules for pods of the usual size.
var usual = []string{
	`object.spec.containers.all(c, c.image.startsWith("registry.example/"))`,
	`!has(object.spec.hostNetwork) || !object.spec.hostNetwork`,
	`object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && "memory" in c.resources.limits)`,
	`"app" in object.metadata.labels && "team" in object.metadata.labels`,
	`object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)`,
	`!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))`,
	`object.spec.containers.all(c, !c.image.endsWith(":latest"))`,
	`has(object.spec.serviceAccountName) && object.spec.serviceAccountName != "default"`,
	`object.spec.containers.all(c, has(c.readinessProbe))`,
	`!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith("system-")`,
}

// usualPolicies are n policies of one usual rule each.
func usualPolicies(n int) string {
	var b strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&b, `---
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: "usual-%03d"}
spec:
  podTemplates: "Off"
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}
  validations:
  - {name: rule, message: "the pod is not as it should be", expression: '%s'}
`, i, usual[i%len(usual)])
	}
	return b.String()
}

var pods = result.Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}

const usualPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"5b8aeba9-d75c-4296-9469-81ab0953579a",
"labels":{"app":"web","team":"blue","pod-template-hash":"5d8f7"},"annotations":{"example.com/owner":"blue"}},"spec":{"serviceAccountName":"web",
"volumes":[{"name":"data","emptyDir":{}},{"name":"token","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"path":"token"}}]}}],
"containers":[{"name":"web","image":"registry.example/web:1.2","ports":[{"containerPort":8080}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],
"resources":{"limits":{"memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"readinessProbe":{"httpGet":{"path":"/","port":8080}},
"securityContext":{"allowPrivilegeEscalation":false,"privileged":false},"volumeMounts":[{"name":"data","mountPath":"/data"}]},
{"name":"log","image":"registry.example/log:2","resources":{"limits":{"memory":"64Mi"}},"readinessProbe":{"exec":{"command":["true"]}}}],
"dnsPolicy":"ClusterFirst","nodeName":"node-1","restartPolicy":"Always","schedulerName":"default-scheduler"},"status":{"phase":"Running"}}`

// BenchmarkJudge judges the part of a pod that 100 rules read, decoding included: one that passes
// all, and one that fails 40.
func BenchmarkJudge(b *testing.B) {
	plan := judge.New(rules(b, usualPolicies(100)), judge.Options{}).Plan(pods)
	for _, bench := range []struct{ name, pod string }{
		{"passes", usualPod},
		{"fails", strings.NewReplacer("registry.example/", "docker.io/", "readinessProbe", "livenessProbe", `"team"`, `"group"`, `"web:1.2"`, `"web:latest"`).Replace(usualPod)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			tree, err := usher.RawObject([]byte(bench.pod)).Part(plan.Paths())
			if err != nil {
				b.Fatal(err)
			}
			part, err := usher.TreeObject(tree).Raw()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			start := ownCPU(b)
			for b.Loop() {
				object, err := usher.RawObject(part).Tree()
				if err != nil {
					b.Fatal(err)
				}
				if said, err := plan.Judge(b.Context(), object, nil); err != nil || len(said) != 100 {
					b.Fatal(len(said), err)
				}
			}
			b.ReportMetric(float64((ownCPU(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(len(part)), "projected-B")
		})
	}
}

// ownCPU returns the CPU time of this process: others may use the machine, too.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
