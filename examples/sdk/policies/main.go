// Command policies is a webhook that decides by the policies in a folder.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
	"github.com/usher-dev/usher/webhook"
)

func main() {
	live.Main() // Usher's own processes are this program: there it does not return.
	var o webhook.Options
	o.AddFlags(flag.CommandLine)
	folder := flag.String("policies", "policies", "folder with policies, which is watched")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *folder, o)
	stop()
	if err != nil {
		slog.Error("webhook ends", "error", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, folder string, o webhook.Options) error {
	policies := live.New(live.Options{Log: slog.Default()})
	o.Ready = func() error {
		if !slices.ContainsFunc(policies.Policies(), func(p live.Policy) bool { return p.Enforced }) {
			return errors.New("no policies in force")
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/mutate", admission.Mutate(policies, admission.Options{}))
	mux.Handle("/validate", admission.Validate(policies, admission.Options{}))

	group, serving := errgroup.WithContext(ctx)
	following, end := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return policies.Run(following, dir.New(folder)) })
	group.Go(func() error {
		defer end() // Policies decide until the last request is finished.
		return webhook.Serve(serving, mux, o)
	})
	return group.Wait()
}
