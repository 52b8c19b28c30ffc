// Command images is a complete validating webhook with Go types and field errors: images
// of pods come from one registry, and in a version that stays what it is.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/webhook"
)

const registry = "registry.example.com/"

// images refuses pods with images that it objects to, and says so of every one of them.
func images(_ context.Context, r *usher.Request) (usher.Decision, error) {
	var pod corev1.Pod
	if err := r.Object.Into(&pod); err != nil {
		return usher.Decision{}, err
	}
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for i := range pod.Spec.InitContainers {
		errs = append(errs, check(pod.Spec.InitContainers[i].Image, spec.Child("initContainers").Index(i))...)
	}
	for i := range pod.Spec.Containers {
		errs = append(errs, check(pod.Spec.Containers[i].Image, spec.Child("containers").Index(i))...)
	}
	for i := range pod.Spec.EphemeralContainers {
		errs = append(errs, check(pod.Spec.EphemeralContainers[i].Image, spec.Child("ephemeralContainers").Index(i))...)
	}
	return usher.Validated(errs), nil
}

func check(image string, container *field.Path) field.ErrorList {
	path := container.Child("image")
	name, isOurs := strings.CutPrefix(image, registry)
	if !isOurs {
		return field.ErrorList{field.Invalid(path, image, "images come from "+registry)}
	}
	if _, tag, _ := strings.Cut(name, ":"); tag == "" || tag == "latest" {
		return field.ErrorList{field.Invalid(path, image, "a tag other than latest is required")}
	}
	return nil
}

func main() {
	var options webhook.Options
	options.AddFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.Handle("/validate", admission.Validate(usher.DeciderFunc(images), admission.Options{}))
	if err := webhook.Serve(ctx, mux, options); err != nil {
		log.Fatal(err)
	}
}
