package webhookconfig_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// written returns what has been written since the last time.
func written(kube *fake.Clientset) []string {
	var verbs []string
	for _, action := range kube.Actions() {
		if action.GetVerb() != "get" {
			verbs = append(verbs, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	kube.ClearActions()
	return verbs
}

const (
	mutating   = "mutatingwebhookconfigurations"
	validating = "validatingwebhookconfigurations"
)

func TestApplyWritesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	options := webhookconfig.Options{Namespace: "usher-system", Service: "usher", Log: silent}
	pods := rule.Coverage{Mutate: []rule.Covered{covered("v1", "Pod", usher.Create)}}
	both := rule.Coverage{Mutate: pods.Mutate, Validate: []rule.Covered{covered("v1", "Secret")}}
	steps := []struct {
		reason   string
		before   func()
		coverage rule.Coverage
		caBundle string
		want     []string
	}{
		{"at first", nil, pods, "CA", []string{"patch " + mutating, "patch " + validating}},
		{"again", nil, pods, "CA", nil},
		{"one phase", nil, both, "CA", []string{"patch " + validating}},
		{"what is to be trusted", nil, both, "CA2", []string{"patch " + mutating, "patch " + validating}},
		{"somebody else says what is to be trusted", nil, both, "", nil},
		{
			"changed by somebody", func() {
				object, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "usher", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				object.Webhooks[0].Rules[0].Resources = append(object.Webhooks[0].Rules[0].Resources, "secrets")
				if _, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				kube.ClearActions()
			}, both, "CA2", []string{"patch " + mutating},
		},
		{
			"deleted by somebody", func() {
				if err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "usher", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				kube.ClearActions()
			}, both, "CA2", []string{"patch " + validating},
		},
		{"less than before", nil, rule.Coverage{}, "CA2", []string{"patch " + mutating, "patch " + validating}},
		{"and again", nil, rule.Coverage{}, "CA2", nil},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		// As another replica does, or the same after a restart.
		e := webhookconfig.New(kube, mapper(), options)
		var caBundle []byte
		if step.caBundle != "" {
			caBundle = []byte(step.caBundle)
		}
		if err := e.Apply(t.Context(), step.coverage, caBundle); err != nil {
			t.Fatalf("%s: %v", step.reason, err)
		}
		if diff := cmp.Diff(step.want, written(kube)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.reason, diff)
		}
		m, v, err := e.Objects(step.coverage, []byte("CA2"))
		if err != nil {
			t.Fatal(err)
		}
		gotM, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "usher", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		gotV, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "usher", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.Webhooks[0].Rules, gotM.Webhooks[0].Rules); diff != "" || !slices.Equal(lines(v.Webhooks[0].Rules), lines(gotV.Webhooks[0].Rules)) {
			t.Errorf("%s: the rules are not those of the coverage: %s", step.reason, diff)
		}
		kube.ClearActions()
	}
}

func TestApplyReportsUnknownKindsAndWritesTheRest(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	e := webhookconfig.New(kube, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher", Log: silent})
	coverage := rule.Coverage{Mutate: []rule.Covered{covered("example.com/v1", "Widget"), covered("v1", "Secret")}}
	for _, want := range [][]string{{"patch " + mutating, "patch " + validating}, nil} {
		err := e.Apply(t.Context(), coverage, nil)
		if _, ok := errors.AsType[*webhookconfig.IncompleteError](err); !ok {
			t.Fatalf("got %v", err)
		}
		if diff := cmp.Diff(want, written(kube)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if err := webhookconfig.New(kube, brokenMapper{}, webhookconfig.Options{Log: silent}).Apply(t.Context(), coverage, nil); err == nil {
		t.Error("an API server that does not answer is no error")
	}
	if got := written(kube); got != nil {
		t.Errorf("without knowing the resources it writes: %v", got)
	}
}

// TestEntriesOfARestoredBackupGo: applying does not remove what another field manager owns, too. Such
// an entry leads to a path that is not served any more.
func TestEntriesOfARestoredBackupGo(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	e := webhookconfig.New(kube, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher", Log: silent})
	pods := rule.Coverage{Mutate: []rule.Covered{covered("v1", "Pod", usher.Create)}, Validate: []rule.Covered{covered("v1", "Secret")}}
	if err := e.Apply(t.Context(), pods, []byte("CA")); err != nil {
		t.Fatal(err)
	}
	m, v := kube.AdmissionregistrationV1().MutatingWebhookConfigurations(), kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	savedMutating, err := m.Get(t.Context(), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	savedValidating, err := v.Get(t.Context(), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	savedMutating.ManagedFields, savedMutating.ResourceVersion = nil, ""
	savedValidating.ManagedFields, savedValidating.ResourceVersion = nil, ""
	own := savedMutating.Webhooks[0].DeepCopy()
	own.Name = "own.example.com"
	savedMutating.Webhooks = append(savedMutating.Webhooks, *own)
	if _, err := m.Create(t.Context(), savedMutating, metav1.CreateOptions{FieldManager: "velero"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Create(t.Context(), savedValidating, metav1.CreateOptions{FieldManager: "velero"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Apply(t.Context(), rule.Coverage{}, []byte("CA")); err != nil {
		t.Fatal(err)
	}
	var names []string
	gotMutating, err := m.Get(t.Context(), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range gotMutating.Webhooks {
		names = append(names, gotMutating.Webhooks[i].Name)
	}
	gotValidating, err := v.Get(t.Context(), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range gotValidating.Webhooks {
		names = append(names, gotValidating.Webhooks[i].Name)
	}
	slices.Sort(names)
	if slices.Contains(names, "mutate.usher.dev") || slices.Contains(names, "validate.usher.dev") || !slices.Contains(names, "own.example.com") {
		t.Errorf("entries are %v", names)
	}
	kube.ClearActions()
	if err := e.Apply(t.Context(), rule.Coverage{}, []byte("CA")); err != nil || len(written(kube)) > 0 {
		t.Errorf("it is written again: %v", err)
	}
}

func TestApplyMeetsOtherReplicas(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	met := 0
	kube.PrependReactor("patch", mutating, func(clienttesting.Action) (bool, runtime.Object, error) {
		if met++; met == 1 {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: mutating}, "usher", errors.New("try again"))
		}
		return false, nil, nil
	})
	if err := webhookconfig.New(kube, mapper(), webhookconfig.Options{Log: silent}).Apply(t.Context(), rule.Coverage{}, nil); err != nil {
		t.Error(err)
	}
	if met != 2 {
		t.Errorf("%d attempts, want 2", met)
	}
}

func TestApplyWithoutPermission(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	kube.PrependReactor("patch", mutating, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: mutating}, "usher", errors.New("no"))
	})
	err := webhookconfig.New(kube, mapper(), webhookconfig.Options{Log: silent}).Apply(t.Context(), rule.Coverage{}, nil)
	if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "register MutatingWebhookConfiguration usher: ") {
		t.Errorf("got %v", err)
	}
	if got := written(kube); !slices.Contains(got, "patch "+validating) {
		t.Errorf("the other configuration is not written: %v", got)
	}
}

func TestForeignObjectsAreLeftAlone(t *testing.T) {
	t.Parallel()
	foreign := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "usher", Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}}
	kube := fake.NewClientset(foreign)
	e := webhookconfig.New(kube, mapper(), webhookconfig.Options{Log: silent})
	for name, err := range map[string]error{"Apply": e.Apply(t.Context(), rule.Coverage{}, nil), "Remove": e.Remove(t.Context())} {
		var foreign *webhookconfig.ForeignError
		if !errors.As(err, &foreign) || !strings.Contains(err.Error(), "MutatingWebhookConfiguration usher is not Usher's, it has no label app.kubernetes.io/managed-by: usher") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{"patch " + validating, "delete " + validating}, written(kube)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	e := webhookconfig.New(kube, mapper(), webhookconfig.Options{Log: silent})
	if err := e.Apply(t.Context(), rule.Coverage{}, nil); err != nil {
		t.Fatal(err)
	}
	kube.ClearActions()
	for _, want := range [][]string{{"delete " + validating, "delete " + mutating}, nil} {
		if err := e.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, written(kube)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestKindsThatAreNeverSentAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := webhookconfig.New(fake.NewClientset(), mapper(), webhookconfig.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	nodes := rule.Coverage{Mutate: []rule.Covered{covered("v1", "Node")}, Validate: []rule.Covered{covered("v1", "Node"), covered("coordination.k8s.io/v1", "Lease"), covered("v1", "NodeProxyOptions")}}
	for range 3 {
		if err := e.Apply(t.Context(), nodes, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 1 || !strings.Contains(log.String(), `kinds="coordination.k8s.io/v1 Lease, v1 Node"`) {
		t.Errorf("got\n%s", log.String())
	}
}
