package clientauth

import (
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Reason is why a caller is refused. It is the label of a metric.
type Reason string

// The reasons.
const (
	// NoCertificate and NoToken are those of callers who show nothing: API servers that
	// were not told what to show, for example.
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

// quiet is for how long refusals for the same reason are only counted after one was logged.
const quiet = 10 * time.Second

// refusals are what to log of refused callers: others choose how many there are.
type refusals struct {
	mu       sync.Mutex
	byReason map[Reason]*rate.Sometimes
}

func (k *Authenticator) refuse(reason Reason, about ...any) {
	k.options.Refused(reason)
	k.refusal.mu.Lock()
	if k.refusal.byReason == nil {
		k.refusal.byReason = map[Reason]*rate.Sometimes{}
	}
	often := k.refusal.byReason[reason]
	if often == nil {
		often = &rate.Sometimes{First: 1, Interval: quiet}
		k.refusal.byReason[reason] = often
	}
	k.refusal.mu.Unlock()
	often.Do(func() {
		k.options.Log.Warn("caller refused; more with this reason are only counted for a while",
			append([]any{"reason", string(reason)}, about...)...)
	})
}

// CountFailedHandshakes counts the callers whose connections fail because of their certificate. The server
// has its ErrorLog by then, which gets everything else.
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

// handshakes reads what net/http says of connections. Nothing else tells of a handshake that
// failed.
type handshakes struct {
	auth *Authenticator
	next io.Writer
}

// Write implements io.Writer. It gets one line at a time.
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
