package serve

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
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
	// Recordings is how many bytes of memory recordings of refused requests take at most; 0 means that there are none.
	Recordings int64
}

// newAPI opens the port.
func (s *Server) newAPI(c *API) (*endpoint, error) {
	if s.config.Cluster == nil {
		return nil, errors.New("serve API: only the API server of a cluster knows who may use it")
	}
	handlers := map[string]http.Handler{
		delegated.Decisions:          decisions.New(s.decisions, "DecisionList"),
		delegated.CandidateDecisions: decisions.New(s.differences, "CandidateDecisionList"),
		delegated.AuditResults:       auditapi.New(s.cluster.audit.API()),
	}
	if s.recordings != nil {
		handlers[delegated.Recordings] = s.recordings
	}
	api, err := delegated.New(delegated.Options{
		Client: s.config.Cluster.Clients.Reviews, Audiences: c.Audiences, Handlers: handlers,
		Answered: s.metrics.APIRequest, Refused: refused(s.metrics, "api", delegated.Reasons()), Log: s.config.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("serve API: %w", err)
	}
	// Streams end first: clients resume at another replica.
	e := &endpoint{name: "api", port: "API", callers: api, ending: func() { s.decisions.End(); s.differences.End() }}
	if err := s.open(e, c.Address); err != nil {
		return nil, err
	}
	e.server.Handler = e.server.Count(api)
	return e, nil
}

// APIURL returns the URL of the server's own API; empty if it is not served.
func (s *Server) APIURL() string { return s.api.url(delegated.Root + "/") }
