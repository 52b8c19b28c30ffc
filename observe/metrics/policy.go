package metrics

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
)

// policies counts the outcomes of each policy. The series of a policy are deleted with it.
type policies struct {
	table[policySeries]

	// series is replaced whole, under mutex, when a policy comes or goes.
	series atomic.Pointer[map[usher.PolicyRef]*series]
	mutex  sync.Mutex
	// deleted has what the policies that are gone had counted, by kind: sums over all policies of a
	// kind must not fall. It is under mutex.
	deleted map[string]*series
}

// series are the counters of one policy.
type series struct {
	evaluations, denials, wouldDeny, warnings, exempted, patches, errors atomic.Uint64
	// nanoseconds is the sum of how long its rules took.
	nanoseconds atomic.Int64
}

// policySeries are the counters of one policy, and which policy that is.
type policySeries struct {
	policy usher.PolicyRef
	*series
}

// send sends a value of the policy.
func (s *policySeries) send(send sender, value float64) {
	send(value, s.policy.Kind, s.policy.Namespace, s.policy.Name)
}

func (p *policies) init(m *catalog) {
	p.series.Store(&map[usher.PolicyRef]*series{})
	p.deleted = map[string]*series{}
	p.table.init(m, policyRows()...)
}

// counter has a row send a counter.
func counter(of func(*series) *atomic.Uint64) func(*policySeries, sender) {
	return func(s *policySeries, send sender) { s.send(send, float64(of(s.series).Load())) }
}

func policyRows() []row[policySeries] {
	labels := []string{"policy_kind", "policy_namespace", "policy_name"}
	return []row[policySeries]{
		{"policy_evaluations_total", "Rules of the policy that ran.", labels, counter(func(s *series) *atomic.Uint64 { return &s.evaluations })},
		{"policy_denials_total", "Rules of the policy that rejected a request.", labels, counter(func(s *series) *atomic.Uint64 { return &s.denials })},
		{"policy_would_deny_total", "Rules of the policy that would deny a request, but are in Audit mode or match a protected user.", labels, counter(func(s *series) *atomic.Uint64 { return &s.wouldDeny })},
		{"policy_warnings_total", "Rules of the policy with a check whose action is Warn that warned of a request.", labels, counter(func(s *series) *atomic.Uint64 { return &s.warnings })},
		{"policy_exempted_total", "Rules of the policy that were not applied, or only in part, because of a policy exemption.", labels, counter(func(s *series) *atomic.Uint64 { return &s.exempted })},
		{"policy_patches_total", "Rules of the policy that changed an object.", labels, counter(func(s *series) *atomic.Uint64 { return &s.patches })},
		{"policy_errors_total", "Rules of the policy that failed, including ignored failures.", labels, counter(func(s *series) *atomic.Uint64 { return &s.errors })},
		{"policy_duration_seconds_total", "Total run time of rules of the policy.", labels, func(s *policySeries, send sender) { s.send(send, math.Max(0, float64(s.nanoseconds.Load())/1e9)) }},
	}
}

// count adds up what the rules of one decision did.
func (p *policies) count(findings []usher.Finding) {
	for i := range findings {
		f := &findings[i]
		if f.Policy == (usher.PolicyRef{}) || f.Written {
			// What no policy says is counted with the decisions, what is said about one that is
			// written with policy admissions.
			continue
		}
		s := (*p.series.Load())[f.Policy]
		if s == nil {
			s = p.add(f.Policy)
		}
		s.evaluations.Add(1)
		switch f.Outcome {
		case usher.Rejected:
			s.denials.Add(1)
		case usher.WouldDeny:
			s.wouldDeny.Add(1)
		case usher.Changed:
			s.patches.Add(1)
		case usher.Failed:
			s.errors.Add(1)
		case usher.Passed, usher.Skipped, usher.Exempted:
		}
		if f.Outcome != usher.Exempted && slices.ContainsFunc(f.Checks, func(c usher.Check) bool { return slices.Contains(c.Actions, usher.ActWarn) }) {
			s.warnings.Add(1)
		}
		if len(f.Exemptions) > 0 {
			s.exempted.Add(1)
		}
		if f.Outcome != usher.Failed && f.Failure() != nil {
			s.errors.Add(1)
		}
		s.nanoseconds.Add(int64(f.Took))
	}
}

func (p *policies) add(policy usher.PolicyRef) *series {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	known := *p.series.Load()
	if s := known[policy]; s != nil {
		return s
	}
	next := maps.Clone(known)
	next[policy] = &series{}
	p.series.Store(&next)
	return next[policy]
}

// keep deletes the series of all policies but these, and creates theirs: a counter that exists at 0
// makes the first denial visible as an increase.
func (p *policies) keep(current []usher.PolicyRef) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	known := *p.series.Load()
	next := make(map[usher.PolicyRef]*series, len(current))
	for _, policy := range current {
		if policy == (usher.PolicyRef{}) {
			continue
		}
		if next[policy] = known[policy]; next[policy] == nil {
			next[policy] = &series{}
		}
	}
	for policy, s := range known {
		if next[policy] != nil {
			continue
		}
		if p.deleted[policy.Kind] == nil {
			p.deleted[policy.Kind] = &series{}
		}
		p.deleted[policy.Kind].add(s)
	}
	p.series.Store(&next)
}

func (s *series) add(other *series) {
	for _, pair := range [][2]*atomic.Uint64{
		{&s.evaluations, &other.evaluations}, {&s.denials, &other.denials}, {&s.wouldDeny, &other.wouldDeny}, {&s.warnings, &other.warnings},
		{&s.exempted, &other.exempted}, {&s.patches, &other.patches}, {&s.errors, &other.errors},
	} {
		pair[0].Add(pair[1].Load())
	}
	s.nanoseconds.Add(other.nanoseconds.Load())
}

// Collect implements prometheus.Collector.
func (p *policies) Collect(metrics chan<- prometheus.Metric) {
	for policy, s := range *p.series.Load() {
		p.send(metrics, &policySeries{policy, s})
	}
}

// deletedPolicies collects what policies that are gone had counted.
type deletedPolicies struct{ of *policies }

// Describe implements prometheus.Collector. The descriptions are those of policies.
func (deletedPolicies) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d deletedPolicies) Collect(metrics chan<- prometheus.Metric) {
	d.of.mutex.Lock()
	defer d.of.mutex.Unlock()
	for kind, s := range d.of.deleted {
		d.of.send(metrics, &policySeries{usher.PolicyRef{Kind: kind}, s})
	}
}
