package doortest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeadmission "k8s.io/apiserver/pkg/admission"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/scheme"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/internal/door/doortest"
	"github.com/usher-dev/usher/internal/policytest"
)

// corpus are the folders with cases, and how many there are at least: a folder that is
// moved must not go unnoticed.
var corpus = map[string]int{
	"../../policytest/testdata/kinitiras":     200,
	"../../policytest/testdata/semantics":     300,
	"../../policytest/testdata/vap":           90,
	"../../policytest/testdata/object":        150,
	"../../policytest/testdata/exempt":        110,
	"../../../examples/cases":                 20,
	"../../../examples/cel/cases":             2,
	"../../../examples/object-policies/cases": 90,
}

func loadCorpus(t *testing.T) []*policytest.Case {
	t.Helper()
	var all []*policytest.Case
	for folder, least := range corpus {
		cases, err := policytest.Load(folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) < least {
			t.Errorf("%s has %d cases, fewer than %d", folder, len(cases), least)
		}
		all = append(all, cases...)
	}
	return append(all, matrixOfDoors()...)
}

// sent fails the test if a door has let too many cases by.
func sent(t *testing.T, n, least int) {
	t.Helper()
	if n < least {
		t.Errorf("%d cases were sent, fewer than %d", n, least)
	}
}

func TestCorpusThroughWebhook(t *testing.T) {
	t.Parallel()
	cases := loadCorpus(t)
	options := doortest.CaseOptions{AuditKey: func(_ usher.Phase, key string) string { return key }}
	n := doortest.Cases(t, cases, options, func(t *testing.T, d usher.Decider) doortest.Door {
		mux := http.NewServeMux()
		options := admission.Options{Log: slog.New(slog.DiscardHandler)}
		mux.Handle("/mutate", admission.Mutate(d, options))
		mux.Handle("/validate", admission.Validate(d, options))
		server := httptest.NewUnstartedServer(mux)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return &webhookDoor{server}
	})
	sent(t, n, 1000)
}

func TestCorpusThroughPlugin(t *testing.T) {
	t.Parallel()
	options := doortest.CaseOptions{
		DeniedBy: func(usher.Phase) string { return `admission plugin "Usher"` },
		Verbatim: true,
		AuditKey: func(phase usher.Phase, key string) string { return string(phase) + ".usher.dev/" + key },
	}
	n := doortest.Cases(t, loadCorpus(t), options, func(_ *testing.T, d usher.Decider) doortest.Door {
		return pluginDoor{apiserver.New(d, apiserver.Options{Log: slog.New(slog.DiscardHandler)})}
	})
	sent(t, n, 1000)
}

// A webhookDoor asks a webhook over HTTPS, as an API server does.
type webhookDoor struct{ server *httptest.Server }

func (w *webhookDoor) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	body, err := json.Marshal(reviewOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.server.Client().Post(w.server.URL+"/"+string(r.Phase)+"?timeout=30s", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(review); err != nil {
		t.Fatal(err)
	}
	result, err := webhookrequest.VerifyAdmissionResponse(types.UID(r.UID), r.Phase == usher.Mutate, review)
	if err != nil {
		t.Fatal(err)
	}
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: result.Warnings, Object: treeOf(t, r.Object), Audit: result.AuditAnnotations}
	if !result.Allowed {
		deny(&answer, result.Result)
		return answer
	}
	if len(result.Patch) > 0 {
		answer.Object = patched(t, r.Object, result.Patch)
	}
	return answer
}

// deny makes answer what a client gets to see of a status.
func deny(answer *doortest.Answer, status *metav1.Status) {
	answer.Verdict, answer.Code, answer.Reason, answer.Message = usher.Deny, max(status.Code, http.StatusBadRequest), string(status.Reason), status.Message
}

// reviewOf is the review that an API server sends for r.
func reviewOf(t *testing.T, r *usher.Request) *admissionv1.AdmissionReview {
	t.Helper()
	q := &admissionv1.AdmissionRequest{
		UID: types.UID(r.UID), Kind: metav1.GroupVersionKind(r.Kind), Resource: metav1.GroupVersionResource(r.Resource), SubResource: r.Subresource,
		Name: r.Name, Namespace: r.Namespace, Operation: admissionv1.Operation(r.Operation), DryRun: &r.DryRun,
		UserInfo: authenticationv1.UserInfo{Username: r.User.Name, UID: r.User.UID, Groups: r.User.Groups},
	}
	for key, values := range r.User.Extra {
		if q.UserInfo.Extra == nil {
			q.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
		}
		q.UserInfo.Extra[key] = values
	}
	for target, object := range map[*runtime.RawExtension]*usher.Object{&q.Object: r.Object, &q.OldObject: r.OldObject, &q.Options: r.Options} {
		raw, err := object.Raw()
		if err != nil {
			t.Fatal(err)
		}
		target.Raw = raw
	}
	return &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: q}
}

// patched applies a patch as an API server does.
func patched(t *testing.T, object *usher.Object, patch []byte) map[string]any {
	t.Helper()
	raw, err := object.Raw()
	if err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	result, err := operations.Apply(raw)
	if err != nil {
		t.Fatal(err)
	}
	return treeOf(t, usher.RawObject(result))
}

func treeOf(t *testing.T, object *usher.Object) map[string]any {
	t.Helper()
	tree, err := object.Tree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// A pluginDoor is a server in which the plugin runs.
type pluginDoor struct{ plugin *apiserver.Plugin }

func (d pluginDoor) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	said := &recorder{}
	ctx := warning.WithWarningRecorder(t.Context(), said)
	attributes := attributesOf(t, r)
	var err error
	if r.Phase == usher.Mutate {
		err = d.plugin.Admit(ctx, attributes, objects())
	} else {
		err = d.plugin.Validate(ctx, attributes, objects())
	}
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: said.texts, Audit: attributes.annotations}
	if status := (apierrors.APIStatus)(nil); errors.As(err, &status) {
		told := status.Status()
		deny(&answer, &told)
	} else if err != nil {
		t.Fatal(err)
	}
	if object, ok := attributes.GetObject().(*unstructured.Unstructured); ok {
		answer.Object = object.Object
	}
	return answer
}

func objects() kubeadmission.ObjectInterfaces {
	return kubeadmission.NewObjectInterfacesFromScheme(scheme.Scheme)
}

// attributesOf are what a server hands to plugins for r.
func attributesOf(t *testing.T, r *usher.Request) *audited {
	t.Helper()
	info := &user.DefaultInfo{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra}
	attributes := kubeadmission.NewAttributesRecord(untyped(t, r.Object), untyped(t, r.OldObject), r.Kind, r.Namespace, r.Name,
		r.Resource, r.Subresource, kubeadmission.Operation(r.Operation), untyped(t, r.Options), r.DryRun, info)
	return &audited{Attributes: attributes, annotations: map[string]string{}}
}

// audited are attributes that keep annotations for the audit log.
type audited struct {
	kubeadmission.Attributes

	annotations map[string]string
}

// AddAnnotation implements [kubeadmission.Attributes].
func (a *audited) AddAnnotation(key, value string) error {
	if err := a.Attributes.AddAnnotation(key, value); err != nil {
		return err
	}
	a.annotations[key] = value
	return nil
}

// untyped is an object as a server has it that knows no Go type for it; nil for none.
func untyped(t *testing.T, object *usher.Object) runtime.Object {
	t.Helper()
	tree := treeOf(t, object)
	if tree == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(tree)}
}

// A recorder keeps the warnings for the client.
type recorder struct {
	mu    sync.Mutex
	texts []string
}

func (r *recorder) AddWarning(_, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}
