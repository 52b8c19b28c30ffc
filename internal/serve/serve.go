// Package serve assembles the webhook server: policies from files and from a cluster, kept current,
// behind the admission door over HTTPS, with metrics, health and graceful shutdown. In a cluster it
// also writes the status of policies and the webhook configurations. A [Config] has all its
// settings; it reads no flags and no environment.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/clientauth"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/engine"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/graceful"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/memory"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/observe/recording"
	"github.com/usher-dev/usher/internal/observe/trace"
	"github.com/usher-dev/usher/internal/probe"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/auditing"
	"github.com/usher-dev/usher/internal/serve/kinds"
	"github.com/usher-dev/usher/internal/serve/routes"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/observe/decisionlog"
	"github.com/usher-dev/usher/observe/metrics"
)

// A Server is a webhook server. Use [New], which opens its ports, and then [Server.Run].
type Server struct {
	config  Config
	live    *live.Live
	metrics *metrics.Metrics
	// cluster is nil if the server has no cluster.
	cluster *clusterRuntime
	// readers lets those callers through who may read names; nil if there is no cluster to say who may.
	readers *delegated.Guard
	// decisions has the last decisions, differences those of candidates that differ; nil if nobody can read them.
	decisions, differences *recent.Ring
	// recordings are of refused requests; nil if there are none.
	recordings *recording.Store

	protection *protection
	limits     *limit.Limiter
	evaluation *evaluation
	readiness  *readiness
	identity   *identity

	// endpoints are open from New on. The authorizer and the api are nil if they are not served.
	endpoints                 []*endpoint
	webhooks, authorizer, api *endpoint
	// callers know who may call the webhooks.
	callers  *clientauth.Authenticator
	metering *http.Server
	// meterListener is open from New on; it may be nil.
	meterListener net.Listener
}

// objectTTL is how long objects that are not watched are cached.
const objectTTL = time.Second

// New prepares a server and opens its ports. It returns an error if the configuration is invalid.
// If the API server does not respond, it waits for Secrets up to a minute, or until ctx is done.
func New(ctx context.Context, c Config) (*Server, error) {
	for _, path := range c.Policies {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("load policies: %w", err)
		}
	}
	c = c.withDefaults()
	var err error
	if c.tracing, err = c.newTracing(ctx); err != nil {
		return nil, err
	}
	s := &Server{config: c, metrics: metrics.New(nil)}
	if err := s.prepare(ctx); err != nil {
		s.config.tracing.End()
		return nil, err
	}
	return s, nil
}

// prepare makes the parts of the server, and opens its ports.
func (s *Server) prepare(ctx context.Context) (err error) {
	c := &s.config
	if s.callers, err = clientauth.New(clientauth.Options{
		CAFile: c.Callers.ClientCAFile, Names: c.Callers.ClientNames, TokenFile: c.Callers.TokenFile, Refused: refused(s.metrics, "admission", clientauth.Reasons()), Log: s.config.Log,
	}); err != nil {
		return err
	}
	s.limits = limit.New(limit.Options{
		Slots: s.config.Requests.MaxInFlight, Provable: s.callers != nil || c.Authorization.guarded() || c.Cluster.managesWebhookConfig(), Shed: s.metrics.Shed, Log: s.config.Log,
	})
	if s.config.Cluster != nil {
		s.cluster = newClusterRuntime(s.config, func() [][]byte { return s.identity.Keys(probePurpose) }, counted{
			func() []rule.ExemptionState { return s.live.Exemptions() }, func() []rule.CandidateState { return s.live.Candidates() },
		}, func(state probe.State) { s.metrics.Probed(string(state)) })
		if err := s.cluster.start(ctx, s.config.Log); err != nil {
			return err
		}
		s.metrics.Cluster(metrics.ClusterState{
			Staleness: s.cluster.staleness, Registered: s.cluster.isRegistered(), Called: s.cluster.areCalled, Failing: s.cluster.failing.Count,
			Kinds: s.cluster.kinds.Count, DroppedEvents: s.cluster.denials.Dropped,
		})
	}
	facts, err := newFacts(&s.config, s.cluster, s.metrics)
	if err != nil {
		return err
	}
	if s.protection, err = newProtection(c.Protection, s.config.Log); err != nil {
		return err
	}
	s.evaluation = newEvaluation(&s.config, s.metrics)
	s.keepDecisions()
	s.live = s.newLive(s.policies(facts))
	s.showCounts()
	if s.identity, err = newIdentity(ctx, s.config); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		s.close()
		return err
	}
	s.readiness = &readiness{
		live: s.live, evaluation: s.evaluation, protection: s.protection, cluster: s.cluster, readers: s.readers,
		listen: &s.config.Listen, ending: s.webhooks.server.Ending,
	}
	s.callers.CountFailedHandshakes(s.webhooks.server.Server)
	s.webhooks.server.Handler = s.mux()
	s.metering = graceful.HTTP(s.meteringMux(), s.config.Log)
	if err := s.openOthers(); err != nil {
		s.close()
		return err
	}
	s.metrics.Limits(s.limitState)
	s.cluster.tell(s.webhooks.listener.Addr(), s.config.Authorization)
	return nil
}

// openOthers opens the ports of the other endpoints than admission.
func (s *Server) openOthers() (err error) {
	if c := s.config.Authorization; c != nil {
		if s.authorizer, err = s.newAuthorizer(c); err != nil {
			return err
		}
	}
	if c := s.config.API; c != nil {
		s.api, err = s.newAPI(c)
	}
	return err
}

// policies returns how to load and enforce policies.
func (s *Server) policies(facts fact.Resolver) live.Options {
	o := live.Options{
		Facts: facts,
		Compile: compile.Options{
			CUE: cue.OnWorkers(s.evaluation.workers, cue.Limits{Timeout: s.config.Rules.Timeout}), Limits: s.config.Rules.Limits, Checker: s.evaluation.checker,
		},
		Engine:           engine.Options{FailurePolicy: s.config.Rules.FailurePolicy, RuleTimeout: s.config.Rules.Timeout, Overruns: s.evaluation.overruns, Ran: s.config.tracing.Rule()},
		Access:           authzengine.Options{ProtectedUsers: s.protection.users, KillSwitch: s.protection.killSwitchOn, Overruns: s.evaluation.overruns},
		Quota:            s.config.Rules.Quota,
		LongestExemption: s.config.Rules.LongestExemption,
		Log:              s.config.Log,
		OnUpdate:         s.observe,
		KeepSpecs:        !s.config.Rules.WriteSpecs,
		Unserved:         s.config.Authorization.unserved(),
		Candidates:       &live.Candidates{Hold: s.limits.Hold, Access: s.config.Authorization != nil},
	}
	if s.differences != nil {
		o.Candidates.Differs = s.differences.Differs
	}
	if s.cluster != nil {
		o.Candidates.Foreign = !s.config.Cluster.enforcesAdmission()
		o.Access.Scope, o.May, o.Places = s.cluster.discovery.Scope, s.cluster.may, live.Places(s.cluster.resolver.Resource)
		o.Proofs = s.cluster.proofs.Prover()
		o.Stored = trial.New(trial.Options{Kinds: kinds.NewSchemas(s.cluster.discovery, s.config.Log).Find, Readable: s.cluster.readable, Overruns: s.evaluation.overruns})
		registered := s.config.Cluster.WebhookConfig
		registered.Namespace = s.config.Cluster.Namespace
		if s.cluster.audit != nil {
			o.Existing = s.cluster.audit.Existing
		}
		o.Lockout = &lockout.Options{Registered: registered}
		o.Trial = lockout.With(o.Stored.Problems, *o.Lockout)
	}
	return o
}

// keepDecisions keeps the last decisions if there is somebody to read them.
func (s *Server) keepDecisions() {
	if s.config.API != nil {
		s.decisions, s.differences = &recent.Ring{Since: time.Now()}, &recent.Ring{Since: time.Now()}
		s.metrics.Recent(func() (subscribers int, lost uint64) {
			n, ofDecisions := s.decisions.Subscribers()
			more, ofCandidates := s.differences.Subscribers()
			return n + more, ofDecisions + ofCandidates
		})
		if most := s.config.API.Recordings; most > 0 {
			s.recordings = recording.New(most)
		}
	}
}

// newLive returns what loads and enforces policies, and connects the audit with it.
func (s *Server) newLive(o live.Options) *live.Live {
	l := live.New(o)
	if s.cluster != nil && s.cluster.audit != nil {
		a := s.cluster.audit
		a.Begin(auditing.Policies{Facts: o.Facts, Engine: o.Engine, Compiled: l.Compiled, Enforced: l.Enforced})
		s.metrics.Audit(a.State)
		s.metrics.Reports(a.ReportsState)
	}
	return l
}

// refused returns a function that counts the callers that a door rejects, by reason.
func refused[R ~string](m *metrics.Metrics, door string, reasons []R) func(R) {
	var names []string
	for _, reason := range reasons {
		names = append(names, string(reason))
	}
	count := m.Refused(door, names...)
	return func(reason R) { count(string(reason)) }
}

// observe passes on what is in force now.
func (s *Server) observe(status live.Status) {
	if status.Generation == 1 {
		memory.DropPages()
	}
	s.metrics.Snapshot(live.Snapshot(s.live))
	if s.cluster != nil {
		s.cluster.observe(status, s.live)
	}
}

// listen opens the ports for admission and metrics, and finds out who may read names there.
func (s *Server) listen() (err error) {
	if s.readers, err = newReaders(&s.config, s.metrics); err != nil {
		return err
	}
	s.webhooks = &endpoint{name: "admission", port: "webhook", callers: s.callers}
	if err := s.open(s.webhooks, net.JoinHostPort(s.config.Listen.Address, strconv.Itoa(s.config.Listen.Port))); err != nil {
		return err
	}
	if !s.config.Listen.Metered() {
		return nil
	}
	if s.meterListener, err = net.Listen("tcp", s.config.Listen.MetricsAddress); err != nil {
		return fmt.Errorf("open metrics port: %w", err)
	}
	return nil
}

func (s *Server) close() {
	defer s.config.tracing.End()
	for _, e := range s.endpoints {
		_ = e.listener.Close()
	}
	if s.meterListener != nil {
		_ = s.meterListener.Close()
	}
	s.identity.close()
	s.evaluation.close()
}

func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /readyz", s.readiness.answer(s.webhooks.listener))
	if s.readers != nil && s.meterListener != nil {
		mux.Handle("GET "+metricsPath, s.readers.Require(metricsPath, s.metrics.Handler()))
	}
	decide := s.config.tracing.Decider(s.live)
	shown := probe.Apart(decide, recording.Wrap(recent.Wrap(decide, s.decisions), s.recordings))
	traced := trace.Wrap(shown, s.config.Trace, s.live.RulesAt, s.config.Log)
	decider := s.metrics.Entries(probe.Apart(traced, decisionlog.Wrap(traced, s.config.Log)), "admission", s.live.AskedAt)
	if s.cluster != nil {
		decider = s.cluster.answerer.Wrap(s.cluster.denials.Wrap(s.cluster.failing.Wrap(decider)))
	}
	e := &routes.Entrance{Demanding: s.callers != nil, Refused: s.metrics.Refused("admission", routes.UnknownPath, routes.OtherResource)}
	e.Door = func(at routes.Route, accept func(context.Context, *usher.Request) error) http.Handler {
		options := admission.Options{MaxBody: s.config.Requests.MaxBody, Timeout: s.config.Requests.Timeout, Accept: accept, AlwaysAllow: at.OfCandidates(), Log: s.config.Log}
		answer, limited, known := admission.Mutate, s.limits.Handler, s.callers != nil || !at.Bare
		if at.Phase() == usher.Validate {
			answer = admission.Validate
		}
		if known {
			limited = s.limits.Proven
		}
		answers := s.config.tracing.Handler("admission", known, loaded(s.live, limited(answer(decider, options))))
		return s.callers.Require(s.webhooks.server.Count(answers))
	}
	if s.cluster == nil || s.cluster.routes == nil {
		mux.HandleFunc("/{entry}", e.ServeAnybody)
		return mux
	}
	e.Routes = s.cluster.routes
	mux.Handle("/", e)
	return mux
}

// loaded rejects requests until policies are loaded; then next handles them. API servers retry, and
// apply the failure policy if that takes too long.
func loaded(l *live.Live, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.Status().Generation == 0 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, live.ErrNotLoaded.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// URL returns the URL of the webhooks.
func (s *Server) URL() string { return s.webhooks.url("") }

// MetricsURL returns the URL of the metrics; empty if they are not served.
func (s *Server) MetricsURL() string {
	if s.meterListener == nil {
		return ""
	}
	return "http://" + s.meterListener.Addr().String() + "/metrics"
}

// CAFile returns the path of a PEM file with the CA certificates to trust; empty if the certificate
// of the server is from a file, without its CA.
func (s *Server) CAFile() string { return s.identity.caFile }

// Run serves until ctx is done, and then shuts down gracefully: /readyz fails, requests in flight
// finish, connections close, and what other replicas may take over is released. It returns nil if
// all requests finished within the grace period. It also ends, with an error, if evaluations of policies
// do not end, so that the process is replaced. Call it once.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	memory.TuneGC()
	s.printBanner()
	// The endpoints outlive ctx: requests in flight still need policies.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, running := errgroup.WithContext(running)
	group.Go(func() error { return s.live.Run(running, sources(s.config.Policies, s.cluster)...) })
	group.Go(func() error { return s.identity.Run(running) })
	group.Go(func() error { return s.protection.run(running) })
	if s.cluster != nil {
		group.Go(func() error { return s.cluster.run(running, s.live, s.identity) })
	}
	for _, e := range s.endpoints {
		group.Go(func() error { return e.callers.Run(running) })
		group.Go(e.serve)
	}
	if s.meterListener != nil {
		group.Go(func() error {
			return graceful.Served(s.metering.Serve(new(limit.Conns).Guard(s.metering, s.meterListener)))
		})
	}
	group.Go(func() error {
		defer stop()
		serving, ended := context.WithCancel(running)
		defer ended()
		context.AfterFunc(ctx, ended)
		if awaitSickness(serving, s.evaluation.overruns.State, s.config.Log) {
			return errors.Join(errReplaced, s.shutdown())
		}
		return s.shutdown()
	})
	if err := group.Wait(); err != nil {
		return err
	}
	s.config.Log.Info("server ended")
	return nil
}

func (s *Server) shutdown() error {
	var ends errgroup.Group
	for _, e := range s.endpoints {
		ends.Go(e.end)
	}
	err := ends.Wait()
	_ = s.metering.Close()
	return err
}
