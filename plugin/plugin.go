// Package plugin adds Usher's policies to a server that is built on k8s.io/apiserver: it
// registers an admission plugin that reads its policies from folders, or from the API that
// the server itself serves.
//
//	plugin.Register(o.Admission.Plugins)
//	o.Admission.RecommendedPluginOrder = plugin.Order(o.Admission.RecommendedPluginOrder)
//
// Do this before the options are bound to flags: --enable-admission-plugins and
// --disable-admission-plugins then accept the name Usher. What the plugin reads from
// --admission-control-config-file is a [Configuration].
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial/isolated"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/observe/decisionlog"
	"github.com/usher-dev/usher/source"
	clustersource "github.com/usher-dev/usher/source/cluster"
	"github.com/usher-dev/usher/source/dir"
)

// Name is what the plugin is called on the command line and in configuration files.
const Name = apiserver.PluginName

// Register adds the plugin to those of a server. The server is ready without policies unless it adds the result
// to its checks: server.AddReadyzChecks(plugin.Register(plugins)).
func Register(plugins *admission.Plugins) *Readiness {
	ready := &Readiness{}
	apiserver.Register(plugins, func(config io.Reader) (admission.Interface, error) {
		p, err := New(config)
		if err != nil {
			return nil, err
		}
		ready.plugin.Store(p)
		return p, nil
	})
	return ready
}

// Order returns an order of plugins that includes this one, at its place.
func Order(plugins []string) []string { return apiserver.Order(plugins) }

const (
	// objectTTL is how long an object that was read one by one may be used again.
	objectTTL = time.Second
	// absent is how long the API must report that a kind of policy does not exist until that is
	// assumed. Meanwhile requests wait, for ten seconds at most.
	absent = 5 * time.Second
)

// A Plugin is the admission plugin with its policies. Servers make it through [Register].
type Plugin struct {
	*apiserver.Plugin

	config  Configuration
	log     *slog.Logger
	may     guard.Asker
	proofs  *proofs
	client  dynamic.Interface
	mapper  meta.RESTMapper
	access  fact.Resolver
	drained <-chan struct{}
	// policies are those that are stored, loaded whether all are: nil until the plugin is initialized.
	policies func() []rule.State
	loaded   func() bool
	// candidates returns what is counted of candidates.
	candidates func() []rule.CandidateState
}

var (
	_ admission.MutationInterface          = (*Plugin)(nil)
	_ admission.ValidationInterface        = (*Plugin)(nil)
	_ initializer.WantsAuthorizer          = (*Plugin)(nil)
	_ initializer.WantsDynamicClient       = (*Plugin)(nil)
	_ initializer.WantsRESTMapper          = (*Plugin)(nil)
	_ initializer.WantsDrainedNotification = (*Plugin)(nil)
)

// New returns a plugin with this configuration, which may be nil. The server sets its other
// dependencies, and starts it with ValidateInitialization.
func New(config io.Reader) (*Plugin, error) {
	c, err := Read(config)
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin %s: %w", Name, err)
	}
	for _, path := range c.Policies {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("configure admission plugin %s: load policies: %w", Name, err)
		}
	}
	p := &Plugin{config: *c, log: slog.New(logr.ToSlogHandler(klog.Background().WithName("usher")))}
	if len(c.ProofKeys) > 0 {
		p.proofs = &proofs{files: c.ProofKeys, log: p.log}
		if _, err := p.proofs.read(); err != nil {
			return nil, fmt.Errorf("configure admission plugin %s: %w", Name, err)
		}
	}
	return p, nil
}

// SetAuthorizer implements [initializer.WantsAuthorizer]: it is asked who may write a policy, and
// policies ask it what users may do.
func (p *Plugin) SetAuthorizer(a authorizer.Authorizer) {
	if a != nil {
		p.may, p.access = apiserver.May(a), fact.Access(apiserver.Ask(a))
	}
}

// SetDynamicClient implements [initializer.WantsDynamicClient].
func (p *Plugin) SetDynamicClient(client dynamic.Interface) { p.client = client }

// SetRESTMapper implements [initializer.WantsRESTMapper].
func (p *Plugin) SetRESTMapper(mapper meta.RESTMapper) { p.mapper = mapper }

// SetDrainedNotification implements [initializer.WantsDrainedNotification].
func (p *Plugin) SetDrainedNotification(drained <-chan struct{}) { p.drained = drained }

var errNoClient = errors.New("policies are to come from the API, and the server has no client for it: " +
	"name folders under policies and set fromAPI to false")

// ValidateInitialization starts to follow the policies, until the server has drained its
// requests. Requests wait for the first policies, ten seconds at most.
func (p *Plugin) ValidateInitialization() error {
	if p.Plugin != nil {
		return nil
	}
	if p.config.fromAPI() && (p.client == nil || p.mapper == nil) {
		return fmt.Errorf("initialize admission plugin %s: %w", Name, errNoClient)
	}
	limits, err := p.config.limits()
	if err != nil {
		return fmt.Errorf("initialize admission plugin %s: %w", Name, err)
	}
	// It is never done if the server does not say when it is.
	ctx := wait.ContextForChannel(p.drained)
	overruns := overrun.New(overrun.Options{Idle: overrun.ManyIdle, Log: p.log})
	context.AfterFunc(ctx, overruns.Close)
	facts, watching := p.facts()
	l := live.New(p.writers(live.Options{
		Facts:            facts,
		Quota:            live.Quota{Policies: p.config.NamespacePolicies, Bytes: p.config.NamespacePolicyBytes},
		LongestExemption: p.config.longestExemption(),
		Engine:           engine.Options{FailurePolicy: p.config.FailurePolicy, RuleTimeout: p.config.RuleTimeout.Duration, Overruns: overruns},
		Compile:          compile.Options{Limits: limits, Checker: isolated.New(worker.Shared(), isolated.Options{})},
		// No requests are authorized by its policies.
		Candidates: &live.Candidates{},
		Log:        p.log,
		// Nobody is to see other specs than those that were written.
		KeepSpecs: true,
	}, watching))
	// A server converts nothing for a plugin: each request has one entry. Nobody else can make one.
	asked := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		one := *r
		one.Entry, one.Trusted = webhookconfig.WholeEntryOf(r), true
		return l.Decide(ctx, &one)
	})
	p.Plugin = apiserver.New(decisionlog.Wrap(asked, p.log), apiserver.Options{
		Covers: l.Covers, Timeout: p.config.RequestTimeout.Duration, Log: p.log,
	})
	p.policies, p.loaded = l.Policies, func() bool { return l.Status().Generation > 0 }
	p.SetReadyFunc(p.loaded)
	p.follow(ctx, "policies", func() error { return l.Run(ctx, p.sources(ctx)...) })
	p.candidates = l.Candidates
	p.follow(ctx, "candidates", func() error { return logCandidates(ctx, l.Candidates, p.log) })
	if watching != nil {
		p.follow(ctx, "facts", func() error { return watching.Run(ctx) })
	}
	return p.Plugin.ValidateInitialization()
}

// follow runs what runs as long as the server does.
func (p *Plugin) follow(ctx context.Context, what string, run func() error) {
	go func() {
		if err := run(); err != nil {
			p.log.ErrorContext(ctx, "no longer current", "what", what, "error", err)
		}
	}()
}

// sources are the sources of policies; the earlier ones win.
func (p *Plugin) sources(ctx context.Context) []source.Source {
	var all []source.Source
	if len(p.config.Policies) > 0 {
		all = append(all, dir.New(p.config.Policies...))
	}
	if !p.config.fromAPI() {
		return all
	}
	o := clustersource.Options{Wait: absent, Log: p.log}
	if p.proofs != nil {
		o.Proofs = &p.proofs.prover
	}
	policies := clustersource.New(p.client, o)
	if p.proofs != nil {
		p.follow(ctx, "keys of policy proofs", func() error { return p.proofs.follow(ctx, policies.Recheck) })
	}
	return append(all, policies)
}

// writers adds to options what is asked about those who write policies to the API. Policies in
// files are written by operators.
func (p *Plugin) writers(o live.Options, objects *clusterfact.Resolver) live.Options {
	if !p.config.fromAPI() {
		return o
	}
	o.May = p.may
	if objects != nil {
		o.Places = live.Places(objects.Resource)
	}
	if p.proofs != nil {
		o.Proofs = &p.proofs.prover
	}
	return o
}

// facts is where rules get what their requests do not carry: objects through the API, HTTP
// answers from the network. The second result is nil without an API.
func (p *Plugin) facts() (fact.Resolver, *clusterfact.Resolver) {
	remote := cached.New(facthttp.New(facthttp.Options{AllowLocal: p.config.AllowLocalFacts}), p.config.FactTTL.Duration)
	if p.client == nil || p.mapper == nil {
		return fact.Resolvers{fact.Requests: remote, fact.Questions: p.access}, nil
	}
	objects := clusterfact.New(p.client, p.mapper, clusterfact.Options{Log: p.log})
	return fact.Resolvers{
		fact.Objects:   cached.New(objects, min(p.config.FactTTL.Duration, objectTTL)),
		fact.Requests:  remote,
		fact.Questions: p.access,
	}, objects
}
