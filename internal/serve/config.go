package serve

import (
	"cmp"
	"crypto/tls"
	"io"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/lang/cue/worker"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/rule"
)

// A Config says what a [Server] serves, where and how. Zero values mean what the
// comments say; only Policies or Cluster is needed.
type Config struct {
	// Policies are files and folders, watched. With Cluster they come before those of the
	// cluster: of two with the same kind and name, that from a file is in force.
	Policies []string
	// Facts are files and folders with objects that exist in the cluster, read once. They
	// are for servers without Cluster.
	Facts []string
	// Cluster is what the server takes part in; nil means that it knows nothing of one.
	Cluster *Cluster

	// WriteSpecs fills in renderedCue and defaults when policies are written, as kinitiras does.
	WriteSpecs bool

	// BindAddress is 127.0.0.1 if empty; Port 0 lets the system choose.
	BindAddress string
	Port        int
	// MetricsAddress is host:port, or "0" (or empty) for no metrics. With Profile there are
	// profiles of the process at /debug/pprof, too.
	MetricsAddress string
	Profile        bool

	// CertFile and KeyFile come together or not; they are read again when they change, and
	// so is CAFile, what API servers are to trust. Without them a CA and a certificate are
	// made, and kept in CertDir if that is set, or in the Secret of Cluster.
	CertFile, KeyFile string
	CAFile            string
	CertDir           string
	// ClientCAFile holds who vouches for those who may ask for decisions; empty means that
	// everybody may. It is read again when it changes. ClientNames are the names that one
	// of these must have, as common name or alternative name; none means that all may.
	// TokenFile holds the bearer tokens that those who ask have to send one of, one a line;
	// empty means none. It is read again when it changes, too.
	ClientCAFile string
	ClientNames  []string
	TokenFile    string
	// Authorization says how authorization webhooks are answered; nil means not at all.
	Authorization *Authorization
	// API says how the server's own API is served, which needs Cluster; nil means not at all.
	API *API
	// Protection says whom authorization policies never deny anything.
	Protection Protection

	// TLSMinVersion is a version of crypto/tls; 0 means TLS 1.3.
	TLSMinVersion uint16

	FailurePolicy engine.FailurePolicy
	RuleTimeout   time.Duration
	// RequestTimeout applies to requests that do not say how long they can wait.
	RequestTimeout time.Duration
	// MaxBody is in bytes.
	MaxBody int64
	// MaxInFlight is how many admission requests are decided at a time; more wait for up to
	// a second, and are then told to try again. 0 means 400.
	MaxInFlight int
	// CUE says where CUE's evaluator runs, for policies that closures do not decide.
	CUE worker.Options
	// Quota bounds the policies of each namespace of the cluster.
	Quota live.Quota
	// FactTTL is how long the answer to an HTTP fact may be used again.
	FactTTL         time.Duration
	AllowLocalFacts bool
	// Limits say what policies may do.
	Limits rule.Limits

	// Trace picks requests that are explained in the log.
	Trace Trace

	// ShutdownGrace bounds how long requests in flight may take to finish; 0 means 10 s.
	ShutdownGrace time.Duration

	// Log is slog.Default if nil.
	Log *slog.Logger
	// Out gets a few lines that tell people where the server is and how to call it; nil
	// means nobody reads them.
	Out io.Writer
}

// DefaultPathSecret is the Secret that keeps the keys of webhook paths.
const DefaultPathSecret = "usher-paths"

// A Cluster says how a server takes part in a cluster: policies and facts come from its API
// server, policies get a status, and API servers are told to call the server.
type Cluster struct {
	Clients *Clients
	// Namespace is where the Leases of the replicas are, and the Secret.
	Namespace string
	// Identity names this replica and no other one.
	Identity string
	// CertSecret is the Secret in which replicas keep the CA and the certificate that they
	// share; empty means that each has its own.
	CertSecret string
	// PathSecret is the Secret in which replicas keep the keys of their webhook paths; empty
	// means [DefaultPathSecret]. It is for servers that register.
	PathSecret string
	// ProofSecret is the Secret in which replicas keep the keys of policy proofs; empty means
	// [DefaultProofSecret].
	ProofSecret string
	// WebhookConfig says how API servers reach the server, and what they are to ask it.
	// Its Namespace and Log are filled in. Register tells whether to register; else the
	// webhook configurations are somebody else's business.
	WebhookConfig       webhookconfig.Options
	ManageWebhookConfig bool
	// Watch are kinds of objects to watch from the start. Others are watched when they are
	// first needed.
	Watch []schema.GroupVersionKind
}

// managesWebhookConfig reports whether the server keeps webhook configurations; nil does not.
func (c *Cluster) managesWebhookConfig() bool { return c != nil && c.ManageWebhookConfig }

func (c *Cluster) pathSecret() string { return cmp.Or(c.PathSecret, DefaultPathSecret) }

func (c *Cluster) proofSecret() string { return cmp.Or(c.ProofSecret, DefaultProofSecret) }

func (c Config) withDefaults() Config {
	if c.BindAddress == "" {
		c.BindAddress = "127.0.0.1"
	}
	if c.TLSMinVersion == 0 {
		c.TLSMinVersion = tls.VersionTLS13
	}
	if c.ShutdownGrace <= 0 {
		c.ShutdownGrace = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	c.CUE.Log = c.Log
	if c.Cluster != nil {
		cluster := *c.Cluster
		cluster.WebhookConfig.Namespace, cluster.WebhookConfig.Log = cluster.Namespace, c.Log
		c.Cluster = &cluster
	}
	return c
}
