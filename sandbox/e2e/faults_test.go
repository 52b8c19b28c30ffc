package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// fail makes API servers refuse what they could not ask about.
const fail = "--webhook-failure-policy=Fail"

// acting waits until a labelling policy acts in a namespace.
func (r *rig) acting(t *testing.T, namespace, value string) time.Duration {
	t.Helper()
	return eventually(t, "policy "+value+" to act", func() error { return r.acts(t, namespace, value) })
}

func (r *rig) acts(t *testing.T, namespace, value string) error {
	t.Helper()
	created, err := r.try(testContext(t), configMap(t, namespace, "tried"))
	if err != nil {
		return err
	}
	return stamped(created, value)
}

// replicas is a rig with two ushers behind one Service, a policy that acts and the
// namespace that it acts in.
func replicas(t *testing.T) (r *rig, behind *network, both [2]*usher.Process, namespace string) {
	t.Helper()
	behind = newNetwork(t)
	r = newRig(t, sandbox.Options{
		Exclusive: true,
		Services:  []string{usher.Namespace + "/usher=" + behind.address()},
	})
	for i := range both {
		both[i] = r.launchService(t, fail)
	}
	for _, process := range both {
		if err := process.WaitReady(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	behind.lead(host(t, both[0].URL), host(t, both[1].URL))
	namespace = r.Namespace(t)
	r.enforce(t, labelling(t, namespace, namespace, "replicated"))
	r.acting(t, namespace, "replicated")
	return r, behind, both, namespace
}

// TestReplicaKilledUnderLoad kills one of two replicas. Every request is admitted and
// changed in the end, and retries are few.
func TestReplicaKilledUnderLoad(t *testing.T) {
	t.Parallel()
	r, behind, both, namespace := replicas(t)
	l := r.underLoad(t, namespace, "replicated", 0)
	l.await(t, 500)
	both[0].Kill()
	l.await(t, 500)
	// The Service's endpoints follow; so does a replica that comes back.
	behind.lead(host(t, both[1].URL))
	l.await(t, 100)
	if err := both[0].Restart(); err != nil {
		t.Fatal(err)
	}
	if err := both[0].WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	behind.lead(host(t, both[0].URL), host(t, both[1].URL))
	both[1].Kill()
	l.await(t, 500)
	l.end()
	t.Logf("%d requests admitted, %d retries", l.admitted.Load(), l.retried.Load())
	for _, err := range l.problems() {
		t.Errorf("a request was lost: %v", err)
	}
}

// TestCertificateRotatedUnderLoad makes the replicas replace the certificate that they
// share. No request fails, not even once.
func TestCertificateRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	r, _, both, namespace := replicas(t)
	before := serials(t, both)
	l := r.underLoad(t, namespace, "replicated", 5*pollEvery)
	l.await(t, 100)
	r.rotate(t)
	// Each replica reads the Secret every minute.
	took := within(t, 3*time.Minute, "new certificates", func() error {
		if after := serials(t, both); after[0] == before[0] || after[1] == before[1] || after[0] != after[1] {
			return fmt.Errorf("serial numbers were %v and are %v", before, after)
		}
		return nil
	})
	l.await(t, 300)
	l.end()
	t.Logf("%d requests admitted, %d retries, both replicas had the new certificate after %v", l.admitted.Load(), l.retried.Load(), took)
	if l.retried.Load() > 0 {
		t.Errorf("%d requests failed and were sent again", l.retried.Load())
	}
	for _, err := range l.problems() {
		t.Errorf("a request was lost: %v", err)
	}
}

// TestAPIServerAndEtcdRestart takes Usher's API server from it, and then the whole
// control plane. It answers all the while, and has what changed soon after.
func TestAPIServerAndEtcdRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	joined := r.Join(t)
	process := r.launch(t, joined.Kubeconfig)
	if err := errors.Join(process.WaitReady(testContext(t)), process.WaitRegistered(testContext(t), r.RESTConfig)); err != nil {
		t.Fatal(err)
	}
	namespace := r.Namespace(t)
	r.enforce(t, labelling(t, namespace, namespace, "first"))
	r.acting(t, namespace, "first")

	joined.Kill(t)
	for range 20 {
		if err := r.acts(t, namespace, "first"); err != nil {
			t.Fatalf("while usher's API server is down: %v", err)
		}
	}
	if _, err := r.apply(testContext(t), labelling(t, namespace, namespace, "second")); err != nil {
		t.Fatalf("edit policy while usher's API server is down: %v", err)
	}
	joined.Restart(t)
	t.Logf("edit made while the API server was down acts %v after its return", r.acting(t, namespace, "second"))

	r.Kill(t)
	r.Restart(t)
	t.Logf("enforced %v after the restart of etcd", r.acting(t, namespace, "second"))
	r.enforce(t, labelling(t, namespace, namespace, "third"))
	t.Logf("then an edit acts %v after its status says so", r.acting(t, namespace, "third"))
}

// TestReplicasEndInOrder replaces both replicas one after the other, as a rollout does.
// No request fails, not even once.
func TestReplicasEndInOrder(t *testing.T) {
	t.Parallel()
	r, behind, both, namespace := replicas(t)
	l := r.underLoad(t, namespace, "replicated", pollEvery)
	for i, ending := range both {
		l.await(t, 100)
		// What is ending gets no new connections, as when its endpoint is removed.
		behind.lead(host(t, both[1-i].URL))
		ending.Stop()
		l.await(t, 100)
		if err := ending.Restart(); err != nil {
			t.Fatal(err)
		}
		if err := ending.WaitReady(testContext(t)); err != nil {
			t.Fatal(err)
		}
		behind.lead(host(t, both[0].URL), host(t, both[1].URL))
	}
	l.await(t, 100)
	l.end()
	t.Logf("%d requests admitted, %d retries", l.admitted.Load(), l.retried.Load())
	if l.retried.Load() > 0 {
		t.Errorf("%d requests failed and were sent again", l.retried.Load())
	}
	for _, err := range l.problems() {
		t.Errorf("a request was lost: %v", err)
	}
}

// TestUsherDown stops the only usher of a cluster that may not do without. What the cluster
// needs to recover stays writable, and policies can be taken away.
func TestUsherDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.serve(t, fail)
	namespace := r.Namespace(t)
	policy := r.enforce(t, labelling(t, namespace, namespace, "up"))
	r.acting(t, namespace, "up")
	isolate := r.isolated(t)
	eventually(t, "warnings of a pod that exists", func() error { return toldOfPod(isolate(t)) })
	process.Kill()

	if _, err := r.try(testContext(t), configMap(t, namespace, "tried")); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("create what a policy is for: got %v, want a refusal", err)
	}
	ctx := testContext(t)
	if told, err := isolate(t); err != nil || len(told) > 0 {
		t.Errorf("label a namespace with pods: got %v and %q, want no warnings", err, told)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader", Namespace: namespace}}
	if _, err := r.kube.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		t.Errorf("create lease: %v", err)
	}
	for _, free := range []string{usher.Namespace, "default"} {
		if _, err := r.try(ctx, configMap(t, free, "tried")); err != nil {
			t.Errorf("create in namespace %s: %v", free, err)
		}
	}
	if err := process.Restart(); err != nil {
		t.Fatal(err)
	}
	t.Logf("enforced %v after usher's return", r.acting(t, namespace, "up"))
	r.enforce(t, parse(t, namespacesText, "labels"))
	eventually(t, "warnings beside a policy for namespaces", func() error {
		return errors.Join(toldOfPod(isolate(t)), r.withoutEntry(testContext(t), "validate-existing.usher.dev"))
	})

	process.Kill()
	if _, err := isolate(t); err == nil || !strings.Contains(err.Error(), `failed calling webhook "validate.usher.dev"`) {
		t.Errorf("label a namespace that a policy is for: got %v, want a refusal", err)
	}
	resource, err := r.of(policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := resource.Delete(ctx, policy.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete policy while usher is down: %v", err)
	}
}

// TestStartsWithBrokenPolicies starts Usher on policies that were stored without it. The
// good one acts; what is wrong with the other stands in its status.
func TestStartsWithBrokenPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	namespace := r.Namespace(t)
	broken := r.create(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: broken}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %q}]
  overrideRules:
  - overriders: {cue: "patches: [undefinedName]"}
`, namespace))
	good := r.create(t, labelling(t, "good", namespace, "good"))
	r.serve(t)
	r.acting(t, namespace, "good")
	r.awaitCondition(t, good, "Enforced", "True")
	current := r.awaitCondition(t, broken, "Compiled", "False")
	problems, _, _ := unstructured.NestedSlice(current.Object, "status", "problems")
	if len(problems) == 0 || !strings.Contains(fmt.Sprint(problems), "undefinedName") {
		t.Errorf("problems in the status of the broken policy: %v", problems)
	}
}

// staleness is the metric that tells for how long usher has not heard of its API server. Up
// to half a minute is normal.
const (
	staleness = "usher_source_staleness_seconds"
	stale     = 35
)

// TestCutOffFromAPIServer cuts the connection between Usher and its API server for a
// while. The last policies stay in force, a metric says so, and the edits made meanwhile
// follow.
func TestCutOffFromAPIServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	between := newNetwork(t, host(t, r.RESTConfig.Host))
	process := r.launch(t, kubeconfigVia(t, r.Kubeconfig, between))
	if err := errors.Join(process.WaitReady(testContext(t)), process.WaitRegistered(testContext(t), r.RESTConfig)); err != nil {
		t.Fatal(err)
	}
	namespace := r.Namespace(t)
	r.enforce(t, labelling(t, namespace, namespace, "before"))
	r.acting(t, namespace, "before")

	between.sever()
	if _, err := r.apply(testContext(t), labelling(t, namespace, namespace, "after")); err != nil {
		t.Fatalf("edit policy: %v", err)
	}
	eventually(t, "the metric to rise", func() error {
		if err := r.acts(t, namespace, "before"); err != nil {
			t.Fatalf("while cut off: %v", err)
		}
		if value := metric(t, process, staleness); value < stale {
			return fmt.Errorf("%s is %v", staleness, value)
		}
		return nil
	})
	between.mend()
	t.Logf("edit made meanwhile acts %v after the connection is back", r.acting(t, namespace, "after"))
	eventually(t, "the metric to fall", func() error {
		if value := metric(t, process, staleness); value < 0 || value >= stale {
			return fmt.Errorf("%s is %v", staleness, value)
		}
		return nil
	})
}

// TestHangingFactSource has a policy ask a service that never answers. The request that
// needs it is refused in time, and others do not notice.
func TestHangingFactSource(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		select {
		case <-release:
		case <-request.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	r.enforce(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap, namespace: %[1]q, labelSelector: {matchLabels: {ask: service}}}
  overrideRules:
  - targetOperations: [CREATE]
    overriders:
      template:
        type: annotations
        operation: add
        path: answer
        valueRef: {from: http, path: body.answer, http: {url: %[2]q, method: GET}}
`, namespace, server.URL+"/slow"))
	asking := configMap(t, namespace, "asking")
	asking.SetLabels(map[string]string{"ask": "service"})
	eventually(t, "the policy to act", func() error {
		if _, err := r.try(testContext(t), asking); !refused(err) {
			return orNil(err)
		}
		return nil
	})

	answers := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := r.try(testContext(t), asking)
		answers <- err
	}()
	for others := 0; ; others++ {
		if _, err := r.try(testContext(t), configMap(t, namespace, "other")); err != nil {
			t.Fatalf("a request that needs no service: %v", err)
		}
		select {
		case err := <-answers:
			t.Logf("the request that needs the service was answered after %v, and %d others before: %v", time.Since(began), others, err)
			// API servers that do not wait any longer say something else.
			if !refused(err) {
				t.Errorf("the request that needs the service: got %v, want a denial by the rule", err)
			}
			if others < 2 {
				t.Errorf("%d other requests were answered meanwhile", others)
			}
			return
		case <-time.After(pollEvery):
		}
	}
}

// launchService starts an usher that is a replica behind the Service usher.
func (r *rig) launchService(t *testing.T, args ...string) *usher.Process {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	return r.run(t, usher.Config{Binary: binary, Kubeconfig: r.Kubeconfig, Service: "usher", Args: args})
}
