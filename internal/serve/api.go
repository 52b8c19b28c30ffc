package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/graceful"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/serve/decisions"
)

// An API configures the server's own API. It has a separate port, so that its users do not take
// connections from API servers, and so that the admission port does not request client
// certificates.
type API struct {
	// Address is host:port; with port 0 the system chooses one.
	Address string
	// Audiences are the accepted audiences of tokens.
	Audiences []string
}

// apiServer serves the API.
type apiServer struct {
	*delegated.API
	server    *graceful.Server
	listener  net.Listener
	decisions *recent.Ring
}

// newAPI opens the port.
func (s *Server) newAPI(c *API) (*apiServer, error) {
	if s.config.Cluster == nil {
		return nil, errors.New("serve API: only the API server of a cluster knows who may use it")
	}
	api, err := delegated.New(delegated.Options{
		Client: s.config.Cluster.Clients.Reviews, Audiences: c.Audiences,
		Handlers: map[string]http.Handler{
			delegated.Decisions:    decisions.New(s.decisions),
			delegated.AuditResults: auditapi.New(s.cluster.audit.API()),
		},
		Answered: s.metrics.APIRequest, Refused: refused(s.metrics, "api", delegated.Reasons()), Log: s.config.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("serve API: %w", err)
	}
	a := &apiServer{API: api, decisions: s.decisions}
	if a.listener, err = net.Listen("tcp", c.Address); err != nil {
		return nil, fmt.Errorf("open API port: %w", err)
	}
	a.server = graceful.New(s.config.Listen.ShutdownGrace, s.config.Log.With("server", "api"))
	a.server.Handler = a.server.Count(api)
	a.server.TLSConfig = api.ConfigureTLS(&tls.Config{
		MinVersion:     s.config.TLS.MinVersion,
		GetCertificate: s.identity.GetCertificate,
		NextProtos:     []string{"h2", "http/1.1"},
	})
	return a, nil
}

// end shuts down the server. Streams end first: clients resume at another replica.
func (a *apiServer) end() error {
	a.decisions.End()
	return a.server.End()
}

// serve serves until the server is shut down.
func (a *apiServer) serve() error { return graceful.Served(a.server.ServeTLS(a.listener, "", "")) }

// APIURL returns the URL of the server's own API; empty if it is not served.
func (s *Server) APIURL() string {
	if s.api == nil {
		return ""
	}
	return "https://" + s.api.listener.Addr().String() + delegated.Root + "/"
}
