package serve

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// KeepRegistered runs what keeps the registration. It returns what to call when policies
// have changed, and what tells how it is doing, also in words.
func KeepRegistered(
	ctx context.Context, e configurer, mapper meta.ResettableRESTMapper, leads func() bool, log *slog.Logger,
	coverage func() rule.Coverage, ca trust,
) (signal func(tell func(error)), status func() (done bool, err error), kept func() string) {
	r := newWebhookConfigSync(e, mapper, leads, log)
	go func() { _ = r.run(ctx, coverage, ca) }()
	return r.signal, func() (bool, error) {
		s := r.status()
		return s.done, s.err
	}, func() string { return r.kept(r.status()) }
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

// Limits returns what requests have taken of the server, and its connections.
func (s *Server) Limits() (*limit.Limiter, *limit.Conns) {
	return s.limits, s.webhooks.server.Connections()
}

// AwaitSickness waits until the evaluations of a state do not end.
func AwaitSickness(ctx context.Context, state func() overrun.State, log *slog.Logger) bool {
	return awaitSickness(ctx, state, log)
}

// Overruns runs the evaluations of a server.
func (s *Server) Overruns() *overrun.Watch { return s.evaluation.overruns }

// Exposed returns a configuration whose ports count as reached from other machines.
func Exposed(c Config) Config {
	c.Listen.exposed = true
	return c
}
