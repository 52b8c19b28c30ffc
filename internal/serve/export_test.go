package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/observe/metrics"
	clustersource "github.com/usher-dev/usher/source/cluster"
)

// KeepRegistered runs what keeps the registration. It returns what to call when policies
// have changed, and what tells how it is doing.
func KeepRegistered(
	ctx context.Context, e configurer, mapper meta.ResettableRESTMapper, leads func() bool, log *slog.Logger,
	coverage func() rule.Coverage, ca trust,
) (signal func(tell func(error)), status func() (done bool, err error)) {
	r := newWebhookConfigSync(e, mapper, leads, log)
	go func() { _ = r.run(ctx, coverage, ca) }()
	return r.signal, func() (bool, error) {
		s := r.status()
		return s.done, s.err
	}
}

// Traced wraps a decider in what explains the requests that t picks.
func Traced(t Trace, d usher.Decider, rules func() []rule.Rule, log *slog.Logger) usher.Decider {
	return t.wrap(d, func(string) []rule.Rule { return rules() }, log)
}

// An ImmunityUnderTest is one that tests look into.
type ProtectionUnderTest struct{ m *protection }

// NewProtection follows files once it is run.
func NewProtection(o Protection, log *slog.Logger) (*ProtectionUnderTest, error) {
	m, err := newProtection(o, log)
	return &ProtectionUnderTest{m}, err
}

// Run follows the files.
func (u *ProtectionUnderTest) Run(ctx context.Context) error { return u.m.run(ctx) }

// Users are the users in the file.
func (u *ProtectionUnderTest) Users() []authz.Subject { return u.m.users() }

// KillSwitchOn tells whether the switch is there.
func (u *ProtectionUnderTest) KillSwitchOn() bool { return u.m.killSwitchOn() }

// May asks the API server of a cluster.
func May(ctx context.Context, c Cluster, r *usher.Request) (bool, error) {
	return (&clusterRuntime{Cluster: &c}).may(ctx, r)
}

// ScopeOf reads the discovery of a cluster, and tells the scope of resources.
func ScopeOf(c Cluster) func(group, resource string) authz.Scope {
	s := newScopes(c.Clients.Kube.Discovery(), slog.New(slog.DiscardHandler))
	s.read()
	return s.of
}

// Limits returns what requests have taken of the server, and its connections.
func (s *Server) Limits() (*limit.Limiter, *limit.Conns) { return s.limits, s.webhooks.Connections() }

// PolicyKinds compares the kinds of a cluster with those of this version.
type PolicyKinds struct{ k *policyKinds }

// NewPolicyKinds returns one that has read no schemas.
func NewPolicyKinds(schemas openapi.Client, readings func() []clustersource.Reading, log *slog.Logger) PolicyKinds {
	return PolicyKinds{newPolicyKinds(schemas, readings, func() {}, log)}
}

// Read reads the schemas that have changed.
func (u PolicyKinds) Read() error { return u.k.read() }

// Count returns how many kinds are in each state.
func (u PolicyKinds) Count() map[string]int { return u.k.count() }

// Describe returns what /readyz?verbose says.
func (u PolicyKinds) Describe() string {
	b := page.Page{Named: true}
	u.k.describe(&b)
	return b.String()
}

// NewDecisionsAPI serves the decisions of a ring to readers that take no longer than the timeout.
func NewDecisionsAPI(ring *recent.Ring, timeout time.Duration) http.Handler {
	a := newDecisionsAPI(ring)
	a.writeTimeout = timeout
	return a
}

// A FactChanges is factChanges.
type FactChanges struct{ *factChanges }

// NewFactChanges is newFactChanges.
func NewFactChanges(delay time.Duration, tell func(of schema.GroupVersionKind, namespace, name string)) FactChanges {
	return FactChanges{newFactChanges(delay, tell)}
}

// Add is add.
func (c FactChanges) Add(of schema.GroupVersionKind, namespace, name string) {
	c.add(of, namespace, name)
}

// Run is run.
func (c FactChanges) Run(ctx context.Context, from *clusterfact.Resolver) { c.run(ctx, from) }

// An AuditTerm is the audit by a replica that leads, which reads nothing.
type AuditTerm struct{ t *term }

// NewAuditTerm returns the audit by some policies.
func NewAuditTerm(compiled []compile.Compiled) AuditTerm {
	log := slog.New(slog.DiscardHandler)
	t := &term{auditing: newAuditing(Audit{}, nil, newScopes(nil, log), nil, log), unreadable: map[result.Kind]bool{}, auditor: audit.New(audit.Options{Log: log})}
	t.auditor.Enforce(compiled)
	t.publish(t.auditor)
	return AuditTerm{t}
}

// Follow follows what discovery returned. It returns the text of /readyz?verbose, what metrics are
// made of, and the results of the cluster.
func (a AuditTerm) Follow(ctx context.Context, lists []*metav1.APIResourceList, complete bool) (string, *metrics.AuditState, []result.Result) {
	a.t.scopes.lists.Store(&discovered{lists: lists, complete: complete})
	a.t.follow(ctx)
	ready := page.Page{Named: true}
	a.t.describe(&ready)
	results, _ := a.t.auditor.Namespace("")
	return ready.String(), a.t.state(), results
}

// Kinds returns the kinds that are read after discovery, and whether only their metadata is, and those
// that cannot be.
func (a AuditTerm) Kinds(lists []*metav1.APIResourceList, complete bool) (kinds map[result.Kind]bool, unreadable map[result.Kind]error) {
	d := &discovered{lists: lists, complete: complete}
	a.t.discover(d)
	return audited(lists, a.t.auditor)
}

// Policies returns the policies that judge objects of a kind.
func (a AuditTerm) Policies(k result.Kind) []usher.PolicyRef { return a.t.auditor.Policies(k) }

// NewExisting returns what counts the objects of an API server that policies would refuse, after
// discovery, with some policies in force.
func NewExisting(client rest.Interface, lists []*metav1.APIResourceList, enforced []compile.Compiled) func(context.Context, compile.Compiled) []rule.Problem {
	log := slog.New(slog.DiscardHandler)
	a := newAuditing(Audit{}, client, newScopes(nil, log), nil, log)
	a.scopes.lists.Store(&discovered{lists: lists, complete: true})
	a.facts = fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return nil, errors.New("there are no facts") })
	a.engine.FailurePolicy = usher.Fail
	a.enforced = func() []compile.Compiled { return enforced }
	return a.existing
}

// AwaitSickness waits until the evaluations of a state do not end.
func AwaitSickness(ctx context.Context, state func() overrun.State, log *slog.Logger) bool {
	return awaitSickness(ctx, state, log)
}

// Overruns runs the evaluations of a server.
func (s *Server) Overruns() *overrun.Watch { return s.overruns }

// Exposed returns a configuration whose ports count as reached from other machines.
func Exposed(c Config) Config {
	c.exposed = true
	return c
}
