package admission_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserver "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	webhooktesting "k8s.io/apiserver/pkg/admission/plugin/webhook/testing"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue"
)

func TestMain(m *testing.M) {
	cue.Main()
	// The dispatchers say what they do about every wrong answer.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	m.Run()
}

// A call is how a webhook is registered with an API server.
type call struct {
	phase usher.Phase
	// version is that of the review, such as v1.
	version string
	policy  admissionregistrationv1.FailurePolicyType
}

// An upstream is the code of an API server around webhooks, and a server for these.
type upstream struct {
	server *httptest.Server
	// webhook answers.
	webhook http.Handler
	// mutating and validating are the dispatchers of which there is one a registration.
	mutating   map[call]*mutating.Plugin
	validating map[call]*validating.Plugin
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{mutating: map[call]*mutating.Plugin{}, validating: map[call]*validating.Plugin{}}
	u.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { u.webhook.ServeHTTP(w, r) }))
	u.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	u.server.StartTLS()
	t.Cleanup(u.server.Close)
	return u
}

// dispatch returns the outcome of a request when the webhook answers: "allowed", "allowed,
// changed", or the status with which it is refused.
func (u *upstream) dispatch(t *testing.T, c call, operation usher.Operation, webhook http.Handler) string {
	t.Helper()
	u.webhook = webhook
	attributes := attributesOf(operation)
	before := copyOf(attributes.GetObject())
	var err error
	if interfaces := webhooktesting.NewObjectInterfacesForTest(); c.phase == usher.Mutate {
		err = u.mutatingPlugin(t, c).Admit(t.Context(), attributes, interfaces)
	} else {
		err = u.validatingPlugin(t, c).Validate(t.Context(), attributes, interfaces)
	}
	status := apierrors.APIStatus(nil)
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("%d %s: %s", status.Status().Code, status.Status().Reason, status.Status().Message)
	case err != nil:
		return "500 without a status: " + err.Error()
	case !equality.Semantic.DeepEqual(before, copyOf(attributes.GetObject())):
		return "allowed, changed"
	}
	return "allowed"
}

// copyOf returns a copy without kind, which comes and goes.
func copyOf(o runtime.Object) runtime.Object {
	if o == nil {
		return nil
	}
	o = o.DeepCopyObject()
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return o
}

func attributesOf(operation usher.Operation) apiserver.Attributes {
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		}
	}
	kind, subresource := corev1.SchemeGroupVersion.WithKind("Pod"), ""
	var object, old, options runtime.Object
	switch operation {
	case usher.Create:
		object, options = pod(), &metav1.CreateOptions{}
	case usher.Update:
		object, old, options = pod(), pod(), &metav1.UpdateOptions{}
	case usher.Delete:
		old, options = pod(), &metav1.DeleteOptions{}
	case usher.Connect:
		kind, subresource = corev1.SchemeGroupVersion.WithKind("PodExecOptions"), "exec"
		object = &corev1.PodExecOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind.Kind}, Command: []string{"sh"}}
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	return apiserver.NewAttributesRecord(object, old, kind, "shop", "web", resource, subresource,
		apiserver.Operation(operation), options, false, &user.DefaultInfo{Name: "jane"})
}

func (u *upstream) mutatingPlugin(t *testing.T, c call) *mutating.Plugin {
	t.Helper()
	if known := u.mutating[c]; known != nil {
		return known
	}
	plugin, err := mutating.NewMutatingWebhook(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := newRegistration(c, u.server)
	client, factory := webhooktesting.NewFakeMutatingDataSource("shop", []admissionregistrationv1.MutatingWebhook{{
		Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules, NamespaceSelector: v.NamespaceSelector, ObjectSelector: v.ObjectSelector,
		AdmissionReviewVersions: v.AdmissionReviewVersions, FailurePolicy: v.FailurePolicy, TimeoutSeconds: v.TimeoutSeconds,
		SideEffects: v.SideEffects, MatchPolicy: v.MatchPolicy,
	}}, t.Context().Done())
	initialize(t, plugin.Webhook, client, factory)
	u.mutating[c] = plugin
	return plugin
}

func (u *upstream) validatingPlugin(t *testing.T, c call) *validating.Plugin {
	t.Helper()
	if known := u.validating[c]; known != nil {
		return known
	}
	plugin, err := validating.NewValidatingAdmissionWebhook(nil)
	if err != nil {
		t.Fatal(err)
	}
	client, factory := webhooktesting.NewFakeValidatingDataSource("shop",
		[]admissionregistrationv1.ValidatingWebhook{newRegistration(c, u.server)}, t.Context().Done())
	initialize(t, plugin.Webhook, client, factory)
	u.validating[c] = plugin
	return plugin
}

// newRegistration sends everything to the server.
func newRegistration(c call, server *httptest.Server) admissionregistrationv1.ValidatingWebhook {
	everything := "*"
	url := server.URL + "/"
	return admissionregistrationv1.ValidatingWebhook{
		Name: "n.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL:      &url,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"},
				Scope: (*admissionregistrationv1.ScopeType)(&everything),
			},
		}},
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		AdmissionReviewVersions: []string{c.version},
		FailurePolicy:           &c.policy,
		TimeoutSeconds:          new(int32(30)),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		MatchPolicy:             new(admissionregistrationv1.Exact),
	}
}

func initialize(t *testing.T, plugin *generic.Webhook, client kubernetes.Interface, factory informers.SharedInformerFactory) {
	t.Helper()
	plugin.SetAuthenticationInfoResolverWrapper(func(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		return webhooktesting.NewAuthenticationInfoResolver(new(int32))
	})
	plugin.SetServiceResolver(webhookutil.NewDefaultServiceResolver())
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
}
