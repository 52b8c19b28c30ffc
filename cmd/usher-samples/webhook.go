package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/door/conversion"
	"github.com/usher-dev/usher/internal/samples"
	"github.com/usher-dev/usher/observe/decisionlog"
	"github.com/usher-dev/usher/observe/metrics"
	"github.com/usher-dev/usher/webhook"
)

func newWebhook(s cli.Streams) *cobra.Command {
	var f webhookFlags
	var o samples.Options
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the sample admission webhooks of Kubernetes",
		Long: `Webhook is the sample server of the Kubernetes tutorials, 'agnhost webhook': it takes the
same flags, and has the same webhooks at the same paths.

  /always-deny               denies everything
  /always-allow-delay-5s     allows everything, after five seconds
  /add-label                 sets the label added-label to yes
  /pods                      denies pods with the label webhook-e2e-test=webhook-disallow, or a
                             container whose name contains webhook-disallow
  /pods/attach               denies to attach to container1 of to-be-attached-pod
  /mutating-pods             gives the pod webhook-to-be-mutated an init container
  /mutating-pods-sidecar     adds a container with --sidecar-image to pods
  /configmaps                denies data with webhook-e2e-test: webhook-disallow, and to delete
                             data with webhook-e2e-test: webhook-nondeletable
  /mutating-configmaps       adds mutation-stage-1 to data with mutation-start: "yes", and
                             mutation-stage-2 to data with mutation-stage-1: "yes"
  /custom-resource           as /configmaps, for custom resources
  /mutating-custom-resource  as /mutating-configmaps, for custom resources
  /crd                       denies definitions with the label webhook-e2e-test=webhook-disallow

/readyz and /metrics are beside them. Each is an ordinary Go type in package samples: read
them before you write your own, and docs/sdk.md.

Without certificate it makes one of its own, for localhost. On SIGTERM or SIGINT requests
in flight are finished, and the exit status is 0. A second signal ends the process at once.`,
		Example: `  usher-samples webhook --port 8444
  usher certs --dns webhook.default.svc --out certs
  usher-samples webhook --tls-cert-file certs/tls.crt --tls-private-key-file certs/tls.key --port 8444 -v=4
  usher-samples webhook --port 8444 --sidecar-image registry.k8s.io/pause:3.10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.serve(cmd, s, func(log *slog.Logger) http.Handler { return sampleMux(o, log) })
		},
	}
	f.register(cmd.Flags())
	cli.EndlessWithGrace(cmd)
	cmd.Flags().StringVar(&o.SidecarImage, "sidecar-image", "", "image of the container that /mutating-pods-sidecar adds; without an image it denies every pod")
	return cmd
}

// sampleMux mounts the samples as any Go program would.
func sampleMux(o samples.Options, log *slog.Logger) http.Handler {
	m := metrics.New(nil)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	for _, e := range samples.Endpoints(o) {
		options := admission.Options{Log: log}
		if e.Waits {
			options.Timeout = -1
		}
		mount := admission.Validate
		if e.Phase == usher.Mutate {
			mount = admission.Mutate
		}
		mux.Handle(e.Path, mount(m.Wrap(decisionlog.Wrap(e.Decider, log), "admission"), options))
	}
	return mux
}

func newConversionWebhook(s cli.Streams) *cobra.Command {
	var f webhookFlags
	cmd := &cobra.Command{
		Use:   "crd-conversion-webhook",
		Short: "Serve the sample conversion webhook of Kubernetes",
		Long: `Crd-conversion-webhook is the sample server of the Kubernetes tutorials that converts custom
resources between versions, 'agnhost crd-conversion-webhook': it takes the same flags.

At /crdconvert it converts objects of the group stable.example.com: what v1 has as
hostPort: "host:port", v2 has as host and port. /readyz is beside it. A converter of your
own is one Go method, too: see package door/conversion.

Without certificate it makes one of its own, for localhost. On SIGTERM or SIGINT requests
in flight are finished, and the exit status is 0. A second signal ends the process at once.`,
		Example: `  usher-samples crd-conversion-webhook --port 8444
  usher-samples crd-conversion-webhook --tls-cert-file certs/tls.crt --tls-private-key-file certs/tls.key --port 8444 -v=4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.serve(cmd, s, func(log *slog.Logger) http.Handler {
				mux := http.NewServeMux()
				mux.Handle("/crdconvert", conversion.Handler(samples.HostPort{}, conversion.Options{Log: log}))
				return mux
			})
		},
	}
	f.register(cmd.Flags())
	cli.EndlessWithGrace(cmd)
	return cmd
}

// webhookFlags are those of agnhost, and an address for those who do not want to serve
// everybody.
type webhookFlags struct {
	options   webhook.Options
	address   string
	port      int
	verbosity int
	legacy    cli.LegacyFlags
}

func (f *webhookFlags) register(flags *pflag.FlagSet) {
	f.legacy.Register(flags, "v")
	flags.StringVar(&f.options.CertFile, "tls-cert-file", "", "PEM file with the serving certificate and intermediate certificates; reloaded when it changes")
	flags.StringVar(&f.options.KeyFile, "tls-private-key-file", "", "PEM file with the private key of --tls-cert-file")
	flags.IntVar(&f.port, "port", 443, "port to listen on; 0 selects a free port")
	flags.StringVar(&f.address, "bind-address", "", "IP address to listen on (default: all addresses)")
	flags.IntVarP(&f.verbosity, "v", "v", 0, "log verbosity; from 2 on, each decision is logged")
}

// serve serves what mount returns until the command is to end.
func (f *webhookFlags) serve(cmd *cobra.Command, s cli.Streams, mount func(*slog.Logger) http.Handler) error {
	if err := f.complete(s); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	server, err := webhook.New(mount(f.options.Log), f.options)
	if errors.Is(err, os.ErrPermission) && f.port > 0 && f.port < 1024 {
		return fmt.Errorf("%w: choose another one with --port", err)
	}
	if err != nil {
		return err
	}
	trust := "--cacert CA-FILE "
	if f.options.CertFile == "" {
		trust = "--insecure "
	}
	fmt.Fprintf(s.Out, "Serving %s\nTry it:\n  curl %s%s/readyz\n", server.URL(), trust, server.URL())
	if err := server.Run(cmd.Context()); err != nil {
		fmt.Fprintln(s.Err, "usher:", err)
		return cli.ErrNegative
	}
	return nil
}

// complete turns what flags say in words into options.
func (f *webhookFlags) complete(s cli.Streams) error {
	level := "info"
	if f.verbosity >= 2 {
		level = "debug"
	}
	var err error
	if f.options.Log, err = cli.NewLog(s, "text", level); err != nil {
		return err
	}
	if len(f.legacy.Set) > 0 {
		f.options.Log.Warn("flags that have no effect here", "flags", strings.Join(f.legacy.Set, " "))
	}
	if (f.options.CertFile == "") != (f.options.KeyFile == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file come together")
	}
	if f.port < 0 || f.port > 65535 {
		return fmt.Errorf("--port %d: not between 0 and 65535", f.port)
	}
	if f.address != "" && net.ParseIP(f.address) == nil {
		return fmt.Errorf("--bind-address %s: not an IP address", f.address)
	}
	f.options.Address = net.JoinHostPort(f.address, strconv.Itoa(f.port))
	return nil
}
