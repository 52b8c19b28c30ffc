package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/pki"
)

// A recorder sends and awaits requests.
type recorder struct {
	*rig
	witness *witness
	// texts are put in place of others in seeds.
	texts *strings.Replacer
}

func (r *recorder) endpoint(t *testing.T, at string) (schema.GroupVersionResource, string) {
	t.Helper()
	words := strings.Split(at, "/")
	gvr := schema.GroupVersionResource{}
	if words[0] != "v1" {
		gvr.Group, words = words[0], words[1:]
	}
	gvr.Version, gvr.Resource = words[0], words[1]
	return gvr, strings.Join(words[2:], "/")
}

func (r *recorder) client(s *seed) dynamic.Interface {
	config := rest.CopyConfig(r.RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: s.User, Groups: s.Groups}
	return dynamic.NewForConfigOrDie(config)
}

// typed returns an object of a seed with its kind.
func (r *recorder) typed(t *testing.T, object map[string]any, gvr schema.GroupVersionResource, sub string) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal([]byte(r.texts.Replace(string(text))), &u.Object); err != nil {
		t.Fatal(err)
	}
	// Objects are deleted in the rows only: controllers of the cluster would be faster than the request.
	u.SetDeletionTimestamp(nil)
	u.SetDeletionGracePeriodSeconds(nil)
	switch sub {
	case "eviction":
		u.SetAPIVersion("policy/v1")
		u.SetKind("Eviction")
	case "binding":
		u.SetAPIVersion("v1")
		u.SetKind("Binding")
	case "token":
		u.SetAPIVersion("authentication.k8s.io/v1")
		u.SetKind("TokenRequest")
	default:
		eventually(t, "the kind of "+gvr.String()+" is served", func() error {
			gvk, err := r.mapper.KindFor(gvr)
			if err != nil {
				r.mapper.Reset()
				return err
			}
			u.SetGroupVersionKind(gvk)
			return nil
		})
	}
	return u
}

func (r *recorder) at(client dynamic.Interface, gvr schema.GroupVersionResource, object *unstructured.Unstructured) dynamic.ResourceInterface {
	if namespace := object.GetNamespace(); namespace != "" {
		return client.Resource(gvr).Namespace(namespace)
	}
	return client.Resource(gvr)
}

// there makes an object, unless it is there.
func (r *recorder) there(t *testing.T, object map[string]any, gvr schema.GroupVersionResource) {
	t.Helper()
	u := r.typed(t, object, gvr, "")
	if len(object) == 1 && (strings.HasPrefix(u.GetName(), "system") || u.GetKind() == "Deployment" || u.GetKind() == "APIService" || u.GetKind() == "CustomResourceDefinition") {
		eventually(t, u.GetKind()+" "+u.GetName()+" is there", func() error {
			_, err := r.at(r.dynamic, gvr, u).Get(context.Background(), u.GetName(), metav1.GetOptions{})
			return err
		})
		return
	}
	eventually(t, "make "+u.GetKind()+" "+u.GetName(), func() error {
		_, err := r.at(r.dynamic, gvr, u).Create(context.Background(), u, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// send sends the request of a seed as its user, as a dry run.
func (r *recorder) send(t *testing.T, s *seed) error {
	t.Helper()
	gvr, sub := r.endpoint(t, s.At)
	client, ctx, dry := r.client(s), testContext(t), []string{metav1.DryRunAll}
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	if s.On != nil {
		r.there(t, s.On, gvr)
	} else if s.Do != "CREATE" {
		r.there(t, s.Object, gvr)
	}
	var err error
	switch s.Do {
	case "CREATE":
		object := r.typed(t, s.Object, gvr, sub)
		if s.On != nil {
			on := unstructured.Unstructured{Object: s.On}
			object.SetName(on.GetName())
			object.SetNamespace(on.GetNamespace())
		}
		_, err = r.at(client, gvr, object).Create(ctx, object, metav1.CreateOptions{DryRun: dry}, subs...)
	case "UPDATE":
		object := r.typed(t, s.Object, gvr, "")
		text, _ := json.Marshal(s.Change)
		if sub == "finalize" {
			// It is replaced only.
			_ = json.Unmarshal(text, &object.Object)
			_, err = r.at(client, gvr, object).Update(ctx, object, metav1.UpdateOptions{DryRun: dry}, subs...)
			break
		}
		_, err = r.at(client, gvr, object).Patch(ctx, object.GetName(), types.MergePatchType, []byte(r.texts.Replace(string(text))), metav1.PatchOptions{DryRun: dry}, subs...)
	case "DELETE":
		object := r.typed(t, s.Object, gvr, "")
		err = r.at(client, gvr, object).Delete(ctx, object.GetName(), metav1.DeleteOptions{DryRun: dry})
	case "CONNECT":
		config := rest.CopyConfig(r.RESTConfig)
		config.Impersonate = rest.ImpersonationConfig{UserName: s.User, Groups: s.Groups}
		on := unstructured.Unstructured{Object: s.On}
		_ = kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().Namespace(on.GetNamespace()).Resource("pods").Name(on.GetName()).
			SubResource(sub).Param("command", "sh").Param("stdin", "true").Do(ctx).Error()
	}
	return err
}

// prepare makes what the requests are about.
func (r *recorder) prepare(t *testing.T, all *seeds) {
	t.Helper()
	ctx := testContext(t)
	for _, name := range all.Namespaces {
		_, err := r.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	objects := all.Before
	for _, w := range all.Workloads {
		for _, object := range w.Objects {
			account, _, _ := unstructured.NestedString(object, "spec", "template", "spec", "serviceAccountName")
			if account != "" {
				namespace := (&unstructured.Unstructured{Object: object}).GetNamespace()
				_, err := r.kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatal(err)
				}
			}
			objects = append(objects, object)
		}
	}
	for _, object := range objects {
		u := &unstructured.Unstructured{Object: object}
		eventually(t, "make "+u.GetKind()+" "+u.GetName(), func() error {
			_, err := r.apply(ctx, u)
			return err
		})
	}
	node, err := r.kube.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request, certificate := pems(t)
	r.texts = strings.NewReplacer(nobody, string(node.UID), `"CSR"`, `"`+request+`"`, `"CERTIFICATE"`, `"`+certificate+`"`)
}

const nobody = "00000000-0000-4000-8000-000000000000"

// pems returns a certificate request and a certificate, in base64.
func pems(t *testing.T) (request, certificate string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:node-1", Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Client("system:node:node-1")
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), base64.StdEncoding.EncodeToString(pair.Cert)
}

var (
	uids      = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"`)
	instants  = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
	mounts    = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	addresses = regexp.MustCompile(`"10\.0\.0\.\d+"`)
	longTexts = regexp.MustCompile(`"[A-Za-z0-9+/=]{300,}"`)
)

// normal returns an object without what differs from one recording to the next.
func normal(t *testing.T, raw []byte) []byte {
	t.Helper()
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "dryRun")
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "selfLink"} {
			delete(metadata, field)
		}
		name, _ := metadata["name"].(string)
		if prefix, _ := metadata["generateName"].(string); prefix != "" && strings.HasPrefix(name, prefix) {
			metadata["name"] = prefix + "1"
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, text2 := range map[*regexp.Regexp]string{
		uids: `"` + nobody + `"`, instants: `"2026-01-01T00:00:00Z"`, mounts: "kube-api-access-1", addresses: `"10.0.0.10"`, longTexts: `"Q1NS"`,
	} {
		text = pattern.ReplaceAll(text, []byte(text2))
	}
	return text
}

// deleted returns an object as one that is being deleted, if that of the seed is.
func (s *seed) deleted(t *testing.T, object []byte) []byte {
	t.Helper()
	seed := &unstructured.Unstructured{Object: s.Object}
	if object == nil || seed.GetDeletionTimestamp() == nil {
		return object
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(object, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetDeletionTimestamp(seed.GetDeletionTimestamp())
	u.SetDeletionGracePeriodSeconds(seed.GetDeletionGracePeriodSeconds())
	text, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// row returns what is kept of a request.
func row(t *testing.T, s *seed, r *admissionv1.AdmissionRequest) lockout.Request {
	t.Helper()
	kept := lockout.Request{
		Name: s.Name, Group: s.group, What: s.What, Why: s.why, User: r.UserInfo.Username, Groups: r.UserInfo.Groups, Operation: usher.Operation(r.Operation),
		Kind:     strings.TrimPrefix(path.Join(r.Kind.Group, r.Kind.Version, r.Kind.Kind), "/"),
		Resource: path.Join(r.Resource.Group, r.Resource.Version, r.Resource.Resource, r.SubResource), Namespace: r.Namespace, Object: r.Name,
		New: s.deleted(t, normal(t, r.Object.Raw)), Old: s.deleted(t, normal(t, r.OldObject.Raw)), Options: normal(t, r.Options.Raw),
	}
	var object metav1.PartialObjectMetadata
	for _, raw := range [][]byte{kept.New, kept.Old} {
		if object.GenerateName == "" && raw != nil {
			_ = json.Unmarshal(raw, &object)
		}
	}
	kept.New, kept.Object = bytes.ReplaceAll(kept.New, []byte(again), nil), strings.TrimSuffix(kept.Object, again)
	if object.GenerateName != "" && kept.Object != "" {
		kept.Object = object.Name
	}
	return kept
}

// never returns the row of a request that API servers send to no webhook.
func (r *recorder) never(t *testing.T, s *seed) lockout.Request {
	t.Helper()
	gvr, sub := r.endpoint(t, s.At)
	u := r.typed(t, s.Object, gvr, sub)
	kept := lockout.Request{
		Name: s.Name, Group: s.group, What: s.What, Why: s.why, User: s.User, Groups: s.Groups, Operation: usher.Operation(s.Do),
		Kind: u.GetAPIVersion() + "/" + u.GetKind(), Resource: s.At, Object: u.GetName(),
	}
	text, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if s.Do != "CREATE" {
		kept.Old = bytes.TrimSpace(text)
	}
	if s.Do != "DELETE" {
		kept.New = bytes.TrimSpace(text)
	}
	return kept
}

// TestRecordedLockout: the requests without which a cluster cannot recover are those that this
// version of Kubernetes sends.
func TestRecordedLockout(t *testing.T) {
	t.Parallel()
	const file = root + "/internal/trial/lockout/requests.txt"
	text, err := os.ReadFile(root + "/internal/trial/lockout/seeds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all seeds
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	r := &recorder{rig: newRig(t, sandbox.Options{Exclusive: true, Controllers: "core", APIServerArgs: []string{"--authorization-mode=AlwaysAllow,RBAC"}}), witness: &witness{}}
	r.register(t)
	r.prepare(t, &all)
	rows := map[string]lockout.Request{}
	list := all.all()
	var awaited []*seed
	for i := range list {
		s := &list[i]
		gvr, sub := r.endpoint(t, s.At)
		switch {
		case s.Never:
			rows[s.Name] = r.never(t, s)
		case s.Object == nil && s.On == nil:
			awaited = append(awaited, s)
		default:
			err := r.send(t, s)
			if seen := r.witness.find(s, gvr, sub); seen != nil {
				rows[s.Name] = row(t, s, seen)
			} else {
				t.Errorf("%s: the request was not sent to webhooks: %v", s.Name, err)
			}
		}
	}
	r.await(t, awaited, rows, func(s *seed) bool {
		return s.Do == "CREATE" || s.Do == "UPDATE" && !strings.HasPrefix(s.At, "v1/namespaces")
	})
	for _, after := range all.After {
		r.remove(&unstructured.Unstructured{Object: after.Object})
	}
	r.await(t, awaited, rows, func(*seed) bool { return true })
	compareLockout(t, file, list, rows)
}

// register has the API server call the witness.
func (r *recorder) register(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(r.witness)
	t.Cleanup(server.Close)
	every := registrationv1.AllScopes
	ignore, none, exact := registrationv1.Ignore, registrationv1.SideEffectClassNone, registrationv1.Exact
	_, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(testContext(t), &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "witness"},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: "witness.example.org", FailurePolicy: &ignore, SideEffects: &none, MatchPolicy: &exact, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: registrationv1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.OperationAll},
				Rule:       registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}, Scope: &every},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server calls the witness", func() error {
		_, _ = r.kube.CoreV1().ConfigMaps("default").Create(testContext(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "called-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		r.witness.mu.Lock()
		defer r.witness.mu.Unlock()
		if len(r.witness.seen) == 0 {
			return errors.New("not called")
		}
		return nil
	})
}

// await waits for what controllers and the API server send themselves.
func (r *recorder) await(t *testing.T, awaited []*seed, rows map[string]lockout.Request, now func(*seed) bool) {
	t.Helper()
	for _, s := range awaited {
		if _, has := rows[s.Name]; has || !now(s) {
			continue
		}
		gvr, sub := r.endpoint(t, s.At)
		eventually(t, s.Name+": "+s.What, func() error {
			seen := r.witness.find(s, gvr, sub)
			if seen == nil {
				return fmt.Errorf("no %s of %s by %s", s.Do, s.At, s.User)
			}
			rows[s.Name] = row(t, s, seen)
			return nil
		})
	}
}

// compareLockout compares the file with what was recorded: who sends which request, with which
// objects. What is in these differs a little from run to run.
func compareLockout(t *testing.T, file string, list []seed, rows map[string]lockout.Request) {
	t.Helper()
	var recorded []byte
	now := map[string]string{}
	for _, s := range list {
		if kept, ok := rows[s.Name]; ok {
			line, err := kept.Line()
			if err != nil {
				t.Fatal(err)
			}
			now[s.Name] = shape(&kept)
			recorded = append(recorded, line...)
		}
	}
	if os.Getenv("RECORD") != "" {
		if err := os.WriteFile(file, recorded, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	requests, err := lockout.Requests("")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("RECORD") != "" {
		return
	}
	was := map[string]string{}
	for i := range requests {
		was[requests[i].Name] = shape(&requests[i])
	}
	if diff := cmp.Diff(was, now); diff != "" {
		t.Errorf("%s is not what is sent: run make lockout-requests (-file +sent):\n%s", file, diff)
	}
}

// shape is what recordings of a request have in common.
func shape(r *lockout.Request) string {
	return fmt.Sprint(r.Group, r.What, r.Why, r.User, r.Groups, r.Operation, r.Kind, r.Resource, r.Namespace, len(r.New) > 0, len(r.Old) > 0, len(r.Options) > 0)
}
