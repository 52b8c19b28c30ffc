package metrics

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
)

// MostExemptions limits the exemptions with a series of their own: users may write many.
const MostExemptions = 500

// An Exemption is an exemption that is stored, and when it ends. The time is zero if it is not in
// force, for whatever other reason.
type Exemption struct {
	Ref     usher.PolicyRef
	Expires time.Time
}

// Exemptions adds metrics about exemptions to m. The function is called whenever metrics are read.
func (m *Metrics) Exemptions(all func() []Exemption) { m.exemptions.current.Store(&all) }

// exemptions shows what Exemptions was given.
type exemptions struct {
	count, expiry *prometheus.Desc

	current atomic.Pointer[func() []Exemption]
}

func (e *exemptions) init(m *catalog) {
	e.count = m.gauge("exemptions", "Policy exemptions, by state: valid, expired, or invalid (not in force for another reason, which its status says).", "state")
	e.expiry = m.gauge("exemption_expiry_timestamp_seconds", "When a valid policy exemption expires, in seconds since 1970; for the 500 that expire first.",
		"exemption_kind", "exemption_namespace", "exemption_name")
}

// Describe implements prometheus.Collector.
func (e *exemptions) Describe(descs chan<- *prometheus.Desc) {
	descs <- e.count
	descs <- e.expiry
}

// Collect implements prometheus.Collector.
func (e *exemptions) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := e.current.Load()
	if current == nil {
		return
	}
	all, now := (*current)(), time.Now()
	// Alerts need a 0 to compare with, not a missing series.
	states := map[string]int{"valid": 0, "expired": 0, "invalid": 0}
	valid := slices.DeleteFunc(slices.Clone(all), func(x Exemption) bool {
		state := "valid"
		switch {
		case x.Expires.IsZero():
			state = "invalid"
		case !now.Before(x.Expires):
			state = "expired"
		}
		states[state]++
		return state != "valid"
	})
	for state, n := range states {
		sent.gauge(e.count, float64(n), state)
	}
	slices.SortFunc(valid, func(a, b Exemption) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	for _, x := range valid[:min(len(valid), MostExemptions)] {
		sent.gauge(e.expiry, float64(x.Expires.Unix()), x.Ref.Kind, x.Ref.Namespace, x.Ref.Name)
	}
}
