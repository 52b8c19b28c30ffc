package clientauth

import (
	"context"
	"io"
	"log"
	"net/http"
	"strings"
)

// A Reason is why a caller is refused. It is the label of a metric.
type Reason string

// The reasons.
const (
	// NoCertificate and NoToken are the reasons for callers without credentials, for example API
	// servers that are not configured with any.
	NoCertificate Reason = "no_certificate"
	NoToken       Reason = "no_token"
	// UntrustedCertificate is one that the CA has not signed, or that has expired.
	UntrustedCertificate Reason = "untrusted_certificate"
	// WrongName is a certificate of the CA with a name that is not among [Options.Names].
	WrongName  Reason = "wrong_name"
	WrongToken Reason = "wrong_token"
)

// Reasons are all reasons.
func Reasons() []Reason {
	return []Reason{NoCertificate, UntrustedCertificate, WrongName, NoToken, WrongToken}
}

func (k *Authenticator) refuse(reason Reason, about ...any) {
	k.options.Refused(reason)
	k.log.Warn(context.Background(), string(reason), "caller refused", about...)
}

// CountFailedHandshakes counts the callers whose connections fail because of their certificate. Set
// the server's ErrorLog before: it receives everything else.
func (k *Authenticator) CountFailedHandshakes(server *http.Server) {
	if k == nil || k.options.CAFile == "" {
		return
	}
	next := server.ErrorLog
	if next == nil {
		next = log.Default()
	}
	server.ErrorLog = log.New(&handshakes{auth: k, next: next.Writer()}, next.Prefix(), next.Flags())
}

// handshakes reads the messages of net/http about connections, the only source for failed
// handshakes.
type handshakes struct {
	auth *Authenticator
	next io.Writer
}

// Write implements io.Writer. It receives one line at a time.
func (h *handshakes) Write(line []byte) (int, error) {
	text := string(line)
	switch {
	case strings.Contains(text, "tls: failed to verify certificate"):
		h.auth.refuse(UntrustedCertificate, "error", strings.TrimSpace(text))
	case strings.Contains(text, "tls: client didn't provide a certificate"):
		h.auth.refuse(NoCertificate, "error", strings.TrimSpace(text))
	default:
		return h.next.Write(line)
	}
	return len(line), nil
}
