package serve

import (
	"crypto/tls"
	"io"
	"log/slog"
	"time"

	"github.com/usher-dev/usher/engine"
)

// A Config says what a [Server] serves, where and how. Zero values mean what the
// comments say; only Policies is needed.
type Config struct {
	// Policies are files and folders, watched. Facts are files and folders with objects
	// that exist in the cluster, read once.
	Policies []string
	Facts    []string

	// BindAddress is 127.0.0.1 if empty; Port 0 lets the system choose.
	BindAddress string
	Port        int
	// MetricsAddress is host:port, or "0" (or empty) for no metrics.
	MetricsAddress string

	// CertFile and KeyFile come together or not; they are read again when they change.
	// Without them a CA and a certificate are made, and kept in CertDir if that is set.
	CertFile, KeyFile string
	CertDir           string
	// TLSMinVersion is a version of crypto/tls; 0 means TLS 1.3.
	TLSMinVersion uint16

	FailurePolicy engine.FailurePolicy
	RuleTimeout   time.Duration
	// RequestTimeout applies to requests that do not say how long they can wait.
	RequestTimeout time.Duration
	// MaxBody is in bytes.
	MaxBody int64
	// FactTTL is how long the answer to an HTTP fact may be used again.
	FactTTL         time.Duration
	AllowLocalFacts bool

	// ShutdownGrace bounds how long requests in flight may take to finish; 0 means 10 s.
	ShutdownGrace time.Duration

	// Log is slog.Default if nil.
	Log *slog.Logger
	// Out gets a few lines that tell people where the server is and how to call it; nil
	// means nobody reads them.
	Out io.Writer
}

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
	return c
}
