package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usher-dev/usher/api"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

var resource = v1alpha1.GroupVersion.WithResource("clusteroverridepolicies")

func ref(name string) usher.PolicyRef {
	return usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: name}
}

func uid(s string) types.UID { return types.UID(s) }

// good is a snapshot of policy a alone, which compiles in this generation.
func good(generation int64) report.Snapshot {
	return report.Snapshot{Policies: []rule.State{
		{Policy: ref("a"), UID: "u", Generation: generation, Compiled: true, Enforced: true},
	}}
}

// The election logs on its own.
func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// A cluster is a fake API server, with replicas. It is used in a bubble of synctest: the
// replicas' time passes when the test sleeps.
type cluster struct {
	t        testing.TB
	policies *dynamicfake.FakeDynamicClient
	kube     *kubefake.Clientset
	log      *recorder
	// resource is that of the policies.
	resource schema.GroupVersionResource
	// verify is given to replicas.
	verify func(context.Context, func(report.Calls))
	// lead is what the replica that leads does, by identity; nil means nothing.
	lead func(ctx context.Context, identity string)
	// failing are the failures that replicas have seen, by identity.
	mu      sync.Mutex
	failing map[string][]rule.Failure
	// candidates are what each replica has counted.
	candidates func() []rule.CandidateState
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{t: t, resource: resource, log: &recorder{}, kube: kubefake.NewClientset(), failing: map[string][]rule.Failure{}}
	c.policies = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds())
	c.policies.PrependReactor("patch", "*", c.testUID)
	return c
}

// listKinds are those of all kinds of policy.
func listKinds() map[schema.GroupVersionResource]string {
	kinds := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		resource := kind.GroupVersionResource()
		kinds[resource] = kind.Kind + "List"
	}
	return kinds
}

// testUID answers a patch that begins with the UID of another object as an API server does.
func (c *cluster) testUID(a clienttesting.Action) (bool, runtime.Object, error) {
	patch := a.(clienttesting.PatchAction)
	var operations []struct{ Op, Path, Value any }
	object, err := c.policies.Tracker().Get(a.GetResource(), a.GetNamespace(), patch.GetName())
	if err != nil {
		return true, nil, err
	}
	if err := json.Unmarshal(patch.GetPatch(), &operations); err != nil || operations[0].Path != "/metadata/uid" {
		c.t.Errorf("patch %s: %v, want one that begins with a test of the UID", patch.GetPatch(), err)
	}
	if operations[0].Value != string(object.(*unstructured.Unstructured).GetUID()) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{}, patch.GetName(), nil)
	}
	return false, nil, nil
}

func (c *cluster) create(name, uid string, generation int64) {
	c.t.Helper()
	kind, _ := api.KindServed(c.resource.GroupResource())
	err := c.policies.Tracker().Create(c.resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": c.resource.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": name, "uid": uid, "generation": generation},
	}}, "")
	if err != nil {
		c.t.Fatal(err)
	}
}

// replica runs a replica until the test ends.
func (c *cluster) replica(identity string) *report.Reporter {
	r, stop := c.stoppable(identity)
	c.t.Cleanup(stop)
	return r
}

// stoppable runs a replica until it is told to stop, which it does in good order.
func (c *cluster) stoppable(identity string) (*report.Reporter, func()) {
	r := c.reporter(identity, c.kube)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("run %s: %v", identity, err)
		}
	}
}

// mortal runs a replica that can crash: then nothing that it does arrives any more.
func (c *cluster) mortal(identity string) (*report.Reporter, func()) {
	var dead atomic.Bool
	kube := kubefake.NewClientset()
	kube.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if dead.Load() {
			return true, nil, errors.New("no such process")
		}
		object, err := c.kube.Invokes(a, nil)
		return true, object, err
	})
	r := c.reporter(identity, kube)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return r, func() { dead.Store(true) }
}

func (c *cluster) reporter(identity string, kube *kubefake.Clientset) *report.Reporter {
	var lead func(context.Context)
	if c.lead != nil {
		lead = func(ctx context.Context) { c.lead(ctx, identity) }
	}
	return report.New(c.policies, kube, report.Options{
		Identity: identity, Namespace: "usher", Log: slog.New(slog.NewJSONHandler(c.log, nil)), Verify: c.verify, Lead: lead, Candidates: c.candidates,
		Failing: func() []rule.Failure {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.Clone(c.failing[identity])
		},
	})
}

// read returns the status of a policy.
func (c *cluster) read(name string) v1alpha1.PolicyStatus {
	c.t.Helper()
	object, err := c.policies.Tracker().Get(c.resource, "", name)
	if err != nil {
		c.t.Fatal(err)
	}
	var policy v1alpha1.ClusterOverridePolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, &policy); err != nil {
		c.t.Fatal(err)
	}
	return policy.Status
}

// status is the status of a policy in lines.
func (c *cluster) status(name string) []string {
	c.t.Helper()
	status := c.read(name)
	var lines []string
	for _, condition := range status.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s %d: %s",
			condition.Type, condition.Status, condition.Reason, condition.ObservedGeneration, condition.Message))
	}
	for _, p := range status.Problems {
		lines = append(lines, strings.Join(strings.Fields(strings.Join([]string{p.Severity, p.Field, p.What, p.Do}, " ")), " "))
	}
	if status.LastError != "" {
		lines = append(lines, "last error "+status.LastError)
	}
	return lines
}

func (c *cluster) wantEnforced(name, want string) {
	c.t.Helper()
	condition := meta.FindStatusCondition(c.read(name).Conditions, v1alpha1.ConditionEnforced)
	if condition == nil {
		c.t.Errorf("%s has no condition Enforced, want %s", name, want)
		return
	}
	if got := fmt.Sprintf("%s %s %d", condition.Status, condition.Reason, condition.ObservedGeneration); got != want {
		c.t.Errorf("%s: Enforced is %s, want %s", name, got, want)
	}
}

func (c *cluster) transition(name, kind string) time.Time {
	c.t.Helper()
	return meta.FindStatusCondition(c.read(name).Conditions, kind).LastTransitionTime.Time
}

func (c *cluster) leaseNames() []string {
	c.t.Helper()
	list, err := c.kube.CoordinationV1().Leases("usher").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, lease := range list.Items {
		names = append(names, lease.Name)
	}
	slices.Sort(names)
	return names
}

// patches counts the attempts to write status.
func (c *cluster) patches() int {
	n := 0
	for _, action := range c.policies.Actions() {
		if action.GetVerb() == "patch" && action.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// calls counts the requests for Leases.
func (c *cluster) calls() map[string]int {
	calls := map[string]int{}
	for _, action := range c.kube.Actions() {
		calls[action.GetVerb()+" "+action.GetResource().Resource]++
	}
	return calls
}

func (c *cluster) clear() {
	c.policies.ClearActions()
	c.kube.ClearActions()
}

// A recorder keeps the messages of log records.
type recorder struct {
	mu       sync.Mutex
	messages []string
}

func (r *recorder) Write(line []byte) (int, error) {
	var record struct{ Msg string }
	if err := json.Unmarshal(bytes.TrimSpace(line), &record); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, record.Msg)
	return len(line), nil
}

func (r *recorder) count(message string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.messages {
		if strings.HasPrefix(m, message) {
			n++
		}
	}
	return n
}
