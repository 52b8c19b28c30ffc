package serve

import (
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// facts is where rules get what their requests do not carry: objects and what users may do from
// the cluster or from files, HTTP answers from the network.
func (s *Server) facts() (fact.Resolver, error) {
	options := facthttp.Options{AllowLocal: s.config.AllowLocalFacts}
	if s.config.Cluster != nil {
		options.Own = s.config.Cluster.hosts()
	}
	all := fact.Resolvers{fact.Requests: cached.New(facthttp.New(options), s.config.FactTTL)}
	if s.cluster != nil {
		all[fact.Objects], all[fact.Questions] = s.cluster.facts(s.config)
		return s.metrics.FactResolver(all), nil
	}
	trees, err := object.Load(s.config.Facts...)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	access, err := authz.Server(trees)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	all[fact.Objects], all[fact.Questions] = object.FromTrees(trees), fact.Access(access)
	return s.metrics.FactResolver(all), nil
}
