package serve

import (
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/simulate/authz"
	"github.com/usher-dev/usher/observe/metrics"
)

// newFacts returns where rules get what their requests do not carry: objects and what users may do from
// the cluster or from files, HTTP answers from the network.
func newFacts(c *Config, cluster *clusterRuntime, m *metrics.Metrics) (fact.Resolver, error) {
	options := facthttp.Options{AllowLocal: c.Facts.AllowLocal}
	if c.Cluster != nil {
		options.Own = c.Cluster.hosts()
	}
	all := fact.Resolvers{fact.Requests: cached.New(facthttp.New(options), c.Facts.TTL)}
	if cluster != nil {
		all[fact.Objects], all[fact.Questions] = cluster.facts(c)
		return c.tracing.Facts(m.FactResolver(all)), nil
	}
	trees, err := object.Load(c.Facts.Files...)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	access, err := authz.Server(trees)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	all[fact.Objects], all[fact.Questions] = object.FromTrees(trees), fact.Access(access)
	return c.tracing.Facts(m.FactResolver(all)), nil
}
