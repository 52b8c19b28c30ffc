package plugin

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/usher-dev/usher/internal/rule"
)

// A Readiness is a health check of a server for its endpoint /readyz: it fails until policies are in force. It
// is a healthz.HealthChecker of k8s.io/apiserver. Get it from [Register].
//
// It fails until the policies are loaded, and then if none of the cluster's policies that are to be enforced
// compiles, or if all are to come from files, and there is none. Once it has passed, it does not fail again: last
// good versions stay in force, and what changes is in the log. It passes if the plugin is disabled.
type Readiness struct {
	plugin atomic.Pointer[Plugin]
	passed atomic.Bool
}

// Name implements healthz.HealthChecker.
func (*Readiness) Name() string { return "usher-policies" }

var (
	errNotLoaded  = errors.New("policies not loaded yet")
	errNoPolicies = errors.New("no policies in force: the log has the problems of each")
)

// Check implements healthz.HealthChecker.
func (r *Readiness) Check(*http.Request) error {
	p := r.plugin.Load()
	if p == nil || r.passed.Load() {
		return nil
	}
	if p.policies == nil || !p.loaded() {
		return errNotLoaded
	}
	// Those of namespaces are their tenants', who decide nothing about the server.
	of := slices.DeleteFunc(slices.Clone(p.policies()), func(s rule.State) bool { return !s.Admission || s.Policy.Namespace != "" || s.Suspended != "" })
	enforced := slices.ContainsFunc(of, func(s rule.State) bool { return s.Enforced })
	if !enforced && slices.ContainsFunc(of, func(s rule.State) bool { return s.Pending }) {
		return errNotLoaded
	}
	if !enforced && (len(of) > 0 || !p.config.fromAPI()) {
		return errNoPolicies
	}
	r.passed.Store(true)
	return nil
}
