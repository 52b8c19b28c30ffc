package serve

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/live"
)

// health responds that the process runs.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

// ready responds whether requests should be sent here: policies are loaded and the server is not
// shutting down. Problems with policies do not make it unready, because the last good version of
// each is in force. With ?verbose it lists them.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	status := s.live.Status()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var b strings.Builder
	code := http.StatusOK
	switch {
	case s.webhooks.Ending():
		code = http.StatusServiceUnavailable
		b.WriteString("not ready: shutting down\n")
	case status.Generation == 0:
		code = http.StatusServiceUnavailable
		b.WriteString("not ready: " + live.ErrNotLoaded.Error() + "\n")
	default:
		b.WriteString("ok\n")
	}
	overruns := s.overruns.State()
	describeOverruns(&b, overruns)
	if r.URL.Query().Has("verbose") {
		nameOverruns(&b, overruns)
		if s.cluster != nil {
			s.cluster.describe(&b, status)
		}
		if s.protection.killSwitchOn() {
			fmt.Fprintf(&b, "authorization policies deny nothing, since %s exists\n", s.protection.KillSwitchFile)
		}
		s.describeWorkers(&b)
		describe(&b, status)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, b.String())
}

// describe writes a status as text.
func describe(b *strings.Builder, status live.Status) {
	if status.Generation == 0 {
		return
	}
	fmt.Fprintf(b, "policies: generation %d, since %s\n", status.Generation, status.Since.Format(time.RFC3339))
	for _, kind := range slices.Sorted(maps.Keys(status.Policies)) {
		fmt.Fprintf(b, "  %s: %d\n", kind, status.Policies[kind])
	}
	fmt.Fprintf(b, "rules: %d\n", status.Rules)
	fmt.Fprintf(b, "problems: %d\n", len(status.Problems))
	for _, problem := range status.Problems {
		fmt.Fprintf(b, "  %s\n", problem)
	}
	if len(status.Pending) > 0 {
		fmt.Fprintf(b, "not compiled yet: %d\n", len(status.Pending))
		for _, policy := range status.Pending {
			fmt.Fprintf(b, "  %s\n", policy)
		}
	}
	if len(status.Surplus) > 0 {
		fmt.Fprintf(b, "not in force, since their namespace has too many: %d\n", len(status.Surplus))
		for _, policy := range status.Surplus {
			fmt.Fprintf(b, "  %s\n", policy)
		}
	}
	if len(status.OnLastGood) > 0 {
		b.WriteString("enforced in their last good version:\n")
		for _, policy := range status.OnLastGood {
			fmt.Fprintf(b, "  %s\n", policy)
		}
	}
	if len(status.NotEnforced) > 0 {
		b.WriteString("not enforced, since they never compiled or are not proven:\n")
		for _, policy := range status.NotEnforced {
			fmt.Fprintf(b, "  %s\n", policy)
		}
	}
}

// describe writes the state of the server in the cluster as text.
func (m *clusterRuntime) describe(b *strings.Builder, status live.Status) {
	fmt.Fprintf(b, "cluster: %s, as replica %s, in namespace %s\n", m.Clients.Server, m.Identity, m.Namespace)
	fmt.Fprintf(b, "policies of the cluster: last heard %s ago\n", m.staleness().Round(time.Second/10))
	m.kinds.describe(b)
	m.describeAdmission(b, status)
	m.describeWebhookConfig(b)
	m.describeCalls(b)
	m.proofs.describe(b, m.proofSecret(), status.Proofs)
	m.auditing.describe(b)
	kinds := m.resolver.Watched()
	fmt.Fprintf(b, "kinds watched for facts: %d\n", len(kinds))
	for _, kind := range kinds {
		version, name := kind.Kind.ToAPIVersionAndKind()
		fmt.Fprintf(b, "  %s %s: %d objects", version, name, kind.Objects)
		switch {
		case kind.Err != nil:
			fmt.Fprintf(b, ", each is read when it is needed: %v", kind.Err)
		case !kind.Current:
			b.WriteString(", not complete yet")
		}
		b.WriteString("\n")
	}
}

func (m *clusterRuntime) describeWebhookConfig(b *strings.Builder) {
	if m.webhookConfig == nil {
		b.WriteString("registration: left to others\n")
		return
	}
	state := m.webhookConfig.status()
	name := cmp.Or(m.WebhookConfig.Name, "usher")
	switch {
	case state.since.IsZero():
		fmt.Fprintf(b, "registration %s: not made yet\n", name)
	case state.done:
		fmt.Fprintf(b, "registration %s: as the policies need it, since %s\n", name, state.since.Format(time.RFC3339))
	default:
		fmt.Fprintf(b, "registration %s: fails, since %s\n", name, state.since.Format(time.RFC3339))
	}
	if state.err != nil {
		fmt.Fprintf(b, "  %v\n", state.err)
	}
	keys, chosen := m.routes.table.Load().keys, m.routes.chosen.Load()
	fmt.Fprintf(b, "webhook paths: of %s, made %s, in Secret %s\n", keys.Current, keys.Replaced.Format(time.RFC3339), m.pathSecret())
	fmt.Fprintf(b, "  registered: %s, since %s\n", chosen.name, chosen.reason)
}
