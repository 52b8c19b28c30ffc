package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	usherdev "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/auditlog"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/sandbox"
)

// comparedPolicies are what the session is compared with: validations that read objects, old objects, users
// and subresources, and a mutation.
const comparedPolicies = `
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: owners}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]},
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: keep}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [configmaps]}]},
  validations: [{expression: "!('keep' in oldObject.metadata.?labels.orValue({}))"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: few}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}]},
  validations: [{expression: "object.spec.replicas <= 2"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: grows}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]},
  validations: [{expression: "object.spec.replicas >= oldObject.spec.replicas"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: selectors}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [services]}]},
  validations: [{expression: "object.spec.?selector == oldObject.spec.?selector"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: pull}, spec: {podTemplates: "Off",
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
  validations: [{expression: "object.spec.containers.all(c, c.imagePullPolicy == 'Always')"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: evictions}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/eviction]}]},
  validations: [{expression: "request.userInfo.username.endsWith('0')"}]}}
---
{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: shells}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]},
  validations: [{expression: "object.container == 'c'"}]}}
`

// A step is a request of a session.
type step func(ctx context.Context, kube kubernetes.Interface, namespace string) error

// session returns the requests of a session, in order, twelve a round. Each is sent by a user of its own.
func session(rounds int) []step {
	var steps []step
	add := func(s step) { steps = append(steps, s) }
	for i := range rounds {
		name := fmt.Sprintf("s-%d", i)
		labels := map[string]string{}
		if i%2 == 0 {
			labels["owner"] = "a"
		}
		if i%3 == 0 {
			labels["keep"] = "true"
		}
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			_, err := kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
			return err
		})
		add(patches("configmaps", name, types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{"owner":%s}}}`, []string{`"b"`, "null"}[i/2%2])))
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			o, err := kube.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			// It does not depend on the patch before, which may be denied.
			o.Labels = map[string]string{}
			if i%3 == 0 {
				o.Labels["keep"] = "true"
			}
			if i%4 < 2 {
				o.Labels["owner"] = "c"
			}
			_, err = kube.CoreV1().ConfigMaps(ns).Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
		add(patches("services", name, types.ApplyPatchType, fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"selector":{"app":"a"},"ports":[{"port":80}]}}`, name)))
		add(patches("services", name, types.MergePatchType, fmt.Sprintf(`{"spec":{"selector":{"app":%q}}}`, []string{"a", "b"}[i%2])))
		// All are created: what is denied later would not follow from the request alone.
		add(patches("deployments", name, types.ApplyPatchType, deployed(name, i%3)))
		add(patches("deployments", name, types.ApplyPatchType, deployed(name, i%4)))
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			_, err := kube.AppsV1().Deployments(ns).UpdateScale(ctx, name, &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}, Spec: autoscalingv1.ScaleSpec{Replicas: int32(i % 5)},
			}, metav1.UpdateOptions{})
			return err
		})
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			image := []string{"registry.example/a:1", "registry.example/a:latest"}[i%2]
			_, err := kube.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}, metav1.CreateOptions{})
			return err
		})
		// There is no container to connect to: what the log says of it is nothing.
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			return kube.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(name).SubResource("exec").Param("command", "sh").Do(ctx).Error()
		})
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			return kube.CoreV1().Pods(ns).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}})
		})
		add(func(ctx context.Context, kube kubernetes.Interface, ns string) error {
			return kube.CoreV1().ConfigMaps(ns).Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
	return steps
}

func deployed(name string, replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"a"}},`+
		`"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"registry.example/a:1"}]}}}}`, name, replicas)
}

func patches(resource, name string, patch types.PatchType, body string) step {
	return func(ctx context.Context, kube kubernetes.Interface, ns string) error {
		client := kube.CoreV1().RESTClient()
		if resource == "deployments" {
			client = kube.AppsV1().RESTClient()
		}
		r := client.Patch(patch).Namespace(ns).Resource(resource).Name(name).Body([]byte(body))
		if patch == types.ApplyPatchType {
			r = r.Param("fieldManager", "session").Param("force", "true")
		}
		return r.Do(ctx).Error()
	}
}

// send sends the requests to a namespace, each by its user, and returns their errors.
func (r *rig) send(t *testing.T, steps []step, namespace string) []error {
	t.Helper()
	errs := make([]error, len(steps))
	for i, s := range steps {
		config := rest.CopyConfig(r.RESTConfig)
		config.Impersonate = rest.ImpersonationConfig{UserName: senderOf(i), Groups: []string{"system:masters"}}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		errs[i] = s(testContext(t), kube, namespace)
	}
	return errs
}

func senderOf(i int) string { return fmt.Sprintf("sender-%d", i) }

func refusedByAdmission(err error) bool {
	return err != nil && strings.Contains(err.Error(), "denied the request")
}

// TestImpactOfAnAuditLog sends a session to an API server without policies, and again with policies in force: what
// usher impact says of the first, from the audit log, is what happens to the second, unless it says that it does
// not know. A mutation is never known from what was admitted. With -whole it is 500 requests.
func TestImpactOfAnAuditLog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.log")
	policy := writeFile(t, "audit.yaml", `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete"]}, {"level": "None"}]}`)
	r := newRig(t, sandbox.Options{Exclusive: true, APIServerArgs: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--disable-admission-plugins=ServiceAccount"}})
	rounds := 12
	if *whole {
		rounds = 42
	}
	steps := session(rounds)
	before := r.send(t, steps, r.Namespace(t))
	said := r.impact(t, log, len(steps))

	process := r.launch(t, r.Kubeconfig)
	if err := process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := process.WaitRegistered(testContext(t), r.RESTConfig); err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(comparedPolicies, "---") {
		r.enforce(t, parse(t, "%s", text))
	}
	r.awaitAll(t)
	after := r.send(t, steps, r.Namespace(t))
	counts := map[string]int{}
	for i := range steps {
		was, is := refusedByAdmission(before[i]), refusedByAdmission(after[i])
		if was || before[i] == nil && after[i] != nil && !is || before[i] != nil {
			// It depends on an earlier request that was denied meanwhile.
			counts["not comparable"]++
			continue
		}
		counts[said[i]]++
		switch said[i] {
		case "unknown":
		case "denied", "failing":
			if !is {
				t.Errorf("request %d: denied was said, and it is allowed", i)
			}
		default:
			if is {
				t.Errorf("request %d: %q was said, and it is denied: %v", i, said[i], after[i])
			}
		}
	}
	t.Logf("%d requests: %v", len(steps), counts)
	if counts["denied"] < 20 || counts[""] < 30 || counts["unknown"] > len(steps)/4 {
		t.Errorf("the session shows too little: %v", counts)
	}
}

// awaitAll waits until a policy of each resource decides.
func (r *rig) awaitAll(t *testing.T) {
	t.Helper()
	namespace := r.Namespace(t)
	eventually(t, "policies decide", func() error {
		for _, s := range []step{
			func(ctx context.Context, kube kubernetes.Interface, ns string) error {
				_, err := kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{})
				return err
			},
			patches("deployments", "x", types.ApplyPatchType, deployed("x", 9)),
			func(ctx context.Context, kube kubernetes.Interface, ns string) error {
				_, err := kube.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}}}, metav1.CreateOptions{})
				return err
			},
		} {
			if err := s(testContext(t), r.kube, namespace); !refusedByAdmission(err) {
				return fmt.Errorf("not denied: %v", err)
			}
		}
		return nil
	})
}

// impact returns what the comparison of no policies with some says of each request of the session.
func (r *rig) impact(t *testing.T, log string, requests int) []string {
	t.Helper()
	var compiled []compile.Compiled
	for text := range strings.SplitSeq(comparedPolicies, "---") {
		raw, err := parse(t, "%s", text).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		policy, err := api.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		c := compile.Policy(policy)
		if len(c.Problems) > 0 {
			t.Fatal(c.Problems)
		}
		compiled = append(compiled, c)
	}
	side := func(all ...compile.Compiled) impact.Side {
		rules := compile.Order(all)
		return impact.Side{Decider: engine.New(index.New(rules), fact.Resolvers{fact.Objects: object.FromTrees(nil)}, engine.Options{FailurePolicy: usherdev.Fail}), Rules: rules}
	}
	both := impact.New(side(), side(compiled...))
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	said := make([]string, requests)
	heard := map[string]bool{}
	err = auditlog.New().Read(t.Context(), bytes.NewReader(text), log, func(e auditlog.Entry) error {
		write := e.Subject.Request
		if write == nil || !strings.HasPrefix(write.User.Name, "sender-") {
			return nil
		}
		var i int
		if _, err := fmt.Sscanf(write.User.Name, "sender-%d", &i); err != nil {
			return err
		}
		heard[write.User.Name] = true
		differences, _, err := both.Compare(t.Context(), e.Subject)
		if len(differences) > 0 {
			said[i] = string(differences[0].Kind)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(heard) < requests*3/4 {
		t.Errorf("the log has %d writes of %d requests", len(heard), requests)
	}
	return said
}
