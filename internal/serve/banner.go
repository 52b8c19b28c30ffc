package serve

import (
	"fmt"
	"slices"
	"strings"
)

// tryout is the smallest review that an API server could send.
const tryout = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",` +
	`"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},` +
	`"namespace":"default","operation":"CREATE","userInfo":{},` +
	`"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"try","namespace":"default","labels":{}}}}}`

// printBanner prints the URLs of the server and how to call it.
func (s *Server) printBanner() {
	var b strings.Builder
	origins := slices.Clone(s.config.Policies)
	if s.cluster != nil {
		origins = append(origins, "the cluster "+s.cluster.Clients.Server)
	}
	fmt.Fprintf(&b, "Serving %s with the policies in %s\n", s.URL(), strings.Join(origins, ", "))
	if url := s.MetricsURL(); url != "" {
		fmt.Fprintf(&b, "Metrics: %s\n", url)
	}
	if url := s.AuthorizationURL(); url != "" {
		fmt.Fprintf(&b, "Authorization: %s/authorize%s\n", url, s.config.Authorization.describe())
	}
	if url := s.APIURL(); url != "" {
		fmt.Fprintf(&b, "API: %s, for tokens with the audience %s\n", url, strings.Join(s.config.API.Audiences, " or "))
	}
	trust := ""
	if ca := s.CAFile(); ca != "" {
		fmt.Fprintf(&b, "CA bundle: %s\n", ca)
		trust = "--cacert " + ca + " "
	}
	fmt.Fprintf(&b, "Try it:\n  curl %s'%s/readyz?verbose'\n", trust, s.URL())
	if s.cluster != nil && s.cluster.routes != nil {
		fmt.Fprintf(&b, "API servers call paths that nobody can guess; their keys are in Secret %s/%s\n", s.cluster.Namespace, s.cluster.pathSecret())
	} else {
		fmt.Fprintf(&b, "  curl %s-H 'Content-Type: application/json' -d '%s' %s/mutate\n", trust, tryout, s.URL())
	}
	_, _ = s.config.Out.Write([]byte(b.String()))
	s.config.Log.Info("serving", "url", s.URL(), "authorization", s.AuthorizationURL(), "api", s.APIURL(), "metrics", s.MetricsURL(), "ca", s.CAFile())
}
