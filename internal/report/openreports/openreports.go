// Package openreports writes the results of an audit into the cluster, as Reports and
// ClusterReports of openreports.io.
//
// The reports of a namespace are slices of at most 100 results, named usher-1, usher-2 and so on.
// A result stays in its slice, so that a change rewrites one of them. Reports are the only state:
// a new leader reads them, and writes nothing if nothing has changed since.
package openreports

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/deadline"
)

const (
	// DefaultLimit is how many results all reports have at most.
	DefaultLimit = 10_000

	// Reports are written coalesce after a change, those of a namespace at most every gap; if only
	// counts of results that are in no report changed, at most every countsGap.
	coalesce  = time.Second
	gap       = 5 * time.Second
	countsGap = 5 * time.Minute
	// So long the reports of a namespace are written while those of others are due.
	turn = time.Second
	// A namespace whose results take long to read is read less often: at most this part of the time.
	readShare = 100
	// The leader writes nothing until all kinds have been read and judged, or cannot be read, but
	// waits no longer than settleAtMost.
	settleEvery  = time.Second
	settleAtMost = 5 * time.Minute
	// Kinds are looked at every kindsEvery, and reports that others changed or deleted every
	// checkEvery.
	kindsEvery = 10 * time.Second
	checkEvery = 10 * time.Minute
	// Attempts after errors are that far apart at first, and at most.
	retryFirst, retryAtMost = 2 * time.Second, time.Minute
	// A report that the API server rejects is written again after refusedFirst, and then at most
	// every refusedAtMost.
	refusedFirst, refusedAtMost = 30 * time.Second, 10 * time.Minute
	// So many conflicts in a row are a reason to say so.
	surprises = 3
	// So many reports of others may have names of Usher's in a namespace.
	maxTaken = 10
)

// Options configure a [Writer]. The zero value works.
type Options struct {
	// Limit is how many results all reports have at most; 0 means [DefaultLimit].
	Limit int
	// WritesPerSecond is how many reports are written or deleted in a second; 0 means 10.
	WritesPerSecond int
	// Log may be nil.
	Log *slog.Logger
}

// A Writer writes reports. Use [New].
//
// It needs these permissions in the cluster: get, list, create, update and delete of reports and
// clusterreports of openreports.io.
type Writer struct {
	client  client
	options Options

	mu     sync.Mutex
	status Status
}

// A Status says how far reports are what they are to be.
type Status struct {
	// Running says that this replica writes reports.
	Running bool
	// Waiting says that the audit has not judged all objects yet since this replica leads.
	Waiting bool
	// Err is why no report can be written, since Since; nil if they can.
	Err   error
	Since time.Time
	// Blocked are the namespaces whose reports are not what they are to be, and why, sorted; ""
	// is for ClusterReports.
	Blocked []Blocked
	// Pending is how many namespaces have changes that are not written yet.
	Pending int
	// Reports and Results are how many there are, and Omitted how many results are in no report
	// because of the limit.
	Reports, Results, Omitted int
	// Foreign is how many reports of others have names of Usher's. They are left alone.
	Foreign int
	// Written and Deleted count reports, and Errors writes without success, since the process
	// started.
	Written, Deleted, Errors uint64
}

// A Blocked is a namespace whose reports cannot be written.
type Blocked struct {
	Namespace string
	Err       error
}

// New returns a Writer that uses any client of the API server.
func New(c rest.Interface, o Options) *Writer {
	o.Limit = cmp.Or(o.Limit, DefaultLimit)
	o.WritesPerSecond = cmp.Or(o.WritesPerSecond, 10)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Writer{client: client{rest: c}, options: o}
}

// Status returns the present status.
func (w *Writer) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Run keeps the reports what the reader says until ctx is done. Only one replica may run it at a
// time. The reader must know by then which kinds are audited: results of other kinds are removed.
// Results of kinds that are not complete stay as they are.
func (w *Writer) Run(ctx context.Context, reader result.Reader) {
	w.update(func(s *Status) { s.Running = true })
	defer w.update(func(s *Status) {
		*s = Status{Written: s.Written, Deleted: s.Deleted, Errors: s.Errors}
	})
	delay := retryFirst
	for ctx.Err() == nil {
		t := newTerm(w, reader)
		err := t.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if t.wrote {
			delay = retryFirst
		}
		w.failed(err)
		deadline.Sleep(ctx, delay)
		delay = min(2*delay, retryAtMost)
	}
}

func (w *Writer) update(change func(*Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}

// failed records an error that keeps reports from being written; nil if there is none any more.
func (w *Writer) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.status.Err
	w.status.Err = err
	switch {
	case err == nil && before != nil:
		w.options.Log.Info("reports are written again")
	case err != nil && (before == nil || before.Error() != err.Error()):
		w.status.Since = time.Now()
		w.options.Log.Warn("reports are not written", "error", err)
	}
}
