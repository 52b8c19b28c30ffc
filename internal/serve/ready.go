package serve

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/page"
)

// health responds that the process runs.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

// verbosePath is what callers need the right to get to read names at /readyz?verbose. Everybody may
// get /readyz itself in a cluster; below it only monitoring may.
const verbosePath = "/readyz/verbose"

// longestStaleness is how long the API server may be silent before that counts as a failure, as for the alert
// UsherPoliciesStale.
const longestStaleness = 2 * time.Minute

// A readiness tells how a server is.
type readiness struct {
	live       *live.Live
	evaluation *evaluation
	protection *protection
	// cluster is nil if the server has none, and readers if nobody knows who may read names.
	cluster *clusterRuntime
	readers *delegated.Guard
	listen  *Listening
	// ending reports whether the server is shutting down.
	ending func() bool
}

// answer responds at a port whether requests should be sent here: policies are loaded and the server is not
// shutting down. Problems with policies do not make it unready, because the last good version of
// each is in force. With ?verbose it lists them, by name for callers that may know names.
func (d *readiness) answer(at net.Listener) http.HandlerFunc {
	plain := func(w http.ResponseWriter, r *http.Request) { d.write(w, r, &page.Page{}) }
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.write(w, r, &page.Page{Named: true}) })
	if d.listen.confined(at) {
		return named
	}
	if d.readers == nil {
		return plain
	}
	guarded := d.readers.Require(verbosePath, named)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("verbose") && r.Header.Get("Authorization") != "" {
			guarded.ServeHTTP(w, r)
			return
		}
		plain(w, r)
	}
}

func (d *readiness) write(w http.ResponseWriter, r *http.Request, b *page.Page) {
	status := d.live.Status()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	code := http.StatusOK
	switch {
	case d.ending():
		code = http.StatusServiceUnavailable
		b.WriteString("not ready: shutting down\n")
	case status.Generation == 0:
		code = http.StatusServiceUnavailable
		b.WriteString("not ready: " + live.ErrNotLoaded.Error() + "\n")
	default:
		b.WriteString("ok\n")
	}
	overruns, ofCandidates := d.evaluation.overruns.State(), d.live.CandidateOverruns()
	describeOverruns(b, "evaluations", overruns)
	describeOverruns(b, "evaluations of candidates", ofCandidates)
	if r.URL.Query().Has("verbose") {
		nameOverruns(b, "evaluations", overruns)
		nameOverruns(b, "evaluations of candidates", ofCandidates)
		d.describe(b, status)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, b.Text())
}

// describe writes all that there is to say.
func (d *readiness) describe(b *page.Page, status live.Status) {
	if d.cluster != nil {
		d.cluster.describe(b, status)
	}
	if d.protection.killSwitchOn() {
		b.WriteString("denials of authorization policies are switched off\n")
		b.Reason(d.protection.KillSwitchFile + " exists: remove it, and they deny again")
		b.Fail("denials of authorization policies")
	}
	d.evaluation.describeWorkers(b)
	describe(b, status, live.Problems(d.live))
	page.List(b, "candidates that are not evaluated", unevaluated(d.live.Candidates()))
	if !b.Named && d.readers != nil {
		b.WriteString("names are withheld: send a bearer token of somebody who may get " + verbosePath + "\n")
	} else if !b.Named {
		b.WriteString("names are withheld: the server is reached from other machines, and no cluster says who may know them\n")
	}
}

// describe writes a status as text, with all problems.
func describe(b *page.Page, status live.Status, problems []rule.Problem) {
	if status.Generation == 0 {
		return
	}
	fmt.Fprintf(b, "policies: generation %d, since %s\n", status.Generation, status.Since.Format(time.RFC3339))
	for _, kind := range slices.Sorted(maps.Keys(status.Policies)) {
		fmt.Fprintf(b, "  %s: %d\n", kind, status.Policies[kind])
	}
	fmt.Fprintf(b, "rules: %d\n", status.Rules)
	if len(problems) == 0 {
		b.WriteString("problems: 0\n")
	}
	page.List(b, "problems", problems)
	if n := len(status.NotEnforced) + len(status.OnLastGood) + len(status.Pending) + len(status.Surplus); n > 0 {
		b.Fail("policies")
	}
	page.List(b, "not compiled yet", status.Pending)
	page.List(b, "not in force, since their namespace has too many", status.Surplus)
	page.List(b, "suspended: they decide nothing", status.Suspended)
	page.List(b, "enforced in their last good version", status.OnLastGood)
	page.List(b, "not enforced, since they never compiled or are not proven", status.NotEnforced)
}

// describe writes the state of the server in the cluster as text.
func (m *clusterRuntime) describe(b *page.Page, status live.Status) {
	b.Namef("cluster: %s, as replica %s, in namespace %s\n", m.Clients.Server, m.Identity, m.Namespace)
	stale := m.staleness()
	fmt.Fprintf(b, "policies of the cluster: last heard %s ago\n", stale.Round(time.Second/10))
	if stale > longestStaleness {
		b.Fail("policies of the cluster")
	}
	m.kinds.Describe(b)
	m.describeAdmission(b, status)
	m.describeWebhookConfig(b)
	m.describeCalls(b)
	m.proofs.Describe(b, status.Proofs)
	m.audit.Describe(b)
	watched := m.resolver.Watched()
	fmt.Fprintf(b, "kinds watched for facts: %d\n", len(watched))
	for _, kind := range watched {
		version, name := kind.Kind.ToAPIVersionAndKind()
		b.Namef("  %s %s: %d objects", version, name, kind.Objects)
		switch {
		case kind.Err != nil:
			b.Namef(", each is read when it is needed: %v", kind.Err)
		case !kind.Current:
			b.Namef(", not complete yet")
		}
		b.Namef("\n")
	}
}

func (m *clusterRuntime) describeWebhookConfig(b *page.Page) {
	if m.webhookConfig == nil {
		b.WriteString("registration: left to others\n")
		return
	}
	state := m.webhookConfig.status()
	b.Either("registration %s: ", "registration: ", cmp.Or(m.WebhookConfig.Name, "usher"))
	switch {
	case state.since.IsZero():
		b.WriteString("not made yet\n")
	case state.done:
		b.WriteString(m.webhookConfig.kept(state) + "\n")
	default:
		fmt.Fprintf(b, "fails, since %s\n", state.since.Format(time.RFC3339))
		b.Fail("registration")
	}
	if state.err != nil {
		b.Reason(state.err)
	}
	m.routes.Describe(b, m.pathSecret())
}
