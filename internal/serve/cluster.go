package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/observe/failing"
	"github.com/usher-dev/usher/internal/probe"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/serve/auditing"
	"github.com/usher-dev/usher/internal/serve/kinds"
	"github.com/usher-dev/usher/internal/serve/proofs"
	"github.com/usher-dev/usher/internal/serve/routes"
	"github.com/usher-dev/usher/internal/webhookconfig"
	clustersource "github.com/usher-dev/usher/source/cluster"
)

// A clusterRuntime runs what a server does in a cluster.
type clusterRuntime struct {
	*Cluster

	source *clustersource.Source
	// admission has the admission policies of the API server; nil if they are not read.
	admission *clustersource.Source
	kinds     *kinds.Policies
	resolver  *clusterfact.Resolver
	replicas  *replicas.Registry
	reporter  *report.Reporter
	discovery *kinds.Discovery
	proofs    *proofs.Proofs
	// webhookConfig and routes are nil if the server does not manage webhook configurations.
	webhookConfig *webhookConfigSync
	routes        *routes.Routes
	// prober is nil if there is no way to find out whether API servers call.
	prober   *probe.Prober
	answerer *probe.Answerer
	// audit is nil if objects that exist are not audited.
	audit *auditing.Audit
	// failing remembers which policies fail here.
	failing *failing.Tracker
	// first is done when somebody has asked for authorization.
	first sync.Once
	// denials writes Events; nil if it does not.
	denials *report.Denials
}

// tell tells others where this replica listens, and whether it authorizes.
func (m *clusterRuntime) tell(address net.Addr, c *Authorization) {
	if m == nil {
		return
	}
	m.replicas.Serves("address", replicas.ListensAt+address.String())
	if c.unserved() == "" {
		m.replicas.Serves("authorization", replicas.Authorizes)
	}
}

// asked returns a decider that tells others when the first request to authorize comes.
func (m *clusterRuntime) asked(d usher.Decider, c *Authorization) usher.Decider {
	if c.unserved() != "" {
		return d
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		m.first.Do(func() { m.replicas.Serves("asked", replicas.Asked) })
		return d.Decide(ctx, r)
	})
}

// newClusterRuntime creates a clusterRuntime. Replicas share the keys, and count counts probes by
// their results.
func newClusterRuntime(c Config, keys probe.Keys, all counted, count func(probe.State)) *clusterRuntime {
	clients := c.Cluster.Clients
	m := &clusterRuntime{
		Cluster:   c.Cluster,
		resolver:  clusterfact.New(clients.Facts, clients.Mapper, clusterfact.Options{REST: clients.Kube.CoreV1().RESTClient(), Log: c.Log}),
		answerer:  probe.NewAnswerer(keys),
		discovery: kinds.Discover(clients.Kube.Discovery(), c.Log),
	}
	m.failing = failing.New(func() { m.reporter.Failed() })
	if c.Cluster.DenialEvents {
		m.denials = report.NewDenials(clients.Kube, c.Cluster.Identity, c.Log)
	}
	m.replicas = replicas.New(clients.Kube.CoordinationV1(), replicas.Options{
		Namespace: c.Cluster.Namespace, Identity: c.Cluster.Identity, Log: c.Log,
	})
	o := report.Options{
		Identity: c.Cluster.Identity, Namespace: c.Cluster.Namespace, Replicas: m.replicas,
		Failing: m.failing.Failures, Await: m.failing.Await, Exemptions: all.exemptions, Candidates: all.candidates, Log: c.Log,
	}
	if m.prober = m.newProber(c, keys, count); m.prober != nil {
		o.Verify = m.verify
	}
	if c.Audit != nil {
		m.audit = auditing.New(*c.Audit, auditing.Options{
			Client: clients.Audit, Discovery: m.discovery, Resolver: m.resolver, FactTTL: objectTTL, Leader: m.replicas.Leader, Did: c.tracing.Audit(), Log: c.Log,
			Unsent: c.Cluster.unsent(),
		})
		o.Lead = m.audit.Lead
	}
	m.reporter = report.New(clients.Policies, clients.Kube, o)
	m.proofs = proofs.New(proofs.Options{
		Kube: clients.Kube, Policies: clients.Policies, Namespace: c.Cluster.Namespace, Secret: c.Cluster.proofSecret(),
		Peers: m.replicas, Changed: func() { m.source.Recheck() }, Log: c.Log,
	})
	m.source = clustersource.New(clients.Policies, clustersource.Options{Proofs: m.proofs.Prover(), Log: c.Log})
	m.kinds = kinds.NewPolicies(clients.Schemas, m.source.Readings, m.discovery.Read, c.Log)
	m.admission = newAdmission(c)
	m.resolver.Watch(c.Cluster.Watch)
	if c.Cluster.ManageWebhookConfig {
		o := c.Cluster.WebhookConfig
		o.Path = func(entry string) string { return m.routes.Path(entry) }
		configurer := webhookconfig.New(clients.Kube, clients.Mapper, o)
		keeper := keyring.NewKeeper(clients.Kube.CoreV1().Secrets(c.Cluster.Namespace), keyring.Options{
			Namespace: c.Cluster.Namespace, Name: c.Cluster.pathSecret(), Purpose: "webhook paths", Log: c.Log,
		})
		m.routes = routes.New(keeper, configurer, m.replicas, c.Log)
		m.webhookConfig = newWebhookConfigSync(configurer, clients.Mapper, m.replicas.Leads, c.Log)
		m.webhookConfig.paths = m.routes
		if m.prober != nil {
			m.webhookConfig.made = m.prober.Again
		}
	}
	return m
}

// start reads the keys without which the server cannot serve.
func (m *clusterRuntime) start(ctx context.Context, log *slog.Logger) error {
	if m.routes == nil {
		// The server does not register webhooks, so it can wait for its policies.
		err := m.proofs.Start(ctx)
		if err != nil && clients.Unavailable(err) {
			log.Warn("the keys of policy proofs are not known yet", "error", err)
			return nil
		}
		return err
	}
	if err := m.retryWhileUnavailable(ctx, log, func() error { return m.proofs.Start(ctx) }); err != nil {
		return err
	}
	return m.retryWhileUnavailable(ctx, log, func() error { return m.routes.Start(ctx) })
}

// facts returns resolvers for objects of the cluster and for the access of its users. Objects that
// are not watched are cached for a moment, so that a burst of requests does not cause a burst of
// reads; access is asked for with each request.
func (m *clusterRuntime) facts(c *Config) (objects, access fact.Resolver) {
	reviews := m.Clients.Access.AuthorizationV1().SubjectAccessReviews()
	return cached.New(m.resolver, min(c.Facts.TTL, objectTTL)), cached.New(fact.Access(clusterfact.Authorizer(reviews)), 0)
}

// observe passes on what is in force now. Policies count as enforced when the webhook
// configurations cover what they need.
func (m *clusterRuntime) observe(status live.Status, l *live.Live) {
	snapshot := report.Snapshot{Generation: status.Generation, Policies: l.Policies()}
	m.failing.Keep(snapshot.Policies)
	if m.audit != nil {
		m.audit.PoliciesChanged()
	}
	if m.webhookConfig == nil {
		m.reporter.Observe(snapshot)
		return
	}
	m.webhookConfig.signal(func(err error) {
		snapshot.Unregistered = text(err)
		m.reporter.Observe(snapshot)
	})
}

// run takes part in the cluster until ctx is done, and then releases what other replicas may take
// over.
func (m *clusterRuntime) run(ctx context.Context, l *live.Live, i *identity) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.resolver.Run(ctx) })
	group.Go(func() error { return m.reporter.Run(ctx) })
	group.Go(func() error { return m.discovery.Run(ctx) })
	group.Go(func() error { return m.learn(ctx, l) })
	group.Go(func() error { return m.proofs.Run(ctx) })
	group.Go(func() error { return m.kinds.Run(ctx) })
	if m.denials != nil {
		group.Go(func() error { return m.denials.Run(ctx) })
	}
	if m.webhookConfig != nil {
		group.Go(func() error { return m.routes.Run(ctx) })
		group.Go(func() error { return m.webhookConfig.run(ctx, l.Coverage, i) })
	}
	return group.Wait()
}

// isRegistered returns a function that reports whether the webhook configurations cover what the
// policies need; nil if the server does not manage them.
func (m *clusterRuntime) isRegistered() func() bool {
	if m.webhookConfig == nil {
		return nil
	}
	return func() bool {
		state := m.webhookConfig.status()
		var incomplete *webhookconfig.IncompleteError
		return state.done && !(errors.As(state.err, &incomplete) && len(incomplete.Dropped) > 0)
	}
}
