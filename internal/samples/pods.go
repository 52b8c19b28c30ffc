package samples

import (
	"context"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

// Pods refuses pods with the label webhook-e2e-test set to webhook-disallow, and those with
// containers whose names have webhook-disallow in them. It never responds for pods with the label
// set to wait-forever.
func Pods() usher.Decider {
	const unwanted = "webhook-disallow"
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		if denial, is := expect(r, "pods"); is {
			return denial, nil
		}
		var pod corev1.Pod
		if err := r.Target().Into(&pod); err != nil {
			return refused(err), nil
		}
		var objections []string
		switch pod.Labels[mark] {
		case unwanted:
			objections = append(objections, "the pod contains unwanted label;")
		case "wait-forever":
			<-ctx.Done()
			hangUp()
		}
		for i := range pod.Spec.Containers {
			if strings.Contains(pod.Spec.Containers[i].Name, unwanted) {
				objections = append(objections, "the pod contains unwanted container name;")
			}
		}
		if len(objections) > 0 {
			return usher.Denied("%s", strings.Join(objections, " ")), nil
		}
		return usher.Allowed(), nil
	})
}

// PodAttach refuses to attach, with input, to the container container1 of pods called
// to-be-attached-pod.
func PodAttach() usher.Decider {
	const name = "to-be-attached-pod"
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Name != name {
			return usher.Allowed(), nil
		}
		if denial, is := expect(r, "pods"); is {
			denial.Message += ", got " + words(metav1.GroupVersionResource(r.Resource))
			return denial, nil
		}
		if r.Subresource != "attach" {
			return usher.Denied("expect subresource to be attach, got %s", r.Subresource), nil
		}
		var options corev1.PodAttachOptions
		if err := r.Object.Into(&options); err != nil {
			return refused(err), nil
		}
		if !options.Stdin || options.Container != "container1" {
			return usher.Allowed(), nil
		}
		return usher.Denied("attaching to pod '%s' is not allowed", name), nil
	})
}

// InitContainer replaces the init containers of pods called webhook-to-be-mutated by
// webhook-added-init-container.
func InitContainer() usher.Decider {
	const name = "webhook-added-init-container"
	return podChange(func(pod *corev1.Pod) usher.Decision {
		if pod.Name != "webhook-to-be-mutated" || hasContainer(pod.Spec.InitContainers, name) {
			return usher.Allowed()
		}
		return add([]any{container(name, "webhook-added-image")}, "spec", "initContainers")
	})
}

// Sidecar adds the container webhook-added-sidecar to pods, with the image. Without an
// image it denies everything.
func Sidecar(image string) usher.Decider {
	const name = "webhook-added-sidecar"
	if image == "" {
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			d := usher.Denied("No image specified by the sidecar-image parameter")
			d.Code = http.StatusInternalServerError
			return d, nil
		})
	}
	return podChange(func(pod *corev1.Pod) usher.Decision {
		if hasContainer(pod.Spec.Containers, name) {
			return usher.Allowed()
		}
		return add(container(name, image), "spec", "containers", "-")
	})
}

// podChange is a decider that sees pods only.
func podChange(change func(pod *corev1.Pod) usher.Decision) usher.Decider {
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if denial, is := expect(r, "pods"); is {
			return denial, nil
		}
		var pod corev1.Pod
		if err := r.Target().Into(&pod); err != nil {
			return refused(err), nil
		}
		return change(&pod), nil
	})
}

func hasContainer(containers []corev1.Container, name string) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Name == name })
}

func container(name, image string) map[string]any {
	return map[string]any{"name": name, "image": image, "resources": map[string]any{}}
}
