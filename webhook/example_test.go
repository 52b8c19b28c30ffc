package webhook_test

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/webhook"
)

// The main function of a webhook. The certificate is made by usher certs.
func ExampleServe() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	decide := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Denied("not today"), nil
	})
	mux := http.NewServeMux()
	mux.Handle("/validate", admission.Validate(decide, admission.Options{}))
	options := webhook.Options{CertFile: "certs/tls.crt", KeyFile: "certs/tls.key"}
	if err := webhook.Serve(ctx, mux, options); err != nil {
		log.Fatal(err)
	}
}
