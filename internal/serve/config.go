package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/observe/spans"
	"github.com/usher-dev/usher/internal/observe/trace"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/auditing"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A Config configures a [Server]. Zero values have the documented meaning; only Policies or Cluster
// is needed.
type Config struct {
	// Policies are files and folders, watched. With Cluster they come before those of the
	// cluster: of two with the same kind and name, that from a file is in force.
	Policies []string
	// Cluster is the cluster of the server; nil means that it has none.
	Cluster *Cluster
	Rules   Rules
	Facts   Facts

	Listen  Listening
	TLS     TLS
	Callers Callers
	// Requests limits admission requests. Excess ones wait up to a second, then get 429; MaxInFlight 0
	// means 400.
	Requests Requests

	// Authorization configures the authorization webhooks; nil means that they are not served.
	Authorization *Authorization
	// API configures the server's own API, which needs Cluster; nil means that it is not served.
	API *API
	// Audit configures the audit of the objects of Cluster; nil means that they are not audited.
	Audit *auditing.Config
	// Protection defines the users whose requests authorization policies never deny.
	Protection Protection
	// Trace selects requests that are explained in the log.
	Trace trace.Options
	// Spans says where spans of OpenTelemetry are sent; nil means that there are none. Version is that of the
	// program, for them.
	Spans   *spans.Config
	Version string

	// Log is slog.Default if nil.
	Log *slog.Logger
	// Out gets a few lines with the URLs of the server and how to call it; nil means that they are
	// not printed.
	Out io.Writer

	// tracing makes the spans; nil makes none.
	tracing *spans.Tracing
}

// Rules configures how policies are compiled and evaluated, and how many there may be.
type Rules struct {
	FailurePolicy usher.FailurePolicy
	// Timeout applies to one rule for one request.
	Timeout time.Duration
	// CUE configures the processes of the CUE evaluator, for policies that cannot be compiled to
	// closures. Its Log is filled in.
	CUE worker.Options
	// Limits limit what policies may do.
	Limits rule.Limits
	// Quota bounds the policies of each namespace of the cluster.
	Quota live.Quota
	// LongestExemption limits how far ahead exemptions may end when they are written; 0 means no
	// limit.
	LongestExemption time.Duration
	// WriteSpecs fills in renderedCue and defaults when policies are written, as kinitiras does.
	WriteSpecs bool
}

// Facts configures where rules get what requests do not carry.
type Facts struct {
	// Files are files and folders with objects that take the place of those in a cluster. They are
	// read once. They are for servers without Cluster.
	Files []string
	// TTL is how long the response of an HTTP fact is cached.
	TTL        time.Duration
	AllowLocal bool
}

// Listening configures where the server listens for admission requests and for monitoring, and how it
// stops.
type Listening struct {
	// Address is 127.0.0.1 if empty; Port 0 lets the system choose.
	Address string
	Port    int
	// MetricsAddress is host:port, or "0" (or empty) for no metrics. Unless it is a loopback address,
	// these metrics are without names of policies and namespaces: users of Cluster who may get /metrics
	// read all at the port of the webhooks. Profile also serves profiles of the process at
	// /debug/pprof.
	MetricsAddress string
	Profile        bool
	// ShutdownGrace limits how long requests in flight may take to finish; 0 means 10 s.
	ShutdownGrace time.Duration

	// exposed says that ports are reached from other machines, whatever their addresses.
	exposed bool
}

// Metered reports whether there is a port for metrics.
func (l *Listening) Metered() bool { return l.MetricsAddress != "" && l.MetricsAddress != "0" }

// TLS configures the certificate of the server, for all its ports.
type TLS struct {
	// CertFile and KeyFile must both be set, or neither. CAFile has the CA that API servers trust.
	// All are read again when they change. Without them, the server creates a CA and a certificate,
	// and keeps them in CertDir if that is set, or in the Secret of the cluster.
	CertFile, KeyFile string
	CAFile            string
	CertDir           string
	// MinVersion is a version of crypto/tls; 0 means TLS 1.3.
	MinVersion uint16
}

// Callers configures the credentials of those who call webhooks. If there are none, callers are not
// authenticated. The files are read again when they change.
type Callers struct {
	// ClientCAFile has the CAs of client certificates; empty means that callers need no
	// certificate. ClientNames are the accepted common names or alternative names of client
	// certificates; none means that all are accepted.
	ClientCAFile string
	ClientNames  []string
	// TokenFile has bearer tokens, one per line, one of which callers must send; empty means that
	// callers need no token.
	TokenFile string
}

// Guarded reports whether callers are authenticated.
func (c *Callers) Guarded() bool { return c.ClientCAFile != "" || c.TokenFile != "" }

// Requests limits the requests for decisions.
type Requests struct {
	// Timeout limits requests without a timeout of their own.
	Timeout time.Duration
	// MaxBody is the maximum size of a request, in bytes.
	MaxBody int64
	// MaxInFlight limits the concurrent requests.
	MaxInFlight int
}

// A Cluster configures how a server takes part in a cluster: policies and facts come from its API
// server, policies get a status, and webhook configurations make API servers call the server.
type Cluster struct {
	Clients *clients.Set
	// Namespace is the namespace of the replicas' Leases and of the Secrets.
	Namespace string
	// Identity names this replica and no other one.
	Identity string
	// CertSecret is the Secret in which replicas keep the CA and the certificate that they
	// share; empty means that each has its own.
	CertSecret string
	// PathSecret is the Secret in which replicas keep the keys of their webhook paths; empty
	// means [paths.DefaultSecret]. It is for servers that register.
	PathSecret string
	// ProofSecret is the Secret in which replicas keep the keys of policy proofs; empty means
	// [proof.DefaultSecret].
	ProofSecret string
	// WebhookConfig configures how API servers reach the server, and what they send. Its Namespace
	// and Log are filled in. Register says whether the server manages the webhook configurations.
	WebhookConfig       webhookconfig.Options
	ManageWebhookConfig bool
	// AdmissionPolicies says what to do with the admission policies that the API server has; empty
	// means [ReadAdmissionPolicies].
	AdmissionPolicies AdmissionPolicies
	// DenialEvents says that Events are written about requests that policies deny.
	DenialEvents bool
	// Watch are kinds of objects to watch from the start. Others are watched when they are
	// first needed.
	Watch []schema.GroupVersionKind
}

// AdmissionPolicies says what a server does with the ValidatingAdmissionPolicies and
// MutatingAdmissionPolicies of its cluster.
type AdmissionPolicies string

// What a server may do with them.
const (
	// ReadAdmissionPolicies leaves them to the API server, which enforces them, and reports which
	// there are.
	ReadAdmissionPolicies AdmissionPolicies = "read"
	// EnforceAdmissionPolicies enforces them as well as other policies, for API servers whose own
	// admission plugins for them are off.
	EnforceAdmissionPolicies AdmissionPolicies = "enforce"
	// IgnoreAdmissionPolicies does not read them.
	IgnoreAdmissionPolicies AdmissionPolicies = "off"
)

// unsent returns what says why API servers do not send a request, by its resource and namespace; nil if the server does not
// register.
func (c *Cluster) unsent() func(*usher.Request) string {
	if !c.ManageWebhookConfig {
		return nil
	}
	return c.WebhookConfig.ByName().Unsent
}

// managesWebhookConfig reports whether the server manages webhook configurations; false for nil.
func (c *Cluster) managesWebhookConfig() bool { return c != nil && c.ManageWebhookConfig }

func (c *Cluster) pathSecret() string { return cmp.Or(c.PathSecret, paths.DefaultSecret) }

func (c *Cluster) proofSecret() string { return cmp.Or(c.ProofSecret, proof.DefaultSecret) }

// newTracing returns what makes spans, nil if there are none.
func (c *Config) newTracing(ctx context.Context) (*spans.Tracing, error) {
	id := spans.Identity{Version: c.Version}
	if c.Cluster != nil {
		id.Instance = c.Cluster.Identity
	}
	return spans.New(ctx, c.Spans, id, c.Log)
}

func (c Config) withDefaults() Config {
	if c.Listen.Address == "" {
		c.Listen.Address = "127.0.0.1"
	}
	if c.TLS.MinVersion == 0 {
		c.TLS.MinVersion = tls.VersionTLS13
	}
	if c.Listen.ShutdownGrace <= 0 {
		c.Listen.ShutdownGrace = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	c.Rules.CUE.Log = c.Log
	if c.Cluster != nil {
		cluster := *c.Cluster
		cluster.WebhookConfig.Namespace, cluster.WebhookConfig.Log = cluster.Namespace, c.Log
		c.Cluster = &cluster
	}
	return c
}
