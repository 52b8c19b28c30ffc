package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/probe"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/serve/page"
)

// probePurpose is the purpose from which the keys of probes are derived: replicas that share a certificate
// share these keys.
const probePurpose = "usher.dev/probe"

// newProber returns a prober, which finds out whether API servers call the webhooks; nil if there
// is no client for that.
func (m *clusterRuntime) newProber(c Config, keys probe.Keys, count func(probe.State)) *probe.Prober {
	if m.Clients.Probe == nil {
		return nil
	}
	o := probe.Options{
		Writer: m.Clients.Probe, Keys: keys, Foreign: !m.ManageWebhookConfig,
		Advice: "look for \"failed calling webhook\" in the log of the API server, and at the Service, the network and the CA bundle of the webhook configurations",
		Count:  count, Log: c.Log,
	}
	if c.Callers.Guarded() {
		o.Advice = "API servers have to show what --client-ca-file or --token-file asks for: 'usher admission config' writes what they need, and usher_refused_callers_total tells who is refused; else " + o.Advice
	}
	if m.ManageWebhookConfig {
		o.Lost = func() { m.webhookConfig.recheck() }
	}
	return probe.New(o)
}

// verify finds out whether API servers call the webhooks, while this replica is the leader.
func (m *clusterRuntime) verify(ctx context.Context, tell func(report.Calls)) {
	m.prober.Run(ctx, func(r probe.Observation) {
		states := map[probe.State]report.CallState{
			probe.Awaited: report.CallsAwaited, probe.Called: report.CallsSeen,
			probe.NotCalled: report.CallsMissing, probe.Unknown: report.CallsUnknown,
		}
		tell(report.Calls{State: states[r.State], Message: r.Message})
	})
}

// areCalled exports the results of probes as metrics.
func (m *clusterRuntime) areCalled() (called, known bool) {
	if m.prober == nil {
		return false, false
	}
	result, _ := m.prober.Result()
	return result.State == probe.Called, result.State == probe.Called || result.State == probe.NotCalled
}

// describeCalls writes whether API servers call the webhooks, for people.
func (m *clusterRuntime) describeCalls(b *page.Page) {
	if m.prober == nil {
		return
	}
	result, probing := m.prober.Result()
	since := result.Since.Format(time.RFC3339)
	switch {
	case !probing:
		b.WriteString("calls of API servers: verified by the replica that leads\n")
	case result.State == probe.Called:
		fmt.Fprintf(b, "calls of API servers: verified since %s, last %s ago\n", since, time.Since(result.At).Round(time.Second))
	case result.State == probe.NotCalled:
		fmt.Fprintf(b, "calls of API servers: NONE since %s, policies are not enforced\n", since)
		b.Reason(result.Message)
		b.Fail("calls of API servers")
	case result.State == probe.Unknown:
		fmt.Fprintf(b, "calls of API servers: cannot be verified, since %s\n", since)
		b.Reason(result.Message)
	default:
		b.WriteString("calls of API servers: not verified yet\n")
	}
	if last := m.answerer.Last(); !last.IsZero() {
		fmt.Fprintf(b, "  this replica was last asked to verify them %s ago\n", time.Since(last).Round(time.Second))
	}
}
