package metrics

import "time"

// A ClusterState is the state of a process in a cluster. Its functions are called whenever metrics
// are read. Metrics of nil functions are omitted.
type ClusterState struct {
	// Staleness is for how long the policies have not been confirmed to be those of the cluster.
	Staleness func() time.Duration
	// Registered reports whether the webhook configurations cover what the policies need.
	Registered func() bool
	// Called is whether they do, as probes have shown. It is not known on replicas that do
	// not probe.
	Called func() (called, known bool)
	// Failing is how many policies fail at this replica.
	Failing func() int
	// Kinds is how many kinds of policies are in which state.
	Kinds func() map[string]int
	// DroppedEvents is how many Events about denials were not written.
	DroppedEvents func() int64
}

// Cluster adds metrics about the process in a cluster to m.
func (m *Metrics) Cluster(state ClusterState) {
	m.cluster.show(func() *ClusterState { return &state })
}

// Probed counts a probe by its result: called, not_called or unknown.
func (m *Metrics) Probed(result string) { m.probes.WithLabelValues(result).Inc() }

func clusterRows() []row[ClusterState] {
	return []row[ClusterState]{
		{"source_staleness_seconds", "Time since the policies were last confirmed to be those of the cluster; up to half a minute is normal.", nil, func(s *ClusterState, send sender) {
			if s.Staleness != nil {
				send(s.Staleness().Seconds())
			}
		}},
		{"registered", "1 if the webhook configurations have what the policies need, 0 if they could not be written.", nil, func(s *ClusterState, send sender) {
			if s.Registered != nil {
				send(is(s.Registered()))
			}
		}},
		{"probe_success", "1 if the leader's probes came back, 0 if API servers do not call the webhooks; only on the leader, and if known.", nil, func(s *ClusterState, send sender) {
			if s.Called == nil {
				return
			}
			if called, known := s.Called(); known {
				send(is(called))
			}
		}},
		{"failing_policies", "Policies with a rule that has failed at this replica and has not worked since.", nil, func(s *ClusterState, send sender) {
			if s.Failing != nil {
				send(float64(s.Failing()))
			}
		}},
		{"policy_kinds", "Kinds of policies of the cluster, by state: read, older (the CRD lacks fields of this version), absent, forbidden or failing.", []string{"state"}, by(func(s *ClusterState) map[string]int {
			if s.Kinds == nil {
				return nil
			}
			return s.Kinds()
		})},
		{"denial_events_dropped_total", "Events about denied requests that were not written: there were too many, or the API server refused them.", nil, func(s *ClusterState, send sender) {
			if s.DroppedEvents != nil {
				send(float64(s.DroppedEvents()))
			}
		}},
	}
}
