package openreports_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/report/openreports"
)

// FuzzReports has results, the cluster, other writers and leaders change at random. Once all is
// quiet, the reports are what the audit says, and nothing more is written.
func FuzzReports(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed, uint16(40), uint16(0))
		f.Add(seed+100, uint16(40), uint16(300))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps, limit uint16) {
		synctest.Test(t, func(t *testing.T) {
			m := &mayhem{cluster: newCluster(), audit: newAudit(), random: rand.New(rand.NewPCG(seed, 1)), limit: int(limit)}
			m.run(t, int(steps%200))
		})
	})
}

// mayhem is what can happen to reports.
type mayhem struct {
	*cluster
	audit  *audit
	random *rand.Rand
	limit  int
	rig    *rig
	// foreign are the reports of others, with their versions.
	foreign map[string]string
}

func (m *mayhem) run(t *testing.T, steps int) {
	m.foreign = map[string]string{}
	m.rig = run(t, m.cluster, m.audit, openreports.Options{Limit: m.limit})
	for range steps {
		m.step(t)
		pass(time.Duration(m.random.IntN(4000)) * time.Millisecond)
	}
	m.do(func() {
		m.inject, m.missing = nil, false
		clear(m.deleted)
	})
	m.audit.kind("Pod", true, nil)
	m.audit.kind("Service", true, nil)
	pass(time.Hour)
	m.check(t)
	before, _ := m.counts()
	was := m.snapshot()
	pass(time.Hour)
	if after, _ := m.counts(); after != before {
		t.Errorf("%d writes in an idle hour: %s", after-before, cmp.Diff(was, m.snapshot()))
	}
	m.restart(t)
	pass(time.Hour)
	if after, _ := m.counts(); after != before {
		t.Errorf("a new leader wrote %d reports: %s", after-before, cmp.Diff(was, m.snapshot()))
	}
	if status := m.rig.writer.Status(); status.Err != nil || status.Pending != 0 || len(status.Blocked) != 0 {
		t.Errorf("status: %+v", status)
	}
}

func (m *mayhem) restart(t *testing.T) {
	m.rig.stop()
	m.rig = run(t, m.cluster, m.audit, openreports.Options{Limit: m.limit})
}

// step has one thing happen.
func (m *mayhem) step(t *testing.T) {
	name := []string{"", "a", "b", "c"}[m.random.IntN(4)]
	switch m.random.IntN(12) {
	case 0, 1, 2, 3:
		m.audit.set(name, m.random.IntN(3), m.results(name)...)
	case 4:
		m.restart(t)
	case 5:
		m.audit.kind([]string{"Pod", "Service"}[m.random.IntN(2)], m.random.IntN(2) == 0, []error{nil, errForbidden}[m.random.IntN(2)])
	case 6, 7:
		m.do(func() {
			odds := m.random.IntN(100)
			m.inject = func(string, string, string) outcome {
				if m.random.IntN(100) < odds {
					return outcome(m.random.IntN(5))
				}
				return works
			}
		})
	case 8:
		m.do(func() { m.interfere(name) })
	case 9:
		m.do(func() {
			if m.missing = !m.missing; m.missing {
				clear(m.reports)
				clear(m.foreign)
			}
		})
	case 10:
		m.do(func() { m.deleted[name] = !m.deleted[name] })
	case 11:
		pass(10 * time.Minute)
	}
}

// results returns random results: often many, and with equal ones among them.
func (m *mayhem) results(namespace string) []result.Result {
	all := make([]result.Result, m.random.IntN(1+[]int{3, 50, 400}[m.random.IntN(3)]))
	for i := range all {
		all[i] = about(namespace, []string{"Pod", "Service"}[m.random.IntN(2)], fmt.Sprintf("app-%d", m.random.IntN(300)),
			result.Statuses()[m.random.IntN(5)], fmt.Sprintf("message %d", m.random.IntN(2)))
	}
	return all
}

// interfere does to a report what other writers may do.
func (m *mayhem) interfere(namespace string) {
	id := fmt.Sprintf("%s/usher-%d", namespace, 1+m.random.IntN(3))
	r := m.reports[id]
	switch {
	case r == nil:
		if !m.missing && len(m.foreign) < 5 {
			m.foreign[id] = m.store(&openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id[len(namespace)+1:]}}).ResourceVersion
		}
	case m.foreign[id] != "":
	case m.random.IntN(2) == 0:
		delete(m.reports, id)
	default:
		changed := *r
		changed.Results = slices.Clone(r.Results[:len(r.Results)/2])
		changed.Summary = result.Summary{Error: 99}
		m.store(&changed)
	}
}

// check compares the reports with what the audit says.
func (m *mayhem) check(t *testing.T) {
	t.Helper()
	got, sums, results := map[string]map[string]int{}, map[string]result.Summary{}, 0
	for id, r := range m.snapshot() {
		if version := m.foreign[id]; version != "" {
			if version != r.ResourceVersion {
				t.Errorf("report %s of another writer was changed", id)
			}
			continue
		}
		if len(r.Results) > 100 {
			t.Errorf("%s has %d results", id, len(r.Results))
		}
		sum := sums[r.Namespace]
		sum.Merge(r.Summary)
		sums[r.Namespace] = sum
		for i := range r.Results {
			if got[r.Namespace] == nil {
				got[r.Namespace] = map[string]int{}
			}
			s := r.Results[i].Subjects[0]
			got[r.Namespace][fmt.Sprint(s.Kind, s.Name, r.Results[i].Result, r.Results[i].Message)]++
			results++
		}
	}
	wanted, want, wantSums := 0, map[string]map[string]int{}, map[string]result.Summary{}
	for _, name := range m.audit.Namespaces() {
		all, sum := m.audit.Namespace(name)
		wantSums[name] = sum.Total()
		for i := range all {
			r := &all[i]
			if r.Status == result.Skip || r.Status == result.Pass {
				continue
			}
			if want[name] == nil {
				want[name] = map[string]int{}
			}
			want[name][fmt.Sprint(r.Object.Kind, r.Object.Name, r.Status, r.Message)]++
			wanted++
		}
	}
	if diff := cmp.Diff(wantSums, sums); diff != "" {
		t.Error("summaries (-want +got):", diff)
	}
	limit := m.limit
	if limit == 0 {
		limit = openreports.DefaultLimit
	}
	if results != min(wanted, limit) {
		t.Errorf("%d results are reported, of %d, with a limit of %d", results, wanted, limit)
	}
	if wanted <= limit {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error("results (-want +got):", diff)
		}
	}
	for name := range got {
		for id, n := range got[name] {
			if n > want[name][id] {
				t.Errorf("%s: %q is reported %d times, expected %d", name, id, n, want[name][id])
			}
		}
	}
}
