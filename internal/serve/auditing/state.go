package auditing

import (
	"cmp"
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/auditapi"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/observe/metrics"
)

// stale is for how long objects need not be confirmed: API servers do so each minute.
const stale = 5 * time.Minute

// name names the resource of a kind as logs and metrics do.
func name(k result.Kind) string {
	r := k.Resource
	if r.Group == "" {
		return r.Resource + "." + r.Version
	}
	return r.Resource + "." + r.Version + "." + r.Group
}

// API returns the options of the API for results.
func (a *Audit) API() auditapi.Options {
	if a == nil {
		return auditapi.Options{}
	}
	return auditapi.Options{Reader: a.reader, Leader: a.options.Leader}
}

// Describe writes how far the audit has come, and which kinds it cannot read.
func (a *Audit) Describe(b *page.Page) {
	if a == nil {
		return
	}
	auditor := a.current.Load()
	if auditor == nil {
		b.Either("audit: by the replica that leads, %s\n", "audit: by the replica that leads\n", cmp.Or(a.options.Leader(), "which is not known yet"))
		return
	}
	kinds := auditor.Kinds()
	objects, backlog, omitted := 0, 0, 0
	for i := range kinds {
		objects, backlog, omitted = objects+kinds[i].Objects, backlog+kinds[i].Backlog, omitted+kinds[i].Omitted
	}
	stats := auditor.Stats()
	fmt.Fprintf(b, "audit: by this replica, of %d objects of %d kinds, %d to be judged, with %d of %d MiB\n", objects, len(kinds), backlog, stats.Used>>20, stats.Limit>>20)
	switch discovered := a.options.Discovery.Lists(); {
	case discovered == nil:
		b.WriteString("  the kinds of the cluster are not known yet\n")
	case !discovered.Complete:
		b.WriteString("  not all kinds of the cluster are known: API groups do not respond, and objects of their kinds may be left out\n")
	}
	if omitted > 0 {
		fmt.Fprintf(b, "  objects that are left out, since the memory does not suffice: %d; increase --audit-memory\n", omitted)
	}
	troubled := 0
	for i := range kinds {
		if text := trouble(&kinds[i], time.Now()); text != "" {
			troubled++
			b.Namef("  %s: %s\n", name(kinds[i].Kind), text)
		}
	}
	if troubled > 0 && !b.Named {
		fmt.Fprintf(b, "  kinds whose results are not current or not complete: %d\n", troubled)
	}
	a.describeReports(b)
}

// trouble says what is wrong with the audit of a kind; empty if nothing is.
func trouble(k *result.KindState, now time.Time) string {
	switch {
	case k.Err != nil:
		return fmt.Sprintf("cannot be audited, since %s: %v", k.Since.Format(time.RFC3339), k.Err)
	case k.Heard.IsZero():
		return "not read yet"
	case now.Sub(k.Heard) > stale:
		return fmt.Sprintf("the API server has confirmed nothing for %s", now.Sub(k.Heard).Round(time.Second))
	case k.Omitted > 0:
		return fmt.Sprintf("objects that are left out: %d", k.Omitted)
	}
	return ""
}

// State returns the state of the audit for metrics; nil if another replica audits.
func (a *Audit) State() *metrics.AuditState {
	auditor := a.current.Load()
	if auditor == nil {
		return nil
	}
	now := time.Now()
	a.mu.Lock()
	since := a.since
	a.mu.Unlock()
	discovered := a.options.Discovery.Lists()
	s := &metrics.AuditState{Discovered: discovered != nil && discovered.Complete, Resources: map[string]metrics.AuditResource{}, Results: map[string]int{}}
	for _, k := range auditor.Kinds() {
		r := metrics.AuditResource{Objects: k.Objects + k.Omitted, Backlog: k.Backlog, Readable: k.Err == nil}
		r.Staleness = now.Sub(since)
		if !k.Heard.IsZero() {
			r.Staleness = now.Sub(k.Heard)
		}
		s.Resources[name(k.Kind)] = r
	}
	stats := auditor.Stats()
	summary := stats.Results
	for status, n := range map[result.Status]int{
		result.Pass: summary.Pass, result.Fail: summary.Fail, result.Warn: summary.Warn, result.Error: summary.Error, result.Skip: summary.Skip,
	} {
		s.Results[string(status)] = n
	}
	s.Bytes, s.MaxBytes, s.Evaluations, s.CPU = stats.Used, stats.Limit, stats.Evaluations, stats.CPU
	return s
}
