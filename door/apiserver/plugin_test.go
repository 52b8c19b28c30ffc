package apiserver_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissiontesting "k8s.io/apiserver/pkg/admission/testing"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/apis/example/install"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
)

var podKind = examplev1.SchemeGroupVersion.WithKind("Pod")

// internal is what a server works with that has types of its own for its objects.
func internal() admission.ObjectInterfaces {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return admission.NewObjectInterfacesFromScheme(scheme)
}

func pod() *example.Pod {
	return &example.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec:       example.PodSpec{Hostname: "a", NodeSelector: map[string]string{"disk": "ssd"}},
	}
}

func creation(object runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, nil, podKind, "shop", "web", examplev1.SchemeGroupVersion.WithResource("pods"), "",
		admission.Create, &metav1.CreateOptions{}, false, nil)
}

func quiet() apiserver.Options { return apiserver.Options{Log: slog.New(slog.DiscardHandler)} }

// labelOnce labels what has no labels yet, and renames every host.
func labelOnce(_ context.Context, r *usher.Request) (usher.Decision, error) {
	tree, err := r.Object.Tree()
	if err != nil {
		return usher.Decision{}, err
	}
	operations := usher.Patch{{Op: "replace", Path: "/spec/hostname", Value: "b"}}
	if tree["metadata"].(map[string]any)["labels"] == nil {
		operations = append(operations, usher.PatchOp{Op: "add", Path: "/metadata/labels", Value: map[string]any{"team": "shop"}})
	}
	return usher.Patched(operations...), nil
}

// TestInternalObjects changes an object in the server's own type: it is converted to the
// version of the request, and what is changed is converted back. Upstream's helper runs the
// plugin twice and compares.
func TestInternalObjects(t *testing.T) {
	t.Parallel()
	object := pod()
	plugin := apiserver.New(usher.DeciderFunc(labelOnce), quiet())
	twice := admissiontesting.WithReinvocationTesting(t, plugin)
	if err := twice.Admit(t.Context(), creation(object), internal()); err != nil {
		t.Fatal(err)
	}
	want := pod()
	want.Labels = map[string]string{"team": "shop"}
	want.Spec.Hostname = "b"
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDeciderIsToldOfReinvocations: a decider leaves out what is decided once.
func TestDeciderIsToldOfReinvocations(t *testing.T) {
	t.Parallel()
	var seen []bool
	plugin := apiserver.New(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		seen = append(seen, r.Reinvocation)
		return usher.Allowed(), nil
	}), quiet())
	a := creation(pod())
	for range 2 {
		if err := plugin.Admit(t.Context(), a, internal()); err != nil {
			t.Fatal(err)
		}
		a.GetReinvocationContext().SetIsReinvoke()
	}
	if err := plugin.Validate(t.Context(), a, internal()); err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, true, false}; !slices.Equal(seen, want) {
		t.Errorf("told %v, want %v", seen, want)
	}
}

// TestDeciderSeesTheVersion gives the decider the object as clients write it.
func TestDeciderSeesTheVersion(t *testing.T) {
	t.Parallel()
	var seen *usher.Request
	plugin := apiserver.New(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		seen = r
		return usher.Allowed(), nil
	}), quiet())
	object, old := pod(), pod()
	old.Spec.Hostname = "old"
	update := admission.NewAttributesRecord(object, old, podKind, "shop", "web", examplev1.SchemeGroupVersion.WithResource("pods"), "",
		admission.Update, &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{Kind: "UpdateOptions"}, FieldManager: "test"}, false, nil)
	if err := plugin.Validate(t.Context(), update, internal()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		object *usher.Object
		path   []string
		want   any
	}{
		{seen.Object, []string{"apiVersion"}, "example.apiserver.k8s.io/v1"},
		{seen.Object, []string{"kind"}, "Pod"},
		{seen.Object, []string{"spec", "hostname"}, "a"},
		{seen.OldObject, []string{"spec", "hostname"}, "old"},
		{seen.Options, []string{"fieldManager"}, "test"},
	} {
		tree, err := part.object.Tree()
		if err != nil {
			t.Fatal(err)
		}
		var got any = tree
		for _, key := range part.path {
			got = got.(map[string]any)[key]
		}
		if got != part.want {
			t.Errorf("%v is %v, want %v", part.path, got, part.want)
		}
	}
	if !cmp.Equal(object, pod()) {
		t.Error("validation changed the object")
	}
}

func TestPatchThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]usher.PatchOp{
		"does not apply": {Op: "remove", Path: "/spec/absent"},
		"another kind":   {Op: "replace", Path: "/kind", Value: "Table"},
		"no such type":   {Op: "replace", Path: "/spec/hostname", Value: int64(1)},
	} {
		object := pod()
		plugin := apiserver.New(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return usher.Patched(op), nil
		}), quiet())
		err := plugin.Admit(t.Context(), creation(object), internal())
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "no decision was reached") {
			t.Errorf("%s: %v, want an internal error", name, err)
		}
		if !cmp.Equal(object, pod()) {
			t.Errorf("%s: the object was changed", name)
		}
	}
}

func TestWhatIsNotCoveredIsNotAsked(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.Covers = func(r *usher.Request) bool { return r.Phase == usher.Validate && r.Object == nil }
	plugin := apiserver.New(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		t.Error("asked")
		return usher.Denied("no"), nil
	}), o)
	// The mutating phase is not covered at all, the validating one only without its object.
	if err := plugin.Admit(t.Context(), creation(pod()), internal()); err != nil {
		t.Error(err)
	}
	if err := plugin.Validate(t.Context(), creation(pod()), internal()); err != nil {
		t.Error(err)
	}
}

// TestEquivalentVersion has a policy for another version of the resource than the one that
// is requested.
func TestEquivalentVersion(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.Covers = func(r *usher.Request) bool { return r.Resource == examplev1.SchemeGroupVersion.WithResource("pods") }
	var seen []schema.GroupVersionKind
	plugin := apiserver.New(usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		seen = append(seen, r.Kind)
		return labelOnce(ctx, r)
	}), o)
	mapper := runtime.NewEquivalentResourceRegistryWithIdentity(func(schema.GroupResource) string { return "pods" })
	later := schema.GroupVersion{Group: "later.example.com", Version: "v2"}
	mapper.RegisterKindFor(examplev1.SchemeGroupVersion.WithResource("pods"), "", podKind)
	mapper.RegisterKindFor(later.WithResource("pods"), "", later.WithKind("Pod"))
	object := pod()
	attributes := admission.NewAttributesRecord(object, nil, later.WithKind("Pod"), "shop", "web", later.WithResource("pods"), "",
		admission.Create, nil, false, nil)
	interfaces := internal().(*admission.RuntimeObjectInterfaces)
	interfaces.EquivalentResourceMapper = mapper
	if err := plugin.Admit(t.Context(), attributes, interfaces); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{podKind}, seen); diff != "" || object.Spec.Hostname != "b" {
		t.Errorf("hostname %s; kinds: -want +got:\n%s", object.Spec.Hostname, diff)
	}
}

// annotated records the audit annotations.
type annotated struct {
	admission.Attributes

	annotations map[string]string
}

func (a *annotated) AddAnnotation(key, value string) error {
	a.annotations[key] = value
	return nil
}

func TestAuditAnnotations(t *testing.T) {
	t.Parallel()
	plugin := apiserver.New(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Allow, Audit: map[string]string{"policy": "a", "!": "none"}}, nil
	}), quiet())
	a := &annotated{creation(pod()), map[string]string{}}
	if err := plugin.Admit(t.Context(), a, internal()); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Validate(t.Context(), a, internal()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"mutate.usher.dev/policy": "a", "validate.usher.dev/policy": "a"}
	if diff := cmp.Diff(want, a.annotations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for key := range maps.Keys(a.annotations) {
		if err := creation(pod()).AddAnnotation(key, "a"); err != nil {
			t.Errorf("a server refuses %s: %v", key, err)
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	recommended := []string{"NamespaceLifecycle", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"}
	kept := slices.Clone(recommended)
	want := []string{"NamespaceLifecycle", "Usher", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"}
	if diff := cmp.Diff(want, apiserver.Order(recommended)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(kept, recommended); diff != "" {
		t.Errorf("the order that was given is changed:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"NamespaceLifecycle", "Usher"}, apiserver.Order(recommended[:1])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRegister makes the plugin as a server does.
func TestRegister(t *testing.T) {
	t.Parallel()
	plugins := admission.NewPlugins()
	var decider usher.Decider
	apiserver.Register(plugins, func(io.Reader) (admission.Interface, error) { return apiserver.New(decider, quiet()), nil })
	if _, err := plugins.InitPlugin("Usher", nil, admission.PluginInitializers{}); err == nil || !strings.Contains(err.Error(), "there is no decider") {
		t.Errorf("without a decider: %v", err)
	}
	decider = usher.DeciderFunc(labelOnce)
	plugin, err := plugins.InitPlugin("Usher", nil, admission.PluginInitializers{})
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		if !plugin.Handles(operation) {
			t.Errorf("%s is not handled", operation)
		}
	}
}
