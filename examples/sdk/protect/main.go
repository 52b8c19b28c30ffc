// Command protect is a complete validating webhook: what is labelled example.com/protected
// cannot be deleted, and only administrators can take the label off.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/webhook"
)

const label = "example.com/protected"

// protect refuses what would undo the protection of an object, of any kind.
func protect(_ context.Context, r *usher.Request) (usher.Decision, error) {
	if r.Operation != usher.Delete && r.Operation != usher.Update {
		return usher.Allowed(), nil
	}
	before, err := protected(r.OldObject)
	if err != nil || !before {
		return usher.Allowed(), err
	}
	if r.Operation == usher.Delete {
		return usher.Denied("%s %s is protected: remove the label %s first", r.Kind.Kind, r.Name, label), nil
	}
	after, err := protected(r.Object)
	if err != nil || after || slices.Contains(r.User.Groups, "system:masters") {
		return usher.Allowed(), err
	}
	return usher.Denied("the label %s may be removed by administrators only", label), nil
}

func protected(object *usher.Object) (bool, error) {
	var o metav1.PartialObjectMetadata
	err := object.Into(&o)
	return o.Labels[label] == "true", err
}

func main() {
	var options webhook.Options
	options.AddFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.Handle("/validate", admission.Validate(usher.DeciderFunc(protect), admission.Options{}))
	if err := webhook.Serve(ctx, mux, options); err != nil {
		log.Fatal(err)
	}
}
