package serve

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/rule/authz"
)

// KeepRegistered runs what keeps the registration. It returns what to call when policies
// have changed, and what tells how it is doing.
func KeepRegistered(
	ctx context.Context, e enroller, mapper meta.ResettableRESTMapper, leads func() bool, log *slog.Logger,
	coverage func() rule.Coverage, ca trust,
) (signal func(tell func(error)), status func() (done bool, err error)) {
	r := newRegistration(e, mapper, leads, log)
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
type ImmunityUnderTest struct{ m *immunity }

// NewImmunity follows files once it is run.
func NewImmunity(o Immunity, log *slog.Logger) (*ImmunityUnderTest, error) {
	m, err := newImmunity(o, log)
	return &ImmunityUnderTest{m}, err
}

// Run follows the files.
func (u *ImmunityUnderTest) Run(ctx context.Context) error { return u.m.run(ctx) }

// Immune are the users in the file.
func (u *ImmunityUnderTest) Immune() []authz.Subject { return u.m.immune() }

// Disarmed tells whether the switch is there.
func (u *ImmunityUnderTest) Disarmed() bool { return u.m.isDisarmed() }

// May asks the API server of a cluster.
func May(ctx context.Context, c Cluster, r *usher.Request) (bool, error) {
	return (&member{Cluster: &c}).may(ctx, r)
}

// ScopeOf reads the discovery of a cluster, and tells the scope of resources.
func ScopeOf(c Cluster) func(group, resource string) authz.Scope {
	s := newScopes(c.Clients.Kube.Discovery(), slog.New(slog.DiscardHandler))
	s.read()
	return s.of
}
