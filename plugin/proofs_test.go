package plugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/plugin"
)

const stamping = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: OverridePolicy
metadata: {name: %s, namespace: shop, uid: %[1]s}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  overrideRules: [{overriders: {plaintext: [{path: /metadata/labels/%[1]s, op: add, value: "yes"}]}}]
`

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// A server is one that has the plugin, and serves policies.
type server struct {
	t      *testing.T
	plugin admission.Interface
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// serverWith starts a server with stored policies. In it, admin may do everything, and mallory
// write policies.
func serverWith(t *testing.T, config string, stored ...*unstructured.Unstructured) *server {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	for _, kind := range api.Kinds() {
		kinds[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	var objects []runtime.Object
	for _, o := range stored {
		objects = append(objects, o)
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	rights := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "admin" || strings.HasSuffix(a.GetResource(), "policies") && a.GetVerb() != "escalate" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	drained := make(chan struct{})
	t.Cleanup(func() { close(drained) })
	plugins := admission.NewPlugins()
	plugin.Register(plugins)
	made, err := plugins.InitPlugin(plugin.Name, strings.NewReader(header+"fromAPI: true\n"+config),
		initializer.New(nil, client, nil, rights, nil, nil, drained, mapper))
	if err != nil {
		t.Fatal(err)
	}
	return &server{t, made}
}

// create writes an object as the server does, and returns what is stored.
func (s *server) create(name string, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.t.Helper()
	o = o.DeepCopy()
	gvk := o.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	a := admission.NewAttributesRecord(o, nil, gvk, o.GetNamespace(), o.GetName(), resource, "", admission.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{Name: name})
	interfaces := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	if err := s.plugin.(admission.MutationInterface).Admit(s.t.Context(), a, interfaces); err != nil {
		return nil, err
	}
	return o, s.plugin.(admission.ValidationInterface).Validate(s.t.Context(), a, interfaces)
}

func keyFile(t *testing.T, name, fill string) (path string, key keyring.Key) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	content := []byte(strings.Repeat(fill, keyring.KeySize))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := keyring.KeyOf(content)
	if err != nil {
		t.Fatal(err)
	}
	return path, key
}

// TestWritersAreAskedAbout: a server asks its own authorizer what the writer of a policy may do.
func TestWritersAreAskedAbout(t *testing.T) {
	t.Parallel()
	s := serverWith(t, "")
	policy := object(t, fmt.Sprintf(stamping, "a"))
	if _, err := s.create("mallory", policy); err == nil || !strings.Contains(err.Error(), "permission to create and update configmaps") {
		t.Errorf("mallory writes a policy: %v", err)
	}
	stored, err := s.create("admin", policy)
	if err != nil || len(stored.GetAnnotations()) > 0 {
		t.Errorf("admin writes a policy: %v, annotations %v", err, stored.GetAnnotations())
	}
}

// TestPoliciesInTheAPINeedProofs: if the server has keys, what was stored while the plugin was off
// does nothing.
func TestPoliciesInTheAPINeedProofs(t *testing.T) {
	t.Parallel()
	current, key := keyFile(t, "current", "k")
	planted, proven := object(t, fmt.Sprintf(stamping, "planted")), object(t, fmt.Sprintf(stamping, "proven"))
	raw, err := proven.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	text, err := proof.Make(key, decoded.Object)
	if err != nil {
		t.Fatal(err)
	}
	proven.SetAnnotations(map[string]string{proof.Annotation: text})
	s := serverWith(t, fmt.Sprintf("proofKeys: [%q, /nowhere/previous]\n", current), planted, proven)
	object := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop, labels: {}}}`)
	changed, err := s.create("jane", object)
	if err != nil {
		t.Fatal(err)
	}
	if labels := changed.GetLabels(); labels["proven"] != "yes" || labels["planted"] != "" {
		t.Errorf("labels are %v", labels)
	}
	proven.SetAnnotations(nil)
	written, err := s.create("admin", proven)
	if err != nil || written.GetAnnotations()[proof.Annotation] != text {
		t.Errorf("the proof of what admin writes is %v, want %s: %v", written.GetAnnotations(), text, err)
	}
	proven.SetAnnotations(map[string]string{proof.Annotation: text})
	if _, err := s.create("mallory", proven); err == nil || !strings.Contains(err.Error(), "permission to create and update configmaps") {
		t.Errorf("mallory writes a policy with its proof: %v", err)
	}
}

func TestKeysOfProofsAreFiles(t *testing.T) {
	t.Parallel()
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ config, err string }{
		{"fromAPI: true\nproofKeys: [/nowhere]", "read key of policy proofs: open /nowhere"},
		{fmt.Sprintf("fromAPI: true\nproofKeys: [%q]", short), "a key has 32 bytes, and the file has 6"},
		{"policies: [/etc]\nproofKeys: [/nowhere]", "proofKeys are for policies in the API"},
	} {
		if _, err := plugin.New(strings.NewReader(header + test.config)); err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error is %v, want %q", err, test.err)
		}
	}
}

// TestKeysOfProofsAreReadAgain: a rotation needs no restart of a server.
func TestKeysOfProofsAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path, _ := keyFile(t, "current", "k")
		s := serverWith(t, fmt.Sprintf("proofKeys: [%q]\n", path))
		_, next := keyFile(t, "next", "n")
		if err := os.WriteFile(path, []byte(strings.Repeat("n", keyring.KeySize)), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		written, err := s.create("admin", object(t, fmt.Sprintf(stamping, "a")))
		if err != nil || proof.KeyOf(written.GetAnnotations()[proof.Annotation]) != next.Fingerprint() {
			t.Errorf("annotations are %v, want a proof by %s: %v", written.GetAnnotations(), next, err)
		}
		if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := s.create("admin", object(t, fmt.Sprintf(stamping, "b"))); err != nil {
			t.Errorf("with a broken file: %v", err)
		}
	})
}
