package auditing

import (
	"context"
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/observe/metrics"
)

// blockedShown is how many namespaces are listed whose reports cannot be written.
const blockedShown = 20

// report starts to write reports when it is known which kinds there are: results of others would be
// removed.
func (t *term) report(ctx context.Context) {
	if t.reports == nil || t.reporting || t.options.Discovery.Lists() == nil {
		return
	}
	t.reporting = true
	t.running.Go(func() { t.reports.Run(ctx, t.auditor) })
}

// describeReports writes whether the reports are what the audit says.
func (a *Audit) describeReports(b *page.Page) {
	if a.reports == nil {
		b.WriteString("reports: off\n")
		return
	}
	s := a.reports.Status()
	switch {
	case !s.Running:
		return
	case s.Err != nil:
		b.Either("reports: not written since %s: %v\n", "reports: not written\n", s.Since.Format(time.RFC3339), s.Err)
		return
	case s.Waiting:
		b.WriteString("reports: written when all kinds have been audited\n")
		return
	}
	fmt.Fprintf(b, "reports: %d with %d results, namespaces with changes to be written: %d\n", s.Reports, s.Results, s.Pending)
	if s.Omitted > 0 {
		fmt.Fprintf(b, "  results in no report because there are too many, see --report-limit: %d\n", s.Omitted)
	}
	if s.Foreign > 0 {
		fmt.Fprintf(b, "  reports of others with names of Usher's, which are left alone: %d\n", s.Foreign)
	}
	if !b.Named && len(s.Blocked) > 0 {
		fmt.Fprintf(b, "  not written for namespaces: %d\n", len(s.Blocked))
	}
	for i, blocked := range s.Blocked {
		if i == blockedShown {
			b.Namef("  and %d more\n", len(s.Blocked)-blockedShown)
			return
		}
		where := "namespace " + blocked.Namespace
		if blocked.Namespace == "" {
			where = "cluster-scoped objects"
		}
		b.Namef("  not written for %s: %v\n", where, blocked.Err)
	}
}

// ReportsState returns the state of reports for metrics; nil if this replica writes none.
func (a *Audit) ReportsState() *metrics.ReportsState {
	if a.reports == nil {
		return nil
	}
	s := a.reports.Status()
	if !s.Running {
		return nil
	}
	return &metrics.ReportsState{
		Writable: s.Err == nil, Reports: s.Reports, Results: s.Results, Omitted: s.Omitted,
		Pending: s.Pending, Blocked: len(s.Blocked), Written: s.Written, Deleted: s.Deleted, Errors: s.Errors,
	}
}
