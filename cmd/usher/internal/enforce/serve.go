// Package enforce has the commands that start and stop enforcing policies in a cluster.
package enforce

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/observe/spans"
	"github.com/usher-dev/usher/internal/observe/trace"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve"
)

// protectedUsersFlag names the file of the protected users.
const protectedUsersFlag = "authorization-protected-users-file"

type serveFlags struct {
	config          serve.Config
	cluster         clusterFlags
	legacy          cli.LegacyFlags
	limits          policies.Limits
	failurePolicy   string
	tlsMinVersion   string
	logFormat       string
	logLevel        string
	cueMemory       string
	policyBytes     string
	traceLabel      string
	traceAnnotation string
	tracing         string
	authorization   authorizationFlags
	api             apiFlags
	audit           auditFlags
}

// Serve returns usher serve.
func Serve(s cli.Streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve webhooks that enforce policies",
		Long: `Serve answers the admission webhooks of an API server over HTTPS, at /mutate and
/validate.

With --policies it needs no cluster: policies are files, and an edit takes effect within a
second. If an edit does not compile, the previous policies stay in effect, and the error
appears in the log, the metrics and /readyz?verbose. Without --tls-cert-file it generates
a CA and a certificate for localhost.

With --kubeconfig, or --in-cluster in a pod, it also reads policies from the cluster. Their
status shows whether they are enforced. Usher creates webhook configurations that select no
more than the policies need; 'usher uninstall' removes them. In a pod --in-cluster is the
default if there are no --policies.

With --authorization-address it also serves authorization webhooks over HTTPS at that
address: /authorize/deny only denies, /authorize/allow only allows, /authorize does both.
'usher authz config' writes the configuration for API servers.

With --api-address it also serves the Usher API over HTTPS at that address, for people and
tools: GET /usher/v1/ returns what the caller may read. The cluster authenticates and
authorizes its users.

With --audit one replica also judges the objects that exist, and keeps the results current.
/readyz?verbose names the kinds that it may not read.

On SIGTERM /readyz fails, in-flight requests complete, and the exit status is 0.`,
		Example: `  usher serve --policies policies/
  usher serve --policies policies/ --facts objects/ --log-level debug
  usher serve --policies /etc/usher --bind-address 0.0.0.0 \
    --tls-cert-file tls.crt --tls-private-key-file tls.key
  usher serve --kubeconfig ~/.kube/config --webhook-url https://192.0.2.7:8443 --bind-address 192.0.2.7
  usher serve --in-cluster --service usher --cert-secret usher-cert
  usher serve --policies /etc/usher --authorization-address 127.0.0.1:8444 \
    --authorization-client-ca-file /etc/usher/pki/ca.crt --authorization-client-names kube-apiserver`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd, s); err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			klog.SetSlogLogger(f.config.Log.With("from", "client-go"))
			limitProcessors()
			server, err := serve.New(cmd.Context(), f.config)
			if err != nil {
				return err
			}
			if err := server.Run(cmd.Context()); err != nil {
				fmt.Fprintln(s.Err, "usher:", err)
				return cli.ErrNegative
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
	cli.EndlessWithGrace(cmd)
	cli.GroupFlags(cmd, flagGroups()...)
	f.legacy.Register(flags)
	f.cluster.registerIn(flags)
	f.authorization.register(flags)
	f.api.register(flags)
	f.audit.register(flags)
	flags.StringArrayVarP(&c.Policies, "policies", "p", nil, "file or folder with policies (repeatable); watched for changes")
	flags.StringArrayVar(&c.Facts.Files, "facts", nil, "file or folder with objects that exist in the cluster (repeatable); for servers without a cluster")
	flags.StringVar(&c.Listen.Address, "bind-address", "127.0.0.1", "IP address to listen on; with --in-cluster the default is 0.0.0.0")
	flags.IntVar(&c.Listen.Port, "port", 8443, "port to listen on; 0 selects a free port")
	flags.StringVar(&c.Listen.MetricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address and port of /metrics, which has names of policies only at loopback addresses; 0 disables them")
	flags.BoolVar(&c.Listen.Profile, "enable-pprof", false, "serve profiles at /debug/pprof on the metrics address, without authentication")
	flags.StringVar(&c.TLS.CertFile, "tls-cert-file", "", "PEM file with the serving certificate and intermediate certificates; reloaded when it changes")
	flags.StringVar(&c.TLS.KeyFile, "tls-private-key-file", "", "PEM file with the private key of --tls-cert-file")
	flags.StringVar(&c.TLS.CAFile, "tls-ca-file", "", "PEM file with the CA certificates that API servers use to verify --tls-cert-file")
	flags.StringVar(&c.Callers.ClientCAFile, "client-ca-file", "", "PEM file with CA certificates; clients must present a certificate that one of them signed")
	flags.StringSliceVar(&c.Callers.ClientNames, "client-names", nil, "common names, DNS names and URIs that client certificates of --client-ca-file must have; empty accepts any")
	flags.StringVar(&c.Callers.TokenFile, "token-file", "", "file with bearer tokens; one per line, and clients must send one of them")
	flags.StringVar(&c.TLS.CertDir, "cert-dir", "", "folder for the CA and certificate that are generated without --tls-cert-file")
	flags.StringVar(&f.tlsMinVersion, "tls-min-version", "1.3", "minimum TLS version: 1.2 or 1.3")
	flags.StringVar(&c.Protection.UsersFile, protectedUsersFlag, "", "YAML file with protected users, in the form of spec.subjects of a policy; authorization policies never deny their requests, nor those of the control plane and nodes")
	flags.StringVar(&c.Protection.KillSwitchFile, "authorization-kill-switch", "", "kill switch: while this file exists, authorization policies deny no request")
	flags.StringVar(&f.failurePolicy, "failure-policy", string(usher.Fail), "how to handle a request when a rule fails: Fail denies it, Ignore skips the rule")
	flags.DurationVar(&c.Rules.Timeout, "rule-timeout", time.Second, "timeout of one rule for one request")
	flags.DurationVar(&c.Requests.Timeout, "request-timeout", 10*time.Second, "timeout of requests that do not specify one")
	flags.Int64Var(&c.Requests.MaxBody, "max-body-bytes", 32<<20, "maximum size of a review, in bytes; larger ones are rejected")
	flags.IntVar(&c.Requests.MaxInFlight, "max-in-flight", 400, "maximum number of concurrent admission requests; excess requests wait up to 1s, then get 429")
	flags.IntVar(&c.Rules.CUE.Workers, "cue-workers", 0, "number of processes that compile policies, and evaluate CUE that cannot be compiled; 0 means one per processor, at most 4")
	flags.StringVar(&f.cueMemory, "cue-worker-memory", "128Mi", "memory limit of each of these processes, in addition to the 15Mi that it uses at startup")
	flags.IntVar(&c.Rules.Quota.Policies, "namespace-policies", 100, "maximum number of policies of each kind in a namespace; the oldest ones stay in effect; -1 means no limit")
	flags.StringVar(&f.policyBytes, "namespace-policy-bytes", "1Mi", "maximum total size of the policies of each kind in a namespace; -1 means no limit")
	flags.DurationVar(&c.Rules.LongestExemption, "max-exemption-duration", rule.LongestExemption, "maximum time from writing an exemption until it expires; 0 means no limit")
	flags.DurationVar(&c.Facts.TTL, "fact-ttl", 10*time.Second, "how long responses of HTTP services are cached; 0 disables caching")
	f.limits.Register(cmd)
	flags.BoolVar(&c.Facts.AllowLocal, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses, and Usher itself")
	flags.Float64Var(&c.Trace.Sample, "trace-sample", 0, "fraction of requests to explain in the log, rule by rule: 0.01 is 1%")
	flags.StringVar(&f.traceLabel, "trace-label", "", "explain requests about objects with this label in the log: key or key=value")
	flags.StringVar(&f.traceAnnotation, "trace-annotation", "", "explain requests about objects with this annotation in the log: key or key=value")
	flags.StringVar(&f.tracing, "tracing-config-file", "", "TracingConfiguration of Kubernetes components: send OpenTelemetry spans of requests to a collector, over OTLP/gRPC without TLS")
	flags.DurationVar(&c.Listen.ShutdownGrace, "shutdown-grace", 10*time.Second, "how long to wait for in-flight requests on SIGTERM or SIGINT; a second signal ends the process at once")
	flags.StringVar(&f.logFormat, "log-format", "text", "log format: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "log level: debug, info, warn or error")
	cli.Offer(cmd, "admission-policies", string(serve.ReadAdmissionPolicies), string(serve.EnforceAdmissionPolicies), string(serve.IgnoreAdmissionPolicies))
	cli.Offer(cmd, "log-format", "text", "json")
	cli.Offer(cmd, "log-level", "debug", "info", "warn", "error")
	cli.Offer(cmd, "tls-min-version", "1.2", "1.3")
	cli.Offer(cmd, "failure-policy", string(usher.Fail), string(usher.Ignore))
	cli.Offer(cmd, "webhook-failure-policy", string(admissionv1.Fail), string(admissionv1.Ignore))
}

// takeLimits sets the limits on what policies may do.
func (f *serveFlags) takeLimits() (err error) {
	f.config.Rules.Limits, err = f.limits.Limits()
	return err
}

// complete parses the flags that hold text and completes the configuration.
func (f *serveFlags) complete(cmd *cobra.Command, s cli.Streams) error {
	c := &f.config
	var err error
	if c.Log, err = cli.NewLog(s, f.logFormat, f.logLevel); err != nil {
		return err
	}
	if f.logFormat != "json" {
		// Log collectors that read JSON have the same from the log.
		c.Out = s.Out
	}
	if len(f.legacy.Set) > 0 {
		c.Log.Warn("flags that have no effect here", "flags", strings.Join(f.legacy.Set, " "), "do", "use --log-level and --log-format")
	}
	if err := f.chooseCluster(cmd); err != nil {
		return err
	}
	if err := f.checkEndpoints(); err != nil {
		return err
	}
	if err := cmp.Or(f.takeLimits(), f.checkWorkers()); err != nil {
		return err
	}
	if err := f.checkQuota(); err != nil {
		return err
	}
	c.Trace.Label, c.Trace.Annotation = markOf(f.traceLabel), markOf(f.traceAnnotation)
	if err := f.checkFiles(); err != nil {
		return err
	}
	if err := f.completeParts(cmd.Flags().Changed); err != nil {
		return err
	}
	switch f.tlsMinVersion {
	case "1.2":
		c.TLS.MinVersion = tls.VersionTLS12
	case "1.3":
		c.TLS.MinVersion = tls.VersionTLS13
	default:
		return fmt.Errorf("--tls-min-version %s: use 1.2 or 1.3", f.tlsMinVersion)
	}
	switch c.Rules.FailurePolicy = usher.FailurePolicy(f.failurePolicy); c.Rules.FailurePolicy {
	case usher.Fail, usher.Ignore:
	default:
		return fmt.Errorf("--failure-policy %s: use Fail or Ignore", f.failurePolicy)
	}
	return nil
}

// checkEndpoints checks the flags for what the server serves where.
func (f *serveFlags) checkEndpoints() error {
	c := &f.config
	switch {
	case net.ParseIP(c.Listen.Address) == nil:
		return fmt.Errorf("--bind-address %s: not an IP address", c.Listen.Address)
	case c.Listen.Port < 0 || c.Listen.Port > 65535:
		return fmt.Errorf("--port %d: must be between 0 and 65535", c.Listen.Port)
	case c.Requests.MaxInFlight < 1:
		return fmt.Errorf("--max-in-flight %d: must be at least 1", c.Requests.MaxInFlight)
	case c.Listen.Profile && !c.Listen.Metered():
		return errors.New("--enable-pprof: profiles are served beside the metrics, which --metrics-bind-address disables")
	case c.Trace.Sample < 0 || c.Trace.Sample > 1:
		return fmt.Errorf("--trace-sample %v: must be between 0 and 1", c.Trace.Sample)
	}
	return nil
}

// completeParts completes what the server does besides admission; given says which flags are set.
func (f *serveFlags) completeParts(given func(flag string) bool) (err error) {
	c := &f.config
	if c.Authorization, err = f.authorization.complete(given); err != nil {
		return err
	}
	if f.tracing != "" {
		if c.Spans, err = spans.Load(f.tracing); err != nil {
			return fmt.Errorf("--tracing-config-file: %w", err)
		}
		c.Version = cli.BuildVersion().Version
	}
	if c.API, err = f.api.complete(given, c.Cluster != nil); err != nil {
		return err
	}
	c.Audit, err = f.audit.complete(given, c.Cluster != nil)
	return err
}

// checkWorkers checks and applies the flags for the processes that evaluate CUE.
func (f *serveFlags) checkWorkers() error {
	c := &f.config.Rules.CUE
	if c.Workers < 0 {
		return fmt.Errorf("--cue-workers %d: must not be negative", c.Workers)
	}
	memory, err := resource.ParseQuantity(f.cueMemory)
	if err != nil {
		return fmt.Errorf("--cue-worker-memory %s: expected a quantity such as 128Mi", f.cueMemory)
	}
	if c.Memory = memory.Value(); c.Memory < worker.MinMemory {
		return fmt.Errorf("--cue-worker-memory %s: must be at least %dMi", f.cueMemory, worker.MinMemory>>20)
	}
	return nil
}

// checkQuota checks and applies the flags that limit exemptions and the policies of a namespace.
func (f *serveFlags) checkQuota() error {
	if d := f.config.Rules.LongestExemption; d < 0 {
		return fmt.Errorf("--max-exemption-duration %s: must not be negative; 0 means no limit", d)
	}
	q := &f.config.Rules.Quota
	if q.Policies == 0 || q.Policies < -1 {
		return fmt.Errorf("--namespace-policies %d: expected a positive number, or -1 for any number", q.Policies)
	}
	bytes, err := resource.ParseQuantity(f.policyBytes)
	if err != nil || bytes.Value() < -1 || bytes.Value() == 0 || bytes.Value() > 1<<40 {
		return fmt.Errorf("--namespace-policy-bytes %s: expected a quantity such as 1Mi, or -1 for any length", f.policyBytes)
	}
	q.Bytes = int(bytes.Value())
	return nil
}

// chooseCluster determines whether the server uses a cluster, and sets the defaults that depend on
// it.
func (f *serveFlags) chooseCluster(cmd *cobra.Command) error {
	c := &f.config
	given := cmd.Flags().Changed
	if !given("in-cluster") && f.cluster.Kubeconfig == "" && len(c.Policies) == 0 {
		f.cluster.InCluster = os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	}
	if !f.cluster.Given() && len(c.Policies) == 0 {
		return errors.New("no policies: name a file or folder with --policies, or a cluster with --kubeconfig or --in-cluster")
	}
	if slices.Contains(c.Policies, "-") {
		return errors.New("--policies -: the server watches files: name a file or folder")
	}
	if f.cluster.Given() && len(c.Facts.Files) > 0 {
		return errors.New("--facts are for servers without a cluster")
	}
	if f.cluster.InCluster && !given("bind-address") {
		c.Listen.Address = "0.0.0.0"
	}
	c.Rules.WriteSpecs = f.cluster.writesSpecs(given("write-specs"))
	var err error
	c.Cluster, err = f.cluster.complete(c.TLS.CertFile != "", c.Log)
	if err == nil && c.Cluster != nil && c.Cluster.CertSecret != "" && c.TLS.CertDir != "" {
		c.Log.Warn("--cert-dir has no effect: the certificate is kept in a Secret", "secret", c.Cluster.CertSecret)
	}
	return err
}

// markOf reads key or key=value.
func markOf(text string) trace.Mark {
	key, value, _ := strings.Cut(text, "=")
	return trace.Mark{Key: key, Value: value}
}

func (f *serveFlags) checkFiles() error {
	c := &f.config
	switch {
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file come together")
	case c.TLS.CAFile != "" && c.TLS.CertFile == "":
		return errors.New("--tls-ca-file belongs to --tls-cert-file")
	case len(c.Callers.ClientNames) > 0 && c.Callers.ClientCAFile == "":
		return errors.New("--client-names need --client-ca-file: names can be believed only if somebody vouches for them")
	}
	return nil
}
