package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/port"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

var besieged = flag.Duration("besieged", 15*time.Second, "how long honest requests are sent beside a tenant with the worst policies; from a minute on, their latency is compared with that of requests alone")

const (
	hostileTenant = "team-a"
	honestTenant  = "team-b"
)

// A tenancy is a cluster with two tenants: mallory writes policies and ConfigMaps in one namespace, and zoe
// in another. Alice has no rights on policies, and creates ConfigMaps in both.
type tenancy struct {
	*rig
	mallory, zoe, alice *rig
	worst               []worst
	// access is the address of usher's webhooks for authorization.
	access string
	limits limits
}

// limits are those of the chart for a container of usher.
type limits struct {
	GoMemLimit string `json:"goMemLimit"`
	Resources  struct {
		Limits struct {
			Memory resource.Quantity `json:"memory"`
		} `json:"limits"`
	} `json:"resources"`
}

func chartLimits(t *testing.T) (l limits) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "helm", "usher", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	if l.GoMemLimit == "" || l.Resources.Limits.Memory.IsZero() {
		t.Fatalf("the chart has no limits of memory: %+v", l)
	}
	return l
}

// newTenancy has everybody's rights and policies in a cluster where no usher has ever been.
func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	c := &tenancy{rig: newRig(t, sandbox.Options{Exclusive: true}), worst: worstPolicies(t, hostileTenant), limits: chartLimits(t)}
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	c.access = "127.0.0.1:" + free
	for user, namespace := range map[string]string{"mallory": hostileTenant, "zoe": honestTenant} {
		_, err := c.kube.CoreV1().Namespaces().Create(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.grant(t, user, namespace, `[
			{apiGroups: [policy.kcloudlabs.io, usher.dev], resources: [overridepolicies, objectpolicies, authorizationpolicies], verbs: ['*']},
			{apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}]`)
	}
	c.grant(t, "alice", "", "[{apiGroups: [''], resources: [configmaps], verbs: [create]}]")
	c.mallory, c.zoe, c.alice = c.as(t, "mallory"), c.as(t, "zoe"), c.as(t, "alice")
	eventually(t, "the rights of all", func() error {
		for _, user := range []*rig{c.mallory, c.alice} {
			if _, err := user.try(testContext(t), configMap(t, hostileTenant, "tried")); err != nil {
				return err
			}
		}
		_, err := c.zoe.try(testContext(t), configMap(t, honestTenant, "tried"))
		return err
	})
	c.keep(t)
	for _, policy := range honestPolicies(t) {
		prove(t, policy)
		if _, err := c.apply(testContext(t), policy); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// proofKey is that of the proofs: policies of namespaces are not in force without one, and what was stored by
// an usher of an earlier version, which refused less, has one.
const proofKey = "a key that has 32 bytes, for tests"

// keep keeps the key for the ushers to come.
func (c *tenancy) keep(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: usher.Namespace}}
	if _, err := c.kube.CoreV1().Namespaces().Create(testContext(t), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: proof.DefaultSecret, Labels: map[string]string{"app.kubernetes.io/managed-by": "usher"}}, Data: map[string][]byte{"current": []byte(proofKey[:keyring.KeySize])}}
	if _, err := c.kube.CoreV1().Secrets(usher.Namespace).Create(testContext(t), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// prove gives a policy its proof.
func prove(t *testing.T, policy *unstructured.Unstructured) {
	t.Helper()
	text, err := policy.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := api.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyring.KeyOf([]byte(proofKey[:keyring.KeySize]))
	if err != nil {
		t.Fatal(err)
	}
	proven, err := proof.Make(key, decoded.Object)
	if err != nil {
		t.Fatal(err)
	}
	annotations := policy.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[proof.Annotation] = proven
	policy.SetAnnotations(annotations)
}

// honestPolicies are what everybody else counts on: objects of the honest tenant get a stamp, have a key, and
// are not called forbidden.
func honestPolicies(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return []*unstructured.Unstructured{
		labelling(t, "stamp", honestTenant, "honest"),
		parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: keys}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.namespace != '%s' || has(object.data) && object.data.all(k, object.data[k].size() > 0)", message: keys have values}]
`, honestTenant),
		honestPolicy(t, "names"),
	}
}

// honestPolicy is one that the honest tenant writes.
func honestPolicy(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: %s, namespace: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "!object.metadata.name.startsWith('forbidden')", message: a name is forbidden}]
`, name, honestTenant)
}

// store has mallory write the policies while no usher could refuse them.
func (c *tenancy) store(t *testing.T) {
	t.Helper()
	for _, w := range c.worst {
		prove(t, w.policy)
		if _, err := c.mallory.apply(testContext(t), w.policy); err != nil {
			t.Fatalf("store %s: %v", w.policy.GetName(), err)
		}
	}
}

// start starts usher as the chart does, and returns how long it takes until it is ready.
func (c *tenancy) start(t *testing.T, args ...string) time.Duration {
	t.Helper()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.process = c.run(t, usher.Config{
		Binary: binary, Kubeconfig: c.Kubeconfig, Env: []string{"GOMEMLIMIT=" + c.limits.GoMemLimit},
		Args: append([]string{"--authorization-address", c.access, "--authorization-anonymous"}, args...),
	})
	if err := c.process.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	ready := time.Since(began)
	if err := c.process.WaitRegistered(testContext(t), c.RESTConfig); err != nil {
		t.Fatal(err)
	}
	return ready
}

// honest checks that the honest policies are in force.
func (c *tenancy) honest(ctx context.Context, t *testing.T) error {
	t.Helper()
	created, err := c.zoe.try(ctx, configMap(t, honestTenant, "tried"))
	if err != nil {
		return err
	}
	if err := stamped(created, "honest"); err != nil {
		return err
	}
	_, err = c.zoe.try(ctx, configMap(t, honestTenant, "forbidden"))
	if err := wantDenied(err, "a name is forbidden"); err != nil {
		return err
	}
	empty := configMap(t, honestTenant, "tried")
	empty.Object["data"] = map[string]any{"key": ""}
	_, err = c.zoe.try(ctx, empty)
	return wantDenied(err, "keys have values")
}

// TestTheWorstPoliciesOfATenant has requests of everybody else decided while a tenant has the worst policies,
// and sends an object to each of them every second. None is lost or decided otherwise, and the memory of
// usher and its workers stays within the limit of the chart.
//
//	go test ./e2e -run TestTheWorstPoliciesOfATenant -v -args -besieged 1m
func TestTheWorstPoliciesOfATenant(t *testing.T) {
	c := newTenancy(t)
	c.store(t)
	ready := c.start(t)
	force := eventually(t, "honest policies in force", func() error { return c.honest(testContext(t), t) })
	t.Logf("with %d stored policies ready after %v, honest policies in force %v later", len(c.worst), ready.Round(time.Millisecond), force.Round(time.Millisecond))
	if err := c.mallory.dryRunsBeside(t, c); err != nil {
		t.Error(err)
	}
	c.siege(t)
	if err := c.honest(testContext(t), t); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// dryRunsBeside has mallory try every third of her policies again, and all in a siege of a minute, while zoe tries one of
// hers. All are stored and besieged in any case; most take all the time that a trial has.
func (r *rig) dryRunsBeside(t *testing.T, c *tenancy) error {
	t.Helper()
	alone, err := c.zoeWrites(t)
	if err != nil {
		return fmt.Errorf("a policy alone: %w", err)
	}
	var slowest time.Duration
	tried, accepted, worst := 0, 0, ""
	for i, w := range c.worst {
		if i%3 != 0 && *besieged < time.Minute {
			continue
		}
		tried++
		changed := w.policy.DeepCopy()
		// What was compiled before is remembered.
		changed.SetName("new-" + changed.GetName())
		ended := make(chan error, 1)
		go func() {
			_, err := r.try(testContext(t), changed)
			ended <- err
		}()
		took, err := c.zoeWrites(t)
		if err != nil {
			return fmt.Errorf("a policy while mallory tries %s: %w", w.policy.GetName(), err)
		}
		if took > slowest {
			slowest, worst = took, w.policy.GetName()
		}
		if err := <-ended; err == nil {
			accepted++
		} else if _, denied := denial(err); !denied {
			return fmt.Errorf("mallory tries %s: %w", w.policy.GetName(), err)
		}
	}
	t.Logf("a dry run of an honest policy takes %v alone, at most %v beside one of mallory's (%s), of which %d of %d are accepted",
		alone.Round(time.Millisecond), slowest.Round(time.Millisecond), worst, accepted, tried)
	return nil
}

// zoeWrites has zoe try a policy that usher has not seen before.
func (c *tenancy) zoeWrites(t *testing.T) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	_, err := c.zoe.try(testContext(t), honestPolicy(t, fmt.Sprint("new-", began.UnixNano())))
	if err != nil && strings.Contains(err.Error(), "(wait, or try again)") {
		// The machine was busy for the whole timeout of the request. She does as she is told, once.
		_, err = c.zoe.try(testContext(t), honestPolicy(t, fmt.Sprint("new-", began.UnixNano())))
	}
	return time.Since(began), err
}
