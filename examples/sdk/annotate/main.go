// Command annotate is a complete mutating webhook: every new pod gets an annotation.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/webhook"
)

const key, value = "example.com/greeting", "hello"

// annotate adds the annotation to a pod.
func annotate(_ context.Context, r *usher.Request) (usher.Decision, error) {
	var pod corev1.Pod
	if err := r.Object.Into(&pod); err != nil {
		return usher.Decision{}, err
	}
	if _, has := pod.Annotations[key]; has {
		return usher.Allowed(), nil
	}
	if len(pod.Annotations) == 0 {
		// There is no map yet: a patch cannot add to what is not there.
		return usher.Patched(usher.PatchOp{Op: "add", Path: "/metadata/annotations", Value: map[string]any{key: value}}), nil
	}
	return usher.Patched(usher.PatchOp{Op: "add", Path: usher.Pointer("metadata", "annotations", key), Value: value}), nil
}

func main() {
	var options webhook.Options
	options.AddFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.Handle("/mutate", admission.Mutate(usher.DeciderFunc(annotate), admission.Options{}))
	if err := webhook.Serve(ctx, mux, options); err != nil {
		log.Fatal(err)
	}
}
