package serve

import (
	"fmt"
	"net/http"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
	"github.com/usher-dev/usher/internal/clientauth"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/observe/decisionlog"
)

// An Authorization configures the authorization webhooks. They have a separate address, because
// only API servers need it.
type Authorization struct {
	// Address is host:port; with port 0 the system chooses one.
	Address string
	// Callers are the credentials of API servers, which must show those that are configured.
	Callers Callers
	// Requests limits the decisions of each endpoint; 0 means the door's default. API servers can
	// request a shorter Timeout.
	Requests Requests
	// Self is the user of this server at its API server. It may always read policies.
	Self string
	// Shadow makes all responses NoOpinion. The decisions are only in the log and in metrics.
	Shadow bool
}

// guarded reports whether callers are authenticated; false for nil.
func (a *Authorization) guarded() bool { return a != nil && a.Callers.Guarded() }

// describe lists unusual settings, for people.
func (a *Authorization) describe() string {
	text := ""
	if a.Shadow {
		text += ", as a shadow: no answer has an opinion"
	}
	if !a.guarded() {
		text += ", for everybody who can reach it"
	}
	return text
}

// maxStreams is how many requests an API server can send at the same time; it sends all of
// them on one connection, and keeps 600 in flight by default.
const maxStreams = 1000

// maxUnread is how many bytes of these requests may arrive before they are read.
const maxUnread = 1 << 20

// unserved says why authorization policies have no effect; "" if they do.
func (a *Authorization) unserved() string {
	switch {
	case a == nil:
		return "this server authorizes no requests, since it has no --authorization-address"
	case a.Shadow:
		return "this server answers without opinion, since it has --authorization-shadow"
	}
	return ""
}

// newAuthorizer opens the port.
func (s *Server) newAuthorizer(c *Authorization) (*endpoint, error) {
	known, err := clientauth.New(clientauth.Options{
		CAFile: c.Callers.ClientCAFile, Names: c.Callers.ClientNames, RequireClientCert: true, UnknownNameStatus: http.StatusUnauthorized,
		TokenFile: c.Callers.TokenFile, Refused: refused(s.metrics, "authorization", clientauth.Reasons()), Log: s.config.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	e := &endpoint{name: "authorization", port: "authorization", callers: known}
	if err := s.open(e, c.Address); err != nil {
		return nil, err
	}
	known.CountFailedHandshakes(e.server.Server)
	e.server.Handler = s.authorizationMux(e, known, c)
	e.server.HTTP2.MaxConcurrentStreams, e.server.HTTP2.MaxReceiveBufferPerConnection = maxStreams, maxUnread
	return e, nil
}

func (s *Server) authorizationMux(e *endpoint, callers *clientauth.Authenticator, c *Authorization) http.Handler {
	options := authorization.Options{
		MaxBody: c.Requests.MaxBody, Timeout: c.Requests.Timeout, MaxInFlight: c.Requests.MaxInFlight, Self: c.Self, Shadow: c.Shadow, Log: s.config.Log,
	}
	// Each endpoint has slots of its own, and API servers do not wait for one.
	limits := s.limits.Beside(limit.Options{Slots: -1, Turn: -1, Log: s.config.Log})
	limited := limits.Handler
	if callers != nil {
		limited = limits.Proven
	}
	mux := http.NewServeMux()
	for _, endpoint := range []struct {
		path, suffix string
		only         usher.Verdict
		handler      func(usher.Decider, authorization.Options) http.Handler
	}{
		{"/authorize", "", "", authorization.Authorize},
		{"/authorize/deny", "_deny", usher.Deny, authorization.Deny},
		{"/authorize/allow", "_allow", usher.Allow, authorization.Allow},
	} {
		door, log := "authorization"+endpoint.suffix, s.config.Log
		if c.Shadow {
			door, log = "shadow"+endpoint.suffix, log.With("shadow", true)
		}
		decider := s.metrics.Wrap(decisionlog.Wrap(recent.Wrap(s.config.tracing.Decider(s.live.Authorizer(endpoint.only)), s.decisions), log.With("endpoint", endpoint.path)), door)
		if s.cluster != nil {
			decider = s.cluster.asked(s.cluster.failing.Wrap(decider), c)
		}
		answers := s.metrics.Requests(endpoint.path, s.config.tracing.Handler(door, callers != nil, limited(endpoint.handler(decider, options))))
		mux.Handle(endpoint.path, callers.Require(e.server.Count(answers)))
	}
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /readyz", s.readiness.answer(e.listener))
	return mux
}

// AuthorizationURL returns the URL of the authorization webhooks; empty if they are not served.
func (s *Server) AuthorizationURL() string { return s.authorizer.url("") }
