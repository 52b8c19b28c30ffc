package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

var (
	audited       = flag.Int("audited", 2000, "number of pods in TestAuditOfManyPods")
	auditedWithin = flag.String("audited-within", "64Mi", "--audit-memory in TestAuditOfManyPods")
)

// manyRules is how many policies judge each of these pods.
const manyRules = 100

// TestAuditOfManyPods audits pods of which no two are alike in what rules read. What it takes is
// logged: see the target bench-audit. The number of requests to the API server does not depend on the
// number of pods.
func TestAuditOfManyPods(t *testing.T) {
	r := newAuditRig(t)
	for i := range manyRules {
		r.policy(t, manyRule(t, i))
	}
	without := r.launch(t, r.kubeconfig, "--manage-webhook-configurations=false", "--identity=without")
	if err := without.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "policies in force", func() error {
		if n := metric(t, without, "usher_snapshot_rules"); n < manyRules {
			return fmt.Errorf("%v rules", n)
		}
		return nil
	})
	idle, idleCPU := statusOf(t, without.PID), cpuOf(t, without.PID)
	without.Stop()
	namespaces := r.manyPods(t)

	began := time.Now()
	process := r.launch(t, r.kubeconfig, "--audit", "--audit-memory="+*auditedWithin, "--manage-webhook-configurations=false", "--identity=auditor")
	r.replicas = []*usher.Process{process}
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	r.awaitAudit(t, process, "first audit", func() error { return nil })
	first := time.Since(began)
	busy := statusOf(t, process.PID)
	cpu := cpuOf(t, process.PID) - idleCPU
	t.Logf("first audit of %d pods by %d rules: %v from the start of the process, %v of CPU more than without audit (%v a pod; the metric says %.2f s); %.1f MB at its peak, %.1f MB without audit; kept: %.1f MB",
		*audited, manyRules, first.Round(time.Millisecond), cpu, cpu/time.Duration(*audited), metric(t, process, "usher_audit_cpu_seconds_total"),
		busy["VmHWM"], idle["VmHWM"], metric(t, process, "usher_audit_memory_bytes")/1e6)
	// Of many objects, results are counted now and then.
	eventually(t, "results", func() error {
		if got, want := r.results(t, process), *audited*manyRules; got != want {
			return fmt.Errorf("%d results, want %d", got, want)
		}
		return nil
	})
	before := r.asked(t, "pods")
	if before["watch"] != 1 || before["list"]+before["get"] != 0 {
		t.Errorf("Usher asked about pods: %v, want one watch", before)
	}
	r.oneChange(t, process, namespaces[0])
	if after := r.asked(t, "pods"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("Usher asked about pods: %v; before something changed: %v", after, before)
	}
	process.Stop()
	r.admission(t, namespaces[0])
}

// oneChange changes a pod and then a policy, and logs how long it takes until the results show.
func (r *auditRig) oneChange(t *testing.T, process *usher.Process, namespace string) {
	t.Helper()
	warned := func() int { return int(metric(t, process, `usher_audit_results{status="warn"}`)) }
	was := warned()
	began := time.Now()
	if _, err := r.apply(testContext(t), parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: pod-00000, namespace: %s, labels: {rule-0: 'no'}}}", namespace)); err != nil {
		t.Fatal(err)
	}
	r.awaitAudit(t, process, "the changed pod", func() error {
		if got := warned(); got != was+1 {
			return fmt.Errorf("%d warnings, want %d", got, was+1)
		}
		return nil
	})
	t.Logf("a changed pod shows after %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	policy := manyRule(t, 0)
	policy.Object["spec"].(map[string]any)["validations"].([]any)[0].(map[string]any)["expression"] = "object.metadata.?labels['rule-0'] != optional.of('yes')" //nolint:forcetypeassert // as it was written
	r.policy(t, policy)
	r.awaitAudit(t, process, "the changed policy", func() error {
		if got := warned(); got == was+1 {
			return fmt.Errorf("%d warnings as before", got)
		}
		return nil
	})
	t.Logf("a changed policy shows for all pods after %v", time.Since(began).Round(time.Millisecond))
}

// results counts what the audit says.
func (r *auditRig) results(t *testing.T, process *usher.Process) int {
	t.Helper()
	all := 0
	for _, status := range []string{"pass", "fail", "warn", "error", "skip"} {
		all += int(metric(t, process, `usher_audit_results{status="`+status+`"}`))
	}
	return all
}

// awaitAudit waits until all pods are judged, and check returns nil. It asks more rarely the more is left, since
// answers cost what is measured.
func (r *auditRig) awaitAudit(t *testing.T, process *usher.Process, what string, check func() error) {
	t.Helper()
	within(t, 5*time.Minute+time.Duration(*audited)*5*time.Millisecond, what, func() error {
		if got := int(metric(t, process, `usher_audit_objects{resource="pods.v1"}`)); got != *audited {
			time.Sleep(time.Duration(*audited-got) * 10 * time.Microsecond)
			return fmt.Errorf("%d pods", got)
		}
		if backlog := metric(t, process, `usher_audit_backlog{resource="pods.v1"}`); backlog != 0 {
			time.Sleep(time.Duration(backlog) * 10 * time.Microsecond)
			return fmt.Errorf("%v pods are to be judged", backlog)
		}
		return check()
	})
}

// manyRule is one of the policies. All read more than one field.
func manyRule(t *testing.T, i int) *unstructured.Unstructured {
	t.Helper()
	expressions := []string{
		"object.metadata.?labels['rule-NUMBER'] != optional.of('no')",
		"object.spec.containers.all(c, !c.image.endsWith(':NUMBER00'))",
		"object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits)",
		"!object.spec.?hostNetwork.orValue(false) && object.spec.containers.all(c, c.?ports.orValue([]).all(p, p.containerPort != NUMBER))",
		"object.spec.containers.all(c, c.?securityContext.?privileged.orValue(false) == false)",
		"object.spec.containers.all(c, c.?env.orValue([]).all(e, e.name != 'DEBUG_NUMBER'))",
		"object.metadata.?labels['team'].orValue('') != 'team-NUMBER'",
		"object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))",
		"object.spec.?serviceAccountName.orValue('') != 'rule-NUMBER'",
		"size(object.spec.containers) < 10 + NUMBER",
	}
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: rule-%03d}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: %q, message: rule %d fails}]
  bindings: [{name: everywhere, validationActions: [Warn]}]
`, i, strings.ReplaceAll(expressions[i%len(expressions)], "NUMBER", strconv.Itoa(i)), i)
}

// manyPods creates the pods in namespaces of a thousand.
func (r *auditRig) manyPods(t *testing.T) []string {
	t.Helper()
	began := time.Now()
	resource := r.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	var namespaces []string
	var writers errgroup.Group
	writers.SetLimit(16)
	for i := range *audited {
		if i%1000 == 0 {
			namespaces = append(namespaces, r.Namespace(t))
		}
		namespace := namespaces[len(namespaces)-1]
		pod := manyPod(t, i)
		writers.Go(func() error {
			_, err := resource.Namespace(namespace).Create(context.Background(), pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	stored, err := r.kube.CoreV1().RESTClient().Get().Namespace(namespaces[0]).Resource("pods").Name("pod-00000").DoRaw(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("created %d pods of %d bytes in %v", *audited, len(stored), time.Since(began).Round(time.Second))
	return namespaces
}

func manyPod(t *testing.T, i int) *unstructured.Unstructured {
	t.Helper()
	container := func(name string) string {
		var env []string
		for k := range 3 {
			env = append(env, fmt.Sprintf("{name: VARIABLE_%d, value: %q}", k, strings.Repeat("v", 20)))
		}
		return fmt.Sprintf("{name: %s, image: 'registry.example.com/shop/%s:%d', ports: [{containerPort: 8080}], resources: {limits: {memory: 64Mi}}, env: [%s]}", name, name, i, strings.Join(env, ", "))
	}
	return parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: pod-%05d, labels: {app: app-%d, team: shop}}, spec: {containers: [%s, %s]}}",
		i, i, container("web"), container("proxy"))
}

// cpuOf returns the processor time that a process has taken.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("processor time of the process is not known here: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// statusOf returns figures of a process in MB.
func statusOf(t *testing.T, pid int) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("memory of the process is not known here: %v", err)
	}
	figures := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[2] == "kB" {
			n, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			figures[strings.TrimSuffix(fields[0], ":")] = n / 1000
		}
	}
	return figures
}
