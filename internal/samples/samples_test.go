package samples_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/samples"
)

// ask is a request for a resource, group/version/resource or just the name of a core one.
func ask(operation usher.Operation, resource, object string) *usher.Request {
	r := &usher.Request{Operation: operation, Resource: schema.GroupVersionResource{Version: "v1", Resource: resource}}
	if parsed, _ := schema.ParseResourceArg(resource); parsed != nil {
		r.Resource = *parsed
	}
	if operation == usher.Delete {
		r.OldObject = usher.RawObject([]byte(object))
	} else {
		r.Object = usher.RawObject([]byte(object))
	}
	return r
}

// A verdict is what is compared of a decision: the reason of a denial, or the resulting object.
type verdict struct {
	Denied          bool
	Reason, Message string
	Patch           string
}

func decide(t *testing.T, d usher.Decider, r *usher.Request) verdict {
	t.Helper()
	decision, err := d.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	v := verdict{Denied: decision.Verdict == usher.Deny, Reason: decision.Reason, Message: decision.Message}
	if len(decision.Patch) == 0 {
		return v
	}
	patch, err := json.Marshal(decision.Patch)
	if err != nil {
		t.Fatal(err)
	}
	v.Patch = string(patch)
	if v.Denied || r.Object == nil {
		return v
	}
	// An API server has to be able to apply it.
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.Object.Raw()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decoded.Apply(raw); err != nil {
		t.Errorf("patch %s of %s: %v", patch, raw, err)
	}
	return v
}

func denied(message string) verdict { return verdict{Denied: true, Message: message} }
func because(reason string) verdict { return verdict{Denied: true, Reason: reason} }
func patched(patch string) verdict  { return verdict{Patch: patch} }

func TestEndpoints(t *testing.T) {
	t.Parallel()
	const (
		crdV1   = "customresourcedefinitions.v1.apiextensions.k8s.io"
		widgets = "widgets.v1.stable.example.com"
		sidecar = `[{"op":"add","path":"/spec/containers/-","value":{"image":"img:\"1\"","name":"webhook-added-sidecar","resources":{}}}]`
		initial = `[{"op":"add","path":"/spec/initContainers","value":[{"image":"webhook-added-image","name":"webhook-added-init-container","resources":{}}]}]`
		stage1  = `[{"op":"add","path":"/data/mutation-stage-1","value":"yes"}]`
		stage2  = `[{"op":"add","path":"/data/mutation-stage-2","value":"yes"}]`

		unwanted    = "the configmap contains unwanted key and value"
		undeletable = "the configmap cannot be deleted because it contains unwanted key and value"
		crUnwanted  = "the custom resource contains unwanted data"
		crDelete    = "the custom resource cannot be deleted because it contains unwanted key and value"
	)
	tests := []struct {
		reason  string
		path    string
		request *usher.Request
		want    verdict
	}{
		{"everything", "/always-deny", ask(usher.Create, "pods", `{}`), denied("this webhook denies all requests")},
		{"also what goes", "/always-deny", ask(usher.Delete, "pods", `{}`), denied("this webhook denies all requests")},

		{"no labels", "/add-label", ask(usher.Create, "pods", `{"metadata":{"name":"a"}}`), patched(`[{"op":"add","path":"/metadata/labels","value":{"added-label":"yes"}}]`)},
		{"labels without any", "/add-label", ask(usher.Create, "pods", `{"metadata":{"labels":{}}}`), patched(`[{"op":"add","path":"/metadata/labels","value":{"added-label":"yes"}}]`)},
		{"other labels", "/add-label", ask(usher.Update, "pods", `{"metadata":{"labels":{"a":"b"}}}`), patched(`[{"op":"add","path":"/metadata/labels/added-label","value":"yes"}]`)},
		{"another value", "/add-label", ask(usher.Create, "pods", `{"metadata":{"labels":{"added-label":"no"}}}`), patched(`[{"op":"replace","path":"/metadata/labels/added-label","value":"yes"}]`)},
		{"done already", "/add-label", ask(usher.Create, "pods", `{"metadata":{"labels":{"added-label":"yes"}}}`), verdict{}},
		{"labels that are none", "/add-label", ask(usher.Create, "pods", `{"metadata":{"labels":7}}`), denied("decode object: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string")},

		{"an ordinary pod", "/pods", ask(usher.Create, "pods", `{"spec":{"containers":[{"name":"main"}]}}`), verdict{}},
		{"the label", "/pods", ask(usher.Create, "pods", `{"metadata":{"labels":{"webhook-e2e-test":"webhook-disallow"}}}`), denied("the pod contains unwanted label;")},
		{"another value of the label", "/pods", ask(usher.Create, "pods", `{"metadata":{"labels":{"webhook-e2e-test":"x"}}}`), verdict{}},
		{
			"the label, and two containers", "/pods",
			ask(usher.Create, "pods", `{"metadata":{"labels":{"webhook-e2e-test":"webhook-disallow"}},"spec":{"containers":[{"name":"webhook-disallow"},{"name":"a"},{"name":"x-webhook-disallow-y"}]}}`),
			denied("the pod contains unwanted label; the pod contains unwanted container name; the pod contains unwanted container name;"),
		},
		{"init containers do not count", "/pods", ask(usher.Create, "pods", `{"spec":{"initContainers":[{"name":"webhook-disallow"}]}}`), verdict{}},
		{"the old pod counts when it goes", "/pods", ask(usher.Delete, "pods", `{"spec":{"containers":[{"name":"webhook-disallow"}]}}`), denied("the pod contains unwanted container name;")},
		{"not a pod", "/pods", ask(usher.Create, "configmaps", `{}`), denied("expect resource to be { v1 pods}")},
		{"a pod that cannot be read", "/pods", ask(usher.Create, "pods", `{"spec":"x"}`), denied("decode object: json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec")},
		{"no pod", "/pods", ask(usher.Create, "pods", ``), denied("decode object: the request has none")},

		{"another pod", "/pods/attach", attach("other", "attach", `{"stdin":true,"container":"container1"}`), verdict{}},
		{"the pod", "/pods/attach", attach("to-be-attached-pod", "attach", `{"stdin":true,"container":"container1"}`), denied("attaching to pod 'to-be-attached-pod' is not allowed")},
		{"to look on", "/pods/attach", attach("to-be-attached-pod", "attach", `{"container":"container1"}`), verdict{}},
		{"another container", "/pods/attach", attach("to-be-attached-pod", "attach", `{"stdin":true,"container":"b"}`), verdict{}},
		{"another subresource", "/pods/attach", attach("to-be-attached-pod", "exec", `{}`), denied("expect subresource to be attach, got exec")},
		{"not pods", "/pods/attach", &usher.Request{Name: "to-be-attached-pod", Subresource: "attach"}, denied("expect resource to be { v1 pods}, got {  }")},
		{"options that are none", "/pods/attach", attach("to-be-attached-pod", "attach", `{"stdin":1}`), denied("decode object: json: cannot unmarshal number into Go struct field PodAttachOptions.stdin of type bool")},

		{"another pod", "/mutating-pods", ask(usher.Create, "pods", `{"metadata":{"name":"a"},"spec":{}}`), verdict{}},
		{"the pod", "/mutating-pods", ask(usher.Create, "pods", `{"metadata":{"name":"webhook-to-be-mutated"},"spec":{}}`), patched(initial)},
		{"other init containers go", "/mutating-pods", ask(usher.Create, "pods", `{"metadata":{"name":"webhook-to-be-mutated"},"spec":{"initContainers":[{"name":"a"}]}}`), patched(initial)},
		{"done already", "/mutating-pods", ask(usher.Create, "pods", `{"metadata":{"name":"webhook-to-be-mutated"},"spec":{"initContainers":[{"name":"webhook-added-init-container"}]}}`), verdict{}},
		{"not a pod", "/mutating-pods", ask(usher.Create, "widgets", `{}`), denied("expect resource to be { v1 pods}")},

		{"any pod", "/mutating-pods-sidecar", ask(usher.Create, "pods", `{"spec":{"containers":[{"name":"a"}]}}`), patched(sidecar)},
		{"done already", "/mutating-pods-sidecar", ask(usher.Create, "pods", `{"spec":{"containers":[{"name":"webhook-added-sidecar"}]}}`), verdict{}},
		{"not a pod", "/mutating-pods-sidecar", ask(usher.Create, "widgets", `{}`), denied("expect resource to be { v1 pods}")},

		{"the value", "/configmaps", ask(usher.Create, "configmaps", `{"data":{"webhook-e2e-test":"webhook-disallow"}}`), because(unwanted)},
		{"the value in an update", "/configmaps", ask(usher.Update, "configmaps", `{"data":{"webhook-e2e-test":"webhook-disallow"}}`), because(unwanted)},
		{"may go", "/configmaps", ask(usher.Delete, "configmaps", `{"data":{"webhook-e2e-test":"webhook-disallow"}}`), verdict{}},
		{"may not go", "/configmaps", ask(usher.Delete, "configmaps", `{"data":{"webhook-e2e-test":"webhook-nondeletable"}}`), because(undeletable)},
		{"may come", "/configmaps", ask(usher.Create, "configmaps", `{"data":{"webhook-e2e-test":"webhook-nondeletable"}}`), verdict{}},
		{"not a ConfigMap", "/configmaps", ask(usher.Create, "secrets", `{}`), denied("expect resource to be { v1 configmaps}")},

		{"nothing to do", "/mutating-configmaps", ask(usher.Create, "configmaps", `{"data":{"a":"b"}}`), verdict{}},
		{"the start", "/mutating-configmaps", ask(usher.Create, "configmaps", `{"data":{"mutation-start":"yes"}}`), patched(stage1)},
		{"one stage a call", "/mutating-configmaps", ask(usher.Create, "configmaps", `{"data":{"mutation-start":"yes","mutation-stage-1":"yes"}}`), patched(stage2)},
		{"not a ConfigMap", "/mutating-configmaps", ask(usher.Create, "pods", `{}`), denied("expect resource to be { v1 configmaps}")},

		{"the value", "/custom-resource", ask(usher.Create, widgets, `{"data":{"webhook-e2e-test":"webhook-disallow"}}`), because(crUnwanted)},
		{"may not go", "/custom-resource", ask(usher.Delete, widgets, `{"data":{"webhook-e2e-test":"webhook-nondeletable"}}`), because(crDelete)},
		{"a name that is not in metadata is none of our business", "/custom-resource", ask(usher.Create, widgets, `{"name":7,"data":{"a":7}}`), verdict{}},
		{"data that is no map", "/custom-resource", ask(usher.Create, widgets, `{"data":"webhook-disallow"}`), verdict{}},
		{"data in other letters is other data", "/custom-resource", ask(usher.Create, widgets, `{"DATA":{"webhook-e2e-test":"webhook-disallow"}}`), verdict{}},

		{"the start", "/mutating-custom-resource", ask(usher.Update, widgets, `{"data":{"mutation-start":"yes"}}`), patched(stage1)},
		{"one stage a call", "/mutating-custom-resource", ask(usher.Create, widgets, `{"data":{"mutation-stage-1":"yes"}}`), patched(stage2)},

		{"an ordinary definition", "/crd", ask(usher.Create, crdV1, `{"metadata":{"labels":{"a":"b"}}}`), verdict{}},
		{"the label", "/crd", ask(usher.Create, crdV1, `{"metadata":{"labels":{"webhook-e2e-test":"webhook-disallow"}}}`), denied("the crd contains unwanted label")},
		{"the label, in the old version", "/crd", ask(usher.Create, "customresourcedefinitions.v1beta1.apiextensions.k8s.io", `{"metadata":{"labels":{"webhook-e2e-test":"webhook-disallow"}}}`), denied("the crd contains unwanted label")},
		{
			"not a definition", "/crd", ask(usher.Create, "pods", `{}`),
			denied("expect resource to be one of [{apiextensions.k8s.io v1beta1 customresourcedefinitions}, {apiextensions.k8s.io v1 customresourcedefinitions}] but got { v1 pods}"),
		},
	}
	endpoints := map[string]usher.Decider{}
	for _, e := range samples.Endpoints(samples.Options{SidecarImage: `img:"1"`}) {
		endpoints[e.Path] = e.Decider
	}
	tested := map[string]bool{"/always-allow-delay-5s": true} // below
	for _, test := range tests {
		tested[test.path] = true
		if diff := cmp.Diff(test.want, decide(t, endpoints[test.path], test.request)); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", test.path, test.reason, diff)
		}
	}
	for path := range endpoints {
		if !tested[path] {
			t.Errorf("%s has no test", path)
		}
	}
}

func attach(name, subresource, options string) *usher.Request {
	r := ask(usher.Connect, "pods", options)
	r.Name, r.Subresource = name, subresource
	return r
}

func TestSidecarWithoutImage(t *testing.T) {
	t.Parallel()
	decision, err := samples.Sidecar("").Decide(t.Context(), ask(usher.Create, "pods", `{}`))
	if err != nil || decision.Verdict != usher.Deny || decision.Code != 500 || decision.Message != "No image specified by the sidecar-image parameter" {
		t.Errorf("got %+v, %v", decision, err)
	}
}

func TestAlwaysAllow(t *testing.T) {
	t.Parallel()
	decision, err := samples.AlwaysAllow(time.Millisecond).Decide(t.Context(), ask(usher.Create, "pods", `{}`))
	if err != nil || decision.Verdict != usher.Allow || decision.Message != "this webhook allows all requests" {
		t.Errorf("got %+v, %v", decision, err)
	}
}

// A caller without timeout gets no response, not even after it has disconnected.
func TestWaitingEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		decider usher.Decider
		request *usher.Request
	}{
		{"the label wait-forever", samples.Pods(), ask(usher.Create, "pods", `{"metadata":{"labels":{"webhook-e2e-test":"wait-forever"}}}`)},
		{"a delay", samples.AlwaysAllow(time.Hour), ask(usher.Create, "pods", `{}`)},
	}
	for _, test := range tests {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			_, _ = test.decider.Decide(ctx, test.request)
		}()
		select {
		case got := <-done:
			t.Errorf("%s: it ends before its caller gives up: %v", test.reason, got)
		default:
		}
		cancel()
		if got := <-done; got != http.ErrAbortHandler {
			t.Errorf("%s: it ends with %v", test.reason, got)
		}
	}
}
