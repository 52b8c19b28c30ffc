package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/internal/serve"
)

type serveFlags struct {
	config        serve.Config
	failurePolicy string
	tlsMinVersion string
	logFormat     string
	logLevel      string
}

func newServe(s streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --policies DIR",
		Short: "Serve admission webhooks that enforce policies",
		Long: `Serve answers the admission webhooks of an API server over HTTPS, at /mutate and
/validate. It needs no cluster: policies are files, and an edit is in force within a
second. An edit that does not compile changes nothing; it is logged, counted in the
metrics and shown at /readyz?verbose.

Without certificate it makes a CA and a certificate of its own, for localhost.

On SIGTERM /readyz fails, requests in flight are finished, and the exit status is 0.`,
		Example: `  usher serve --policies policies/
  usher serve --policies policies/ --facts objects/ --log-level debug
  usher serve --policies /etc/usher --bind-address 0.0.0.0 \
    --tls-cert-file tls.crt --tls-private-key-file tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.config.Out = s.out
			if err := f.complete(s); err != nil {
				return &usageError{command: cmd.CommandPath(), err: err}
			}
			server, err := serve.New(f.config)
			if err != nil {
				return err
			}
			if err := server.Run(cmd.Context()); err != nil {
				fmt.Fprintln(s.err, "usher:", err)
				return errNegative
			}
			return nil
		},
	}
	f.register(cmd)
	return cmd
}

func (f *serveFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	c := &f.config
	flags.StringArrayVarP(&c.Policies, "policies", "p", nil, "file or folder with policies, watched (repeatable)")
	flags.StringArrayVar(&c.Facts, "facts", nil, "file or folder with objects that exist in the cluster (repeatable)")
	flags.StringVar(&c.BindAddress, "bind-address", "127.0.0.1", "IP address to listen on")
	flags.IntVar(&c.Port, "port", 8443, "port of the webhooks; 0 takes a free one")
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address and port of /metrics; 0 disables them")
	flags.StringVar(&c.CertFile, "tls-cert-file", "", "certificate in PEM, with those between it and the CA; read again when it changes")
	flags.StringVar(&c.KeyFile, "tls-private-key-file", "", "private key in PEM of --tls-cert-file")
	flags.StringVar(&c.CertDir, "cert-dir", "", "folder in which to keep the CA and certificate that are made without --tls-cert-file")
	flags.StringVar(&f.tlsMinVersion, "tls-min-version", "1.3", "lowest TLS version to accept: 1.2 or 1.3")
	flags.StringVar(&f.failurePolicy, "failure-policy", string(engine.Fail), "what becomes of a request when a rule fails: Fail denies it, Ignore goes on without the rule")
	flags.DurationVar(&c.RuleTimeout, "rule-timeout", time.Second, "how long the programs of one rule may run for one request")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", 10*time.Second, "how long a request may take that does not say so itself")
	flags.Int64Var(&c.MaxBody, "max-body-bytes", 32<<20, "largest review that is decided")
	flags.DurationVar(&c.FactTTL, "fact-ttl", 10*time.Second, "how long the answer of an HTTP service is used again; 0 asks every time")
	flags.BoolVar(&c.AllowLocalFacts, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses")
	flags.DurationVar(&c.ShutdownGrace, "shutdown-grace", 10*time.Second, "how long requests in flight may take to finish on SIGTERM")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
}

// complete turns what flags say in words into the configuration.
func (f *serveFlags) complete(s streams) error {
	c := &f.config
	if len(c.Policies) == 0 {
		return errors.New("no policies: name a file or folder with --policies")
	}
	if net.ParseIP(c.BindAddress) == nil {
		return fmt.Errorf("--bind-address %s: not an IP address", c.BindAddress)
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("--port %d: not between 0 and 65535", c.Port)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file come together")
	}
	switch f.tlsMinVersion {
	case "1.2":
		c.TLSMinVersion = tls.VersionTLS12
	case "1.3":
		c.TLSMinVersion = tls.VersionTLS13
	default:
		return fmt.Errorf("--tls-min-version %s: use 1.2 or 1.3", f.tlsMinVersion)
	}
	switch c.FailurePolicy = engine.FailurePolicy(f.failurePolicy); c.FailurePolicy {
	case engine.Fail, engine.Ignore:
	default:
		return fmt.Errorf("--failure-policy %s: use Fail or Ignore", f.failurePolicy)
	}
	var err error
	c.Log, err = newLog(s, f.logFormat, f.logLevel)
	return err
}

func newLog(s streams, format, level string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, fmt.Errorf("--log-level %s: use debug, info, warn or error", level)
	}
	options.Level = threshold
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(s.err, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(s.err, options)), nil
	}
	return nil, fmt.Errorf("--log-format %s: use text or json", format)
}
