package serve

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/decisions"
)

// longestPolicy is more than KIND/NAMESPACE/NAME of a policy has, in bytes.
const longestPolicy = 500

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
		delegated.Decisions:          s.warnOfPolicy("there is no policy ", s.live.Named, decisions.New(s.decisions, "DecisionList")),
		delegated.CandidateDecisions: s.warnOfPolicy("there is no candidate about ", s.live.NamedByCandidates, decisions.New(s.differences, "CandidateDecisionList")),
		delegated.AuditResults:       s.warnOfPolicy("there is no policy ", s.live.Named, auditapi.New(s.cluster.audit.API())),
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

// warnOfPolicy adds a warning, which begins with unknown, to the responses of a handler if the policy that a request
// selects is none of those that named returns, in the header of Kubernetes' own warnings. It names policies that the caller
// may see: those of the cluster, and of the namespace that is read.
func (s *Server) warnOfPolicy(unknown string, named func() []usher.PolicyRef, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("policy")
		request, known := delegated.RequestOf(r.Context())
		if name == "" || !known {
			next.ServeHTTP(w, r)
			return
		}
		visible := slices.DeleteFunc(named(), func(p usher.PolicyRef) bool {
			return request.Namespace != "" && p.Namespace != "" && p.Namespace != request.Namespace
		})
		if text, found := strings.CutPrefix(rule.Unknown(printable.Line(printable.Cut(name, longestPolicy)), visible), "there is no policy "); found {
			// Its error is that of control characters, which the text does not have.
			if header, err := utilnet.NewWarningHeader(299, "-", unknown+text); err == nil {
				w.Header().Set("Warning", header)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// APIURL returns the URL of the server's own API; empty if it is not served.
func (s *Server) APIURL() string { return s.api.url(delegated.Root + "/") }
