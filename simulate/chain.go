package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/configuration"
	"k8s.io/apiserver/pkg/admission/initializer"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// order is that of an API server.
var order = []string{lifecycle.PluginName, mutatingPolicy, mutatingwebhook.PluginName, validatingPolicy, validatingwebhook.PluginName}

const (
	mutatingPolicy   = "MutatingAdmissionPolicy"
	validatingPolicy = "ValidatingAdmissionPolicy"
)

// A chain is the admission chain of an API server, with ears on it.
type chain struct {
	sim       *Simulator
	plugins   admission.Interface
	informers informers.SharedInformerFactory
	client    kubernetes.Interface

	// The webhooks in the order in which the plugins go through them.
	mutatingHooks, validatingHooks generic.Source
	policies                       policySources
	compiler                       func() plugincel.ConditionCompiler
	// compiled has the matchers of webhooks' conditions, by webhook.
	compiled sync.Map
}

func newChain(ctx context.Context, s *Simulator) (*chain, error) {
	client, err := kubernetes.NewForConfig(s.cluster.config)
	if err != nil {
		return nil, fmt.Errorf("build chain: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(s.cluster.config)
	if err != nil {
		return nil, fmt.Errorf("build chain: %w", err)
	}
	c := &chain{sim: s, client: client, informers: informers.NewSharedInformerFactory(client, 0), compiler: newConditionCompiler()}
	mapper := s.cluster.endpoints.mapper()
	c.mutatingHooks = configuration.NewMutatingWebhookConfigurationManager(c.informers)
	c.validatingHooks = configuration.NewValidatingWebhookConfigurationManager(c.informers)
	// Otherwise they start when a plugin first needs them.
	c.policies.listers(c.informers)
	initializers := admission.PluginInitializers{
		initializer.New(client, dynamicClient, c.informers, s.cluster.authorizer, utilfeature.DefaultFeatureGate,
			compatibility.DefaultBuildEffectiveVersion(), ctx.Done(), mapper),
		webhookinitializer.NewPluginInitializer(c.clients, resolver{s}),
	}
	c.plugins, err = c.registry().NewFromPlugins(order, noConfiguration{}, initializers, admission.DecoratorFunc(c.observe))
	if err != nil {
		return nil, fmt.Errorf("build chain: %w", err)
	}
	return c, nil
}

// registry has the plugins.
func (c *chain) registry() *admission.Plugins {
	plugins := admission.NewPlugins()
	lifecycle.Register(plugins)
	mutatingwebhook.Register(plugins)
	validatingwebhook.Register(plugins)
	plugins.Register(mutatingPolicy, func(io.Reader) (admission.Interface, error) { return c.newMutatingPolicies(), nil })
	plugins.Register(validatingPolicy, func(io.Reader) (admission.Interface, error) { return c.newValidatingPolicies(), nil })
	return plugins
}

// readTimeout bounds how long the cluster may take to answer.
const readTimeout = 30 * time.Second

// start reads the cluster.
func (c *chain) start(ctx context.Context, stop <-chan struct{}) error {
	c.informers.Start(stop)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for kind, synced := range c.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("read cluster: no answer about %v within %v", kind, readTimeout)
		}
	}
	return nil
}

// answers reports whether there is a webhook for which local answers.
func (c *chain) answers(local func(configuration, webhook string) http.Handler) bool {
	return slices.ContainsFunc(slices.Concat(c.mutatingHooks.Webhooks(), c.validatingHooks.Webhooks()), func(hook webhook.WebhookAccessor) bool {
		return local(hook.GetConfigurationName(), hook.GetName()) != nil
	})
}

func (c *chain) interfaces(r *run) admission.ObjectInterfaces {
	return objectInterfaces(c.sim.cluster.endpoints, c.sim.cluster.custom, r.defaulted)
}

// clients creates the clients of webhooks: their requests are not sent over the network.
func (c *chain) clients(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
	return &webhookutil.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(string) (*rest.Config, error) { return c.clientConfig(), nil },
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) {
			return c.clientConfig(), nil
		},
	}
}

func (c *chain) clientConfig() *rest.Config {
	config := &rest.Config{UserAgent: "kube-apiserver-admission"}
	config.Wrap(c.sim.wire)
	return config
}

// A resolver finds Services.
type resolver struct{ sim *Simulator }

// ResolveEndpoint implements [webhookutil.ServiceResolver].
func (r resolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	target, err := r.sim.service(namespace, name, port)
	if err != nil {
		return nil, err
	}
	if target == nil {
		return nil, fmt.Errorf("service %s/%s: %w", namespace, name, errNoAnswer)
	}
	return target, nil
}

// errNoAnswer is the error of a call to a Service that is not simulated.
var errNoAnswer = errors.New("not answered: nothing says where the service is")

type noConfiguration struct{}

// ConfigFor implements [admission.ConfigProvider].
func (noConfiguration) ConfigFor(string) (io.Reader, error) { return nil, nil }

// observe wraps a plugin with an observer.
func (c *chain) observe(plugin admission.Interface, name string) admission.Interface {
	return &observed{Interface: plugin, chain: c, name: name}
}

// An observed is a plugin that reports its actions to the run.
type observed struct {
	admission.Interface

	chain *chain
	name  string
}

// Admit implements [admission.MutationInterface].
func (p *observed) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, ok := p.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	r := runOf(ctx)
	round := r.rounds[p.name]
	r.rounds[p.name]++
	r.trace.Reinvoked = r.trace.Reinvoked || round > 0
	m := r.begin(a)
	err := plugin.Admit(ctx, a, o)
	p.chain.explain(ctx, p.name, &passage{run: r, mark: m, attributes: a, interfaces: o, round: round, err: err})
	return err
}

// Validate implements [admission.ValidationInterface].
func (p *observed) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, ok := p.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	r := runOf(ctx)
	m := r.begin(a)
	err := plugin.Validate(ctx, a, o)
	if p.name == validatingwebhook.PluginName {
		err = p.chain.firstError(ctx, r.calls, err, func(ctx context.Context) error { return plugin.Validate(ctx, a, o) })
	}
	p.chain.explain(ctx, p.name, &passage{run: r, mark: m, attributes: a, interfaces: o, err: err})
	return err
}

// A passage is the record of a request that has passed a plugin.
type passage struct {
	*run
	mark

	attributes admission.Attributes
	interfaces admission.ObjectInterfaces
	round      int
	err        error
}

// explain adds the steps of a plugin.
func (c *chain) explain(ctx context.Context, plugin string, p *passage) {
	switch plugin {
	case mutatingwebhook.PluginName:
		c.explainWebhooks(ctx, p, plugin, c.mutatingHooks.Webhooks())
	case validatingwebhook.PluginName:
		c.explainWebhooks(ctx, p, plugin, c.validatingHooks.Webhooks())
	case mutatingPolicy:
		c.explainMutatingPolicies(ctx, p)
	case validatingPolicy:
		c.explainValidatingPolicies(p)
	default:
		c.explainLifecycle(p)
	}
}

// explainLifecycle is the step of NamespaceLifecycle.
func (c *chain) explainLifecycle(p *passage) {
	s := Step{Plugin: lifecycle.PluginName, Called: true, Outcome: Passed, Took: time.Since(p.start)}
	if p.err != nil {
		status := statusOf(p.err)
		s.Outcome, s.Message, s.Code = Denied, status.Message, status.Code
		s.Why = fmt.Sprintf("namespace %s of the cluster", p.attributes.GetNamespace())
	}
	p.add(s, p.round)
}

// defaulted is called for each object that a plugin has changed.
func (r *run) defaulted(object runtime.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) > 0 {
		r.calls[len(r.calls)-1].after = object.DeepCopyObject()
	}
}
