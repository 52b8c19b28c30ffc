package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

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
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/serve"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

var (
	overrides  = v1alpha1.GroupVersion.WithResource("clusteroverridepolicies")
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// A fakeCluster is an API server that keeps what it is given.
type fakeCluster struct {
	kube    *kubefake.Clientset
	objects *dynamicfake.FakeDynamicClient
	config  *serve.Cluster
}

func newFakeCluster() *fakeCluster {
	kinds := map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"}
	for _, kind := range api.Kinds() {
		resource := kind.GroupVersionResource()
		kinds[resource] = kind.Kind + "List"
	}
	for _, versions := range api.ForeignKinds() {
		for _, kind := range versions {
			kinds[kind.GroupVersionResource()] = kind.Kind + "List"
		}
	}
	f := &fakeCluster{
		kube:    kubefake.NewClientset(),
		objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range api.Kinds() {
		mapper.Add(kind.GroupVersionKind, meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Pod", "ConfigMap"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	f.config = &serve.Cluster{
		Clients: &clients.Set{
			Server: "https://fake", Kube: f.kube, Access: f.kube, Policies: f.objects, Facts: f.objects, Mapper: steady{mapper},
		},
		Namespace: "usher-system", Identity: "one", ManageWebhookConfig: true,
		WebhookConfig: webhookconfig.Options{Service: "usher"},
	}
	return f
}

// A steady mapper knows everything from the start.
type steady struct{ meta.RESTMapper }

func (steady) Reset() {}

func (f *fakeCluster) apply(t *testing.T, resource schema.GroupVersionResource, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetUID(types.UID("uid-of-" + o.GetName()))
	o.SetGeneration(1)
	client := f.objects.Resource(resource).Namespace(o.GetNamespace())
	if _, err := client.Create(t.Context(), o, metav1.CreateOptions{}); err == nil {
		return
	}
	o.SetGeneration(2)
	if _, err := client.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// mutating tells what API servers ask.
func (f *fakeCluster) mutating(t *testing.T) (resources []string, caBundle string) {
	t.Helper()
	got, err := f.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "usher", metav1.GetOptions{})
	if err != nil {
		return nil, ""
	}
	for _, r := range got.Webhooks[0].Rules {
		resources = append(resources, r.Resources...)
	}
	return resources, string(got.Webhooks[0].ClientConfig.CABundle)
}

// path is where the webhook of a phase is, by the key in the Secret; empty before there is
// one.
func (f *fakeCluster) path(t *testing.T, phase string) string {
	t.Helper()
	secret, err := f.kube.CoreV1().Secrets("usher-system").Get(t.Context(), paths.DefaultSecret, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	key, err := keyring.KeyOf(secret.Data["current"])
	if err != nil {
		t.Fatal(err)
	}
	return paths.Of(key, phase)
}

// join starts a server that takes part in the cluster, and waits until API servers are told
// to send pods. What the harness posts goes where they send it.
func (f *fakeCluster) join(t *testing.T, c serve.Config) *harness {
	t.Helper()
	c.Cluster = f.config
	h := startAt(t, slog.LevelDebug, c)
	h.eventually("API servers send pods", func() bool {
		resources, _ := f.mutating(t)
		return strings.Contains(strings.Join(resources, " "), "pods")
	})
	h.mutate = f.path(t, "mutate")
	return h
}

func (f *fakeCluster) leases(t *testing.T) map[string]string {
	t.Helper()
	list, err := f.kube.CoordinationV1().Leases("usher-system").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]string{}
	for _, lease := range list.Items {
		holders[lease.Name] = ""
		if lease.Spec.HolderIdentity != nil {
			holders[lease.Name] = *lease.Spec.HolderIdentity
		}
	}
	return holders
}

func TestServeTakesPartInACluster(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	h := f.join(t, serve.Config{})
	review := read(t, reviews+"v1-create-pods.json")
	h.eventually("the policy of the cluster is in force", func() bool { return strings.Contains(h.patch(review), `"one"`) })
	h.eventually("API servers send pods", func() bool {
		resources, ca := f.mutating(t)
		return strings.Contains(strings.Join(resources, " "), "pods") && ca == string(read(t, h.server.CAFile()))
	})
	h.eventually("the status says so", func() bool {
		o, err := f.objects.Resource(overrides).Get(t.Context(), "label", metav1.GetOptions{})
		if err != nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return len(conditions) == 2
	})
	f.apply(t, overrides, label("two"))
	h.eventually("the edit is in force", func() bool { return strings.Contains(h.patch(review), `"two"`) })

	verbose := h.get("/readyz?verbose")
	for _, want := range []string{
		"ok\n", "cluster: https://fake, as replica one, in namespace usher-system\n", "policies of the cluster: last heard ",
		"policy proofs: by key ", "policies: 0 proven, 0 from before proofs, 0 unproven",
		"registration usher: as the policies need it, since ", "ClusterOverridePolicy: 1\n",
	} {
		if !strings.Contains(verbose, want) {
			t.Errorf("/readyz?verbose has no %q:\n%s", want, verbose)
		}
	}
	for _, want := range []string{"usher_registered 1", "usher_source_staleness_seconds ", "usher_snapshot_age_seconds "} {
		if got := h.metrics(); !strings.Contains(got, want) {
			t.Errorf("metrics have no %s:\n%s", want, got)
		}
	}
	h.stop()
	if got := f.leases(t); len(got) != 2 || got["usher-leader"] != "" || got["usher-proofs"] != "" {
		t.Errorf("after the end there are the leases %v, want a leader's and that of proofs, which nobody holds", got)
	}
}

func TestServeReadsFactsFromTheCluster(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, configMaps, "{apiVersion: v1, kind: ConfigMap, metadata: {name: site, namespace: shop}, data: {site: berlin}}")
	f.apply(t, overrides, factPolicy)
	f.config.Watch = []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}
	h := f.join(t, serve.Config{})
	h.eventually("the fact is in the patch", func() bool {
		return strings.Contains(h.patch(read(t, reviews+"v1-create-pods.json")), "berlin")
	})
	h.eventually("the kind is watched", func() bool {
		return strings.Contains(h.get("/readyz?verbose"), "kinds watched for facts: 1\n  v1 ConfigMap: 1 objects\n")
	})
	h.stop()
}

func TestFilesComeBeforeTheCluster(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("cluster"))
	policies := t.TempDir()
	write(t, filepath.Join(policies, "label.yaml"), label("file"))
	f.config.ManageWebhookConfig = false
	h := start(t, serve.Config{Cluster: f.config, Policies: []string{policies}})
	h.eventually("the policy of the file is in force", func() bool {
		return strings.Contains(h.patch(read(t, reviews+"v1-create-pods.json")), `"file"`)
	})
	verbose := h.get("/readyz?verbose")
	for _, want := range []string{"registration: left to others\n", "problems: 1\n"} {
		if !strings.Contains(verbose, want) {
			t.Errorf("/readyz?verbose has no %q:\n%s", want, verbose)
		}
	}
	h.stop()
	if resources, _ := f.mutating(t); resources != nil {
		t.Errorf("API servers send %v although nobody asked to register", resources)
	}
}

func TestServeIsNotReadyBeforeThereArePolicies(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	var away atomic.Bool
	away.Store(true)
	f.objects.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if away.Load() {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	h := start(t, serve.Config{Cluster: f.config})
	h.eventually("the reason is shown", func() bool {
		got := h.get("/readyz?verbose")
		return strings.Contains(got, "not ready: ") && strings.Contains(got, "connection refused") && strings.Contains(got, "not made yet")
	})
	body, response := h.post(f.path(t, "mutate"), read(t, reviews+"v1-create-pods.json"))
	if response == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
		t.Errorf("answered %v: %s, want to be asked again", response, body)
	}
	if resources, _ := f.mutating(t); resources != nil {
		t.Errorf("registered for %v without policies", resources)
	}
	away.Store(false)
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	h.stop()
}

func TestReplicasShareACertificate(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.config.CertSecret = "usher-cert"
	var ca []byte
	for _, identity := range []string{"one", "two"} {
		config := *f.config
		config.Identity = identity
		server, err := serve.New(t.Context(), serve.Config{Cluster: &config})
		if err != nil {
			t.Fatal(err)
		}
		if server.CAFile() != "" {
			t.Error("the CA is in a file, too, which would not be renewed")
		}
		secret, err := f.kube.CoreV1().Secrets("usher-system").Get(t.Context(), "usher-cert", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if ca != nil && string(ca) != string(secret.Data["ca.crt"]) {
			t.Error("the second replica has a CA of its own")
		}
		ca = secret.Data["ca.crt"]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := server.Run(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestTheCertificateWaitsForTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		err    error
		waits  bool
	}{
		{"it does not answer", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		{"it ends in the middle of an answer", fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", io.ErrUnexpectedEOF), true},
		{"it has too much to do", apierrors.NewTooManyRequestsError("later"), true},
		{"it is starting", apierrors.NewServiceUnavailable("etcd"), true},
		{"it says no", apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "usher-cert", errors.New("no")), false},
		{"there is no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "usher-system"), false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			f := newFakeCluster()
			f.config.CertSecret = "usher-cert"
			f.kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, row.err })
			ctx, cancel := context.WithCancel(t.Context())
			var log lockedBuffer
			waits := make(chan struct{}, 1)
			ended := make(chan error, 1)
			go func() {
				_, err := serve.New(ctx, serve.Config{Cluster: f.config, Log: slog.New(slog.NewTextHandler(io.MultiWriter(&log, teller(waits)), nil))})
				ended <- err
			}()
			if row.waits {
				receive(t, waits)
				cancel()
			}
			if err := receive(t, ended); !errors.Is(err, row.err) {
				t.Errorf("error is %v, want %v", err, row.err)
			}
			cancel()
			if strings.Contains(log.String(), "does not answer yet") != row.waits {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

// A teller is a writer that tells when something is written.
type teller chan<- struct{}

func (c teller) Write(p []byte) (int, error) {
	select {
	case c <- struct{}{}:
	default:
	}
	return len(p), nil
}

const factPolicy = `apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata:
  name: site
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod}
  overrideRules:
  - overriders:
      template:
        type: annotations
        operation: add
        path: site
        valueRef:
          from: k8s
          path: /data/site
          k8s: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: site}
`
