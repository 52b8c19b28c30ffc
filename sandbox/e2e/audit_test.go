package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// auditor is the user that Usher is in tests of the audit.
const auditor = "auditor"

// auditorRights are those of Usher and of an audit, but not for kinds of example.com.
const auditorRights = `[{apiGroups: [policy.kcloudlabs.io, usher.dev, admissionregistration.k8s.io, authorization.k8s.io, coordination.k8s.io, apps, batch, ""], resources: ["*"], verbs: ["*"]}]`

// An auditRig is a cluster that records what Usher asks it.
type auditRig struct {
	*rig
	log        string
	kubeconfig string
	namespace  string
	// apis are the addresses at which they serve their results.
	apis map[*usher.Process]string
	// replicas are the ushers; the first one audits.
	replicas []*usher.Process
}

const podCount = 200

func newAuditRig(t *testing.T, args ...string) *auditRig {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	// It is not known yet who impersonates whom when a request is received.
	const rules = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, resources: [{group: "", resources: [pods]}]}, {level: None}]
`
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &auditRig{log: filepath.Join(dir, "audit.log"), apis: map[*usher.Process]string{}}
	r.rig = newRig(t, sandbox.Options{Exclusive: true, APIServerArgs: append(args, "--audit-policy-file="+policy, "--audit-log-path="+r.log)})
	r.namespace = r.Namespace(t)
	r.grant(t, auditor, "", auditorRights)
	r.kubeconfig = r.impersonate(t, auditor)
	return r
}

// replica adds a replica that audits if it leads.
func (r *auditRig) replica(t *testing.T, kubeconfig string, args ...string) {
	t.Helper()
	address := "127.0.0.1:" + freePort(t)
	process := r.launch(t, kubeconfig, append(args, "--audit", "--manage-webhook-configurations=false", "--api-address="+address)...)
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	r.replicas, r.apis[process] = append(r.replicas, process), address
}

// asked counts what Usher asked about a resource, by verb.
func (r *auditRig) asked(t *testing.T, resource string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, q := range r.questions(t, resource) {
		counts[q.verb]++
	}
	return counts
}

// pods creates pods; every second one has the label team.
func (r *auditRig) pods(t *testing.T) {
	t.Helper()
	var writers errgroup.Group
	writers.SetLimit(8)
	for i := range podCount {
		pod := parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: pod-%03d, namespace: %s}, spec: {containers: [{name: app, image: registry.example.com/app:%d}]}}", i, r.namespace, i)
		if i%2 == 0 {
			pod.SetLabels(map[string]string{"team": "shop"})
		}
		writers.Go(func() error {
			resource, err := r.of(pod)
			if err != nil {
				return err
			}
			_, err = resource.Create(context.Background(), pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
}

// needs is a policy by which objects need a label.
func needs(t *testing.T, name, group, resource, label string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [%q], apiVersions: ["*"], operations: [CREATE], resources: [%s]}]}
  validations: [{expression: "'%s' in object.metadata.?labels.orValue({})", message: label %s is missing}]
  bindings: [{name: everywhere, validationActions: [Warn]}]
`, name, group, resource, label, label)
}

// policy writes a policy. Nothing sends requests to Usher here: the results show when it is in force.
func (r *auditRig) policy(t *testing.T, policy *unstructured.Unstructured) {
	t.Helper()
	if _, err := r.apply(testContext(t), policy); err != nil {
		t.Fatal(err)
	}
}

// audits reports whether a replica audits.
func audits(t *testing.T, process *usher.Process) bool {
	t.Helper()
	return metric(t, process, `usher_audit_objects{resource="pods.v1"}`) >= 0
}

// await waits until the audit has counted this many objects of a resource, and results.
func (r *auditRig) await(t *testing.T, resource string, objects int, results map[string]int) {
	t.Helper()
	process := r.replicas[0]
	eventually(t, fmt.Sprintf("%d %s and results %v", objects, resource, results), func() error {
		if got := int(metric(t, process, `usher_audit_objects{resource="`+resource+`"}`)); got != objects {
			return fmt.Errorf("%d objects", got)
		}
		for status, want := range results {
			if got := int(metric(t, process, `usher_audit_results{status="`+status+`"}`)); got != want {
				return fmt.Errorf("%d results with status %s, want %d", got, status, want)
			}
		}
		if backlog := metric(t, process, `usher_audit_backlog{resource="`+resource+`"}`); backlog != 0 {
			return fmt.Errorf("%v objects are to be judged", backlog)
		}
		return nil
	})
}

func readyText(t *testing.T, process *usher.Process) string {
	t.Helper()
	client, err := process.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, process.URL+"/readyz?verbose", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAudit has two replicas in a real cluster, one of which audits, while objects, policies, kinds
// and rights change, the API server restarts and at last the replica dies. The pods are read by one
// watch, and by nothing else.
func TestAudit(t *testing.T) {
	t.Parallel()
	r := newAuditRig(t)
	r.pods(t)
	r.create(t, definition(t, "Widget"))
	for _, identity := range []string{"one", "two"} {
		r.replica(t, r.kubeconfig, "--identity="+identity)
	}
	r.policy(t, needs(t, "team", "", "pods", "team"))
	eventually(t, "one replica audits", func() error {
		if one, two := audits(t, r.replicas[0]), audits(t, r.replicas[1]); one == two {
			return fmt.Errorf("the first audits: %t, the second audits: %t", one, two)
		}
		return nil
	})
	if !audits(t, r.replicas[0]) {
		slices.Reverse(r.replicas)
	}
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount / 2, "pass": podCount / 2, "fail": 0, "error": 0})
	if text := readyText(t, r.replicas[1]); !strings.Contains(text, "audit: by the replica that leads") {
		t.Errorf("the other replica does not say who audits:\n%s", text)
	}
	r.changes(t)
	r.facts(t)
	r.kinds(t)
	r.restarts(t)
	r.replicas[0].Kill()
	r.replicas = r.replicas[1:]
	r.await(t, "pods.v1", podCount-1, map[string]int{"warn": podCount/2 - 1, "pass": podCount / 2, "error": 0})
}

// changes changes an object and the policy.
func (r *auditRig) changes(t *testing.T) {
	t.Helper()
	if _, err := r.apply(testContext(t), r.changed(t)); err != nil {
		t.Fatal(err)
	}
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount/2 - 1, "pass": podCount/2 + 1})
	before := r.asked(t, "pods")
	r.policy(t, needs(t, "team", "", "pods", "owner"))
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount, "pass": 0})
	r.policy(t, needs(t, "team", "", "pods", "team"))
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount/2 - 1, "pass": podCount/2 + 1})
	// A slow machine may have had the replicas take turns before.
	if after := r.asked(t, "pods"); fmt.Sprint(after) != fmt.Sprint(before) || after["watch"] == 0 || after["list"]+after["get"] != 0 {
		t.Errorf("Usher asked about pods: %v, want the watch from before the policy changed and nothing else: %v", after, before)
	}
}

// facts changes the labels of the namespace, by which a policy selects.
func (r *auditRig) facts(t *testing.T) {
	t.Helper()
	policy := needs(t, "production", "", "pods", "owner")
	if err := unstructured.SetNestedStringMap(policy.Object, map[string]string{"env": "production"}, "spec", "matchConstraints", "namespaceSelector", "matchLabels"); err != nil {
		t.Fatal(err)
	}
	r.policy(t, policy)
	for _, step := range []struct {
		env  string
		warn int
	}{{"production", podCount/2 - 1 + podCount}, {"test", podCount/2 - 1}} {
		labels := parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {env: %s}}}", r.namespace, step.env)
		if _, err := r.apply(testContext(t), labels); err != nil {
			t.Fatal(err)
		}
		r.await(t, "pods.v1", podCount, map[string]int{"warn": step.warn, "error": 0})
	}
	r.remove(policy)
}

func (r *auditRig) changed(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: pod-001, namespace: %s, labels: {team: bank}}}", r.namespace)
}

// kinds has a policy for a kind that Usher may not read, until it may; then the kind goes.
func (r *auditRig) kinds(t *testing.T) {
	t.Helper()
	const readable = `usher_audit_readable{resource="widgets.v1.example.com"}`
	process := r.replicas[0]
	eventually(t, "widgets are served", func() error {
		r.mapper.Reset()
		_, err := r.apply(testContext(t), parse(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: %s}}", r.namespace))
		return err
	})
	r.policy(t, needs(t, "widgets", "example.com", "widgets", "team"))
	r.await(t, "widgets.v1.example.com", 0, map[string]int{"error": 1})
	if got := metric(t, process, readable); got != 0 {
		t.Errorf("%s is %v", readable, got)
	}
	if text := readyText(t, process); !strings.Contains(text, "  widgets.v1.example.com: cannot be audited, since ") || !strings.Contains(text, "forbidden") {
		t.Errorf("/readyz?verbose does not name the kind:\n%s", text)
	}
	r.grant(t, "widgets", "", "[{apiGroups: [example.com], resources: [widgets], verbs: [list, watch]}]")
	r.create(t, parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: audited}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: widgets}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]}", auditor))
	r.await(t, "widgets.v1.example.com", 1, map[string]int{"error": 0, "warn": podCount / 2})
	if text := readyText(t, process); strings.Contains(text, "cannot be audited") {
		t.Errorf("/readyz?verbose complains still:\n%s", text)
	}
	r.remove(definition(t, "Widget"))
	eventually(t, "widgets are gone", func() error {
		if got := metric(t, process, readable); got != -1 {
			return fmt.Errorf("%s is %v", readable, got)
		}
		return nil
	})
	r.remove(needs(t, "widgets", "example.com", "widgets", "team"))
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount/2 - 1, "error": 0})
}

// restarts restarts the API server.
func (r *auditRig) restarts(t *testing.T) {
	t.Helper()
	before := r.questions(t, "pods")
	// No event of pods has this version: the API server will not know it any more.
	r.create(t, parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: %s}}", r.namespace))
	r.Kill(t)
	r.Restart(t)
	r.remove(r.changed(t))
	r.await(t, "pods.v1", podCount-1, map[string]int{"warn": podCount/2 - 1, "pass": podCount / 2, "error": 0})
	if after := r.asked(t, "pods"); after["list"]+after["get"] != 0 {
		t.Errorf("Usher asked about pods: %v, want watches only", after)
	}
	r.expired(t, before)
}

// TestAuditWithoutStreamingLists has an API server as those before Kubernetes 1.32: a list in pages,
// and then a watch. Usher loses its connection for so long that etcd no longer has what changed.
func TestAuditWithoutStreamingLists(t *testing.T) {
	t.Parallel()
	r := newAuditRig(t, "--feature-gates=WatchList=false", "--watch-cache=false")
	r.pods(t)
	between := newNetwork(t, host(t, r.RESTConfig.Host))
	r.replica(t, kubeconfigVia(t, r.kubeconfig, between))
	r.policy(t, needs(t, "team", "", "pods", "team"))
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount / 2, "pass": podCount / 2, "error": 0})
	if _, err := r.apply(testContext(t), r.changed(t)); err != nil {
		t.Fatal(err)
	}
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount/2 - 1, "pass": podCount/2 + 1})
	// The first watch is refused.
	if asked := r.asked(t, "pods"); asked["list"] != 1 || asked["watch"] != 2 || asked["get"] != 0 {
		t.Errorf("Usher asked about pods: %v, want one list and two watches", asked)
	}
	before := r.questions(t, "pods")
	between.sever()
	r.remove(r.changed(t))
	r.create(t, parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: %s}, spec: {containers: [{name: app, image: registry.example.com/app}]}}", r.namespace))
	r.compact(t)
	between.mend()
	r.await(t, "pods.v1", podCount, map[string]int{"warn": podCount / 2, "pass": podCount / 2, "error": 0})
	r.expired(t, before)
}
