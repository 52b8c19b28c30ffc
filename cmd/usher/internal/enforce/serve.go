// Package enforce has the commands that put policies into force in a cluster, and end that.
package enforce

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/internal/serve"
	"github.com/usher-dev/usher/lang/cue/worker"
)

// protectedUsersFlag names the file of the protected users.
const protectedUsersFlag = "authorization-protected-users-file"

type serveFlags struct {
	config          serve.Config
	cluster         clusterFlags
	legacy          cli.LegacyFlags
	failurePolicy   string
	tlsMinVersion   string
	logFormat       string
	logLevel        string
	cueMemory       string
	policyBytes     string
	traceLabel      string
	traceAnnotation string
	authorization   authorizationFlags
	api             apiFlags
}

// Serve returns usher serve.
func Serve(s cli.Streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve webhooks that enforce policies",
		Long: `Serve answers the admission webhooks of an API server over HTTPS, at /mutate and
/validate.

With --policies it needs no cluster: policies are files, and an edit is in force within a
second. An edit that does not compile changes nothing; it is logged, counted in the
metrics and shown at /readyz?verbose. Without certificate it makes a CA and a certificate
of its own, for localhost.

With --kubeconfig, or --in-cluster in a pod, policies are objects of the cluster, besides
those in files. Their status says what became of them. API servers are told to call this
server, for no more than the policies need; 'usher uninstall' tells them to stop. In a pod
--in-cluster is the default if there are no --policies.

With --authorization-address it also answers the authorization webhooks of API servers,
over HTTPS at that address: /authorize/deny only denies, /authorize/allow only allows,
/authorize does both. 'usher authz config' writes what an API server needs to ask.

With --api-address it serves an API of its own over HTTPS at that address, for people and
tools rather than API servers: GET /usher/v1/ says what the caller may read. Users and
rights are those of the cluster.

On SIGTERM /readyz fails, requests in flight are finished, and the exit status is 0.`,
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
			f.config.Out = s.Out
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
	f.legacy.Register(flags)
	f.cluster.registerIn(flags)
	f.authorization.register(flags)
	f.api.register(flags)
	flags.StringArrayVarP(&c.Policies, "policies", "p", nil, "file or folder with policies, watched (repeatable)")
	flags.StringArrayVar(&c.Facts, "facts", nil, "without a cluster, file or folder with objects that exist in it (repeatable)")
	flags.StringVar(&c.BindAddress, "bind-address", "127.0.0.1", "IP address to listen on (default with --in-cluster: 0.0.0.0)")
	flags.IntVar(&c.Port, "port", 8443, "port of the webhooks; 0 takes a free one")
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address and port of /metrics; 0 disables them")
	flags.BoolVar(&c.Profile, "enable-pprof", false, "serve profiles of the process at /debug/pprof beside the metrics, to everybody who can reach them")
	flags.StringVar(&c.CertFile, "tls-cert-file", "", "certificate in PEM, with those between it and the CA; read again when it changes")
	flags.StringVar(&c.KeyFile, "tls-private-key-file", "", "private key in PEM of --tls-cert-file")
	flags.StringVar(&c.CAFile, "tls-ca-file", "", "certificates in PEM by which API servers are to trust --tls-cert-file")
	flags.StringVar(&c.ClientCAFile, "client-ca-file", "", "certificates in PEM; who asks for decisions must have a certificate of one of them")
	flags.StringSliceVar(&c.ClientNames, "client-names", nil, "common names and DNS names of those who may ask, of all whom --client-ca-file vouches for")
	flags.StringVar(&c.TokenFile, "token-file", "", "file with bearer tokens, one a line; who asks for decisions must send one of them")
	flags.StringVar(&c.CertDir, "cert-dir", "", "folder in which to keep the CA and certificate that are made without --tls-cert-file")
	flags.StringVar(&f.tlsMinVersion, "tls-min-version", "1.3", "lowest TLS version to accept: 1.2 or 1.3")
	flags.StringVar(&c.Protection.UsersFile, protectedUsersFlag, "", "YAML file with protected users, in the form of spec.subjects of a policy; authorization policies never deny their requests, nor those of the control plane and nodes")
	cli.DeprecatedFlag(flags, protectedUsersFlag, "authorization-immune-file")
	flags.StringVar(&c.Protection.KillSwitchFile, "authorization-kill-switch", "", "kill switch: while this file exists, authorization policies deny no request")
	flags.StringVar(&f.failurePolicy, "failure-policy", string(engine.Fail), "what becomes of a request when a rule fails: Fail denies it, Ignore goes on without the rule")
	flags.DurationVar(&c.RuleTimeout, "rule-timeout", time.Second, "how long the programs of one rule may run for one request")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", 10*time.Second, "how long a request may take that does not say so itself")
	flags.Int64Var(&c.MaxBody, "max-body-bytes", 32<<20, "largest review that is decided")
	flags.IntVar(&c.MaxInFlight, "max-in-flight", 400, "how many admission requests are decided at a time; excess requests wait up to 1s, then get 429")
	flags.IntVar(&c.CUE.Workers, "cue-workers", 0, "how many processes evaluate CUE that is not compiled; 0 means one for each processor, and 4 at most")
	flags.StringVar(&f.cueMemory, "cue-worker-memory", "128Mi", "how much memory each of --cue-workers may take, besides the 15Mi that it has when it starts")
	flags.IntVar(&c.Quota.Policies, "namespace-policies", 100, "how many policies of each kind a namespace of the cluster may have; the oldest stay in force. -1 means any number")
	flags.StringVar(&f.policyBytes, "namespace-policy-bytes", "1Mi", "how long the policies of each kind in a namespace of the cluster may be together; -1 means any length")
	flags.DurationVar(&c.FactTTL, "fact-ttl", 10*time.Second, "how long the answer of an HTTP service is used again; 0 asks every time")
	flags.BoolVar(&c.AllowLocalFacts, "allow-local-facts", false, "let policies call HTTP services on loopback and link-local addresses, and Usher itself")
	flags.Float64Var(&c.Trace.Sample, "trace-sample", 0, "share of requests to explain in the log, rule by rule: 0.01 is one in a hundred")
	flags.StringVar(&f.traceLabel, "trace-label", "", "explain requests about objects with this label in the log: key or key=value")
	flags.StringVar(&f.traceAnnotation, "trace-annotation", "", "explain requests about objects with this annotation in the log: key or key=value")
	flags.DurationVar(&c.ShutdownGrace, "shutdown-grace", 10*time.Second, "how long requests in flight may take to finish on SIGTERM")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
}

// complete turns what flags say in words into the configuration.
func (f *serveFlags) complete(cmd *cobra.Command, s cli.Streams) error {
	c := &f.config
	var err error
	if c.Log, err = cli.NewLog(s, f.logFormat, f.logLevel); err != nil {
		return err
	}
	if len(f.legacy.Set) > 0 {
		c.Log.Warn("flags that have no effect here", "flags", strings.Join(f.legacy.Set, " "), "do", "use --log-level and --log-format")
	}
	if err := f.chooseCluster(cmd); err != nil {
		return err
	}
	if net.ParseIP(c.BindAddress) == nil {
		return fmt.Errorf("--bind-address %s: not an IP address", c.BindAddress)
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("--port %d: not between 0 and 65535", c.Port)
	}
	if c.MaxInFlight < 1 {
		return fmt.Errorf("--max-in-flight %d: nothing would ever be decided", c.MaxInFlight)
	}
	if c.Profile && (c.MetricsAddress == "" || c.MetricsAddress == "0") {
		return errors.New("--enable-pprof: profiles are served beside the metrics, which --metrics-bind-address disables")
	}
	if c.Trace.Sample < 0 || c.Trace.Sample > 1 {
		return fmt.Errorf("--trace-sample %v: not between 0 and 1", c.Trace.Sample)
	}
	if err := f.checkWorkers(); err != nil {
		return err
	}
	if err := f.checkQuota(); err != nil {
		return err
	}
	c.Trace.Label, c.Trace.Annotation = markOf(f.traceLabel), markOf(f.traceAnnotation)
	if err := f.checkFiles(); err != nil {
		return err
	}
	if c.Authorization, err = f.authorization.complete(cmd.Flags().Changed); err != nil {
		return err
	}
	if c.API, err = f.api.complete(cmd.Flags().Changed, c.Cluster != nil); err != nil {
		return err
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
	return nil
}

// checkWorkers takes over what flags say of the processes that evaluate CUE.
func (f *serveFlags) checkWorkers() error {
	c := &f.config.CUE
	if c.Workers < 0 {
		return fmt.Errorf("--cue-workers %d: cannot be negative", c.Workers)
	}
	memory, err := resource.ParseQuantity(f.cueMemory)
	if err != nil {
		return fmt.Errorf("--cue-worker-memory %s: expected a quantity such as 128Mi", f.cueMemory)
	}
	if c.Memory = memory.Value(); c.Memory < worker.MinMemory {
		return fmt.Errorf("--cue-worker-memory %s: less than %dMi is not enough for anything", f.cueMemory, worker.MinMemory>>20)
	}
	return nil
}

// checkQuota takes over what flags say of the policies of a namespace.
func (f *serveFlags) checkQuota() error {
	q := &f.config.Quota
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

// chooseCluster finds out whether there is a cluster, and what else follows from that.
func (f *serveFlags) chooseCluster(cmd *cobra.Command) error {
	c := &f.config
	given := cmd.Flags().Changed
	if !given("in-cluster") && f.cluster.Kubeconfig == "" && len(c.Policies) == 0 {
		f.cluster.InCluster = os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	}
	if !f.cluster.Given() && len(c.Policies) == 0 {
		return errors.New("no policies: name a file or folder with --policies, or a cluster with --kubeconfig or --in-cluster")
	}
	if f.cluster.Given() && len(c.Facts) > 0 {
		return errors.New("--facts are for servers without a cluster")
	}
	if f.cluster.InCluster && !given("bind-address") {
		c.BindAddress = "0.0.0.0"
	}
	var err error
	c.Cluster, err = f.cluster.complete(c.CertFile != "", c.Log)
	if err == nil && c.Cluster != nil && c.Cluster.CertSecret != "" && c.CertDir != "" {
		c.Log.Warn("--cert-dir has no effect: the certificate is kept in a Secret", "secret", c.Cluster.CertSecret)
	}
	return err
}

// markOf reads key or key=value.
func markOf(text string) serve.Mark {
	key, value, _ := strings.Cut(text, "=")
	return serve.Mark{Key: key, Value: value}
}

func (f *serveFlags) checkFiles() error {
	c := &f.config
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file come together")
	case c.CAFile != "" && c.CertFile == "":
		return errors.New("--tls-ca-file belongs to --tls-cert-file")
	case len(c.ClientNames) > 0 && c.ClientCAFile == "":
		return errors.New("--client-names need --client-ca-file: names can be believed only if somebody vouches for them")
	}
	return nil
}
