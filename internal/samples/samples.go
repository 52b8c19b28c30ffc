// Package samples has the deciders of the sample webhook server of Kubernetes, which its
// tutorials and its end-to-end tests use: `agnhost webhook`, here `usher-samples webhook`. They do
// what those do, to the letter, as long as requests are such as an API server sends.
//
//	mux.Handle("/pods", admission.Validate(samples.Pods(), admission.Options{}))
//
// [Endpoints] has them all.
package samples

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

// Options configure the samples.
type Options struct {
	// SidecarImage is the image of the container that [Sidecar] adds.
	SidecarImage string
}

// An Endpoint is a decider and where upstream's server has it.
type Endpoint struct {
	Path    string
	Phase   usher.Phase
	Decider usher.Decider
	// Waits means that the decider makes its callers wait until they time out. A door with a
	// shorter timeout breaks the sample.
	Waits bool
}

// Endpoints returns all samples. Those that are good for both phases have that of
// validation.
func Endpoints(o Options) []Endpoint {
	return []Endpoint{
		{Path: "/always-deny", Phase: usher.Validate, Decider: AlwaysDeny()},
		{Path: "/always-allow-delay-5s", Phase: usher.Validate, Decider: AlwaysAllow(5 * time.Second), Waits: true},
		{Path: "/add-label", Phase: usher.Mutate, Decider: AddLabel()},
		{Path: "/pods", Phase: usher.Validate, Decider: Pods(), Waits: true},
		{Path: "/pods/attach", Phase: usher.Validate, Decider: PodAttach()},
		{Path: "/mutating-pods", Phase: usher.Mutate, Decider: InitContainer()},
		{Path: "/mutating-pods-sidecar", Phase: usher.Mutate, Decider: Sidecar(o.SidecarImage)},
		{Path: "/configmaps", Phase: usher.Validate, Decider: ConfigMaps()},
		{Path: "/mutating-configmaps", Phase: usher.Mutate, Decider: ConfigMapStages()},
		{Path: "/custom-resource", Phase: usher.Validate, Decider: CustomResources()},
		{Path: "/mutating-custom-resource", Phase: usher.Mutate, Decider: CustomResourceStages()},
		{Path: "/crd", Phase: usher.Validate, Decider: CRDs()},
	}
}

// mark is the label, and the key in data, that selects the decision.
const mark = "webhook-e2e-test"

// AlwaysDeny denies everything.
func AlwaysDeny() usher.Decider {
	return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Denied("this webhook denies all requests"), nil
	})
}

// AlwaysAllow allows everything, after a while.
func AlwaysAllow(after time.Duration) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			hangUp()
		case <-timer.C:
		}
		return usher.Decision{Verdict: usher.Allow, Message: "this webhook allows all requests"}, nil
	})
}

// hangUp leaves a caller without an answer.
func hangUp() { panic(http.ErrAbortHandler) }

// AddLabel sets the label added-label to yes.
func AddLabel() usher.Decider {
	const key, value = "added-label", "yes"
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		labels, err := labelsOf(r.Target())
		if err != nil {
			return refused(err), nil
		}
		old, has := labels[key]
		switch {
		case len(labels) == 0:
			// There may be no map to add a key to.
			return add(map[string]any{key: value}, "metadata", "labels"), nil
		case !has:
			return add(value, "metadata", "labels", key), nil
		case old != value:
			return usher.Patched(usher.PatchOp{Op: "replace", Path: usher.Pointer("metadata", "labels", key), Value: value}), nil
		}
		return usher.Allowed(), nil
	})
}

// CRDs refuses definitions of custom resources with the label webhook-e2e-test set to
// webhook-disallow.
func CRDs() usher.Decider {
	crds := func(version string) metav1.GroupVersionResource {
		return metav1.GroupVersionResource{Group: "apiextensions.k8s.io", Version: version, Resource: "customresourcedefinitions"}
	}
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		resource := metav1.GroupVersionResource(r.Resource)
		if resource != crds("v1") && resource != crds("v1beta1") {
			return usher.Denied("expect resource to be one of [%s, %s] but got %s", words(crds("v1beta1")), words(crds("v1")), words(resource)), nil
		}
		labels, err := labelsOf(r.Target())
		if err != nil {
			return refused(err), nil
		}
		if labels[mark] == "webhook-disallow" {
			return usher.Denied("the crd contains unwanted label"), nil
		}
		return usher.Allowed(), nil
	})
}

func labelsOf(object *usher.Object) (map[string]string, error) {
	var o metav1.PartialObjectMetadata
	err := object.Into(&o)
	return o.Labels, err
}

// expect returns a denial of requests for anything but the core resource, and whether it is
// one.
func expect(r *usher.Request, resource string) (usher.Decision, bool) {
	want := metav1.GroupVersionResource{Version: "v1", Resource: resource}
	if metav1.GroupVersionResource(r.Resource) == want {
		return usher.Decision{}, false
	}
	return usher.Denied("expect resource to be %s", words(want)), true
}

// words are the texts for a resource in the messages of the original.
func words(r metav1.GroupVersionResource) string {
	return fmt.Sprintf("{%s %s %s}", r.Group, r.Version, r.Resource)
}

// refused denies what cannot be read.
func refused(err error) usher.Decision { return usher.Denied("%v", err) }

// add returns the decision to add a value at the end of a path.
func add(value any, path ...string) usher.Decision {
	return usher.Patched(usher.PatchOp{Op: "add", Path: usher.Pointer(path...), Value: value})
}
