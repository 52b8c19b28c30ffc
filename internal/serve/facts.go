package serve

import (
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/simulate/authz"
)

// facts is where rules get what their requests do not carry: objects from the cluster or
// from files, HTTP answers from the network, both kept for a while.
func (s *Server) facts() (fact.Resolver, error) {
	options := facthttp.Options{AllowLocal: s.config.AllowLocalFacts}
	if s.config.Cluster != nil {
		options.Own = s.config.Cluster.hosts()
	}
	remote := cached.New(facthttp.New(options), s.config.FactTTL)
	if s.cluster != nil {
		objects := fact.Route(s.cluster.facts(s.config), remote)
		return s.metrics.FactResolver(fact.WithAccess(fact.ResolverFunc(s.cluster.access), objects)), nil
	}
	trees, err := object.Load(s.config.Facts...)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	access, err := authz.Facts(trees)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	return s.metrics.FactResolver(fact.WithAccess(access, fact.Route(object.FromTrees(trees), remote))), nil
}
