package usher_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	usher "github.com/usher-dev/usher"
)

// A decider with Go types, which returns an error for each wrong field. The complete program is in
// examples/sdk/images.
func ExampleValidated() {
	noHostPorts := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		var pod corev1.Pod
		if err := r.Object.Into(&pod); err != nil {
			return usher.Decision{}, err
		}
		var errs field.ErrorList
		for i, container := range pod.Spec.Containers {
			for k, port := range container.Ports {
				if port.HostPort != 0 {
					path := field.NewPath("spec", "containers").Index(i).Child("ports").Index(k).Child("hostPort")
					errs = append(errs, field.Forbidden(path, "ports of nodes are for administrators"))
				}
			}
		}
		return usher.Validated(errs), nil
	})

	pod := usher.RawObject([]byte(`{"spec":{"containers":[{"ports":[{"containerPort":80},{"hostPort":443}]}]}}`))
	decision, _ := noHostPorts(context.Background(), &usher.Request{Object: pod})
	fmt.Println(decision.Reason)
	fmt.Println(decision.Message)
	// Output:
	// Invalid
	// spec.containers[0].ports[1].hostPort: Forbidden: ports of nodes are for administrators
}
