// Package cluster reads policies from the API server of a cluster and follows their
// changes: those of Usher's own kinds with [New], those of Kubernetes' kinds, in whichever version
// it is served, with [Admission].
//
// A policy that is being deleted is read until it is gone, and compiles to nothing. A policy that cannot be decoded
// stays as it was. Writes of the status and of other metadata that API servers maintain are not
// changes.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/changes"
	"github.com/usher-dev/usher/source"
)

const (
	// retry is the longest pause between two attempts to read.
	retry = 5 * time.Second
	// probe is the time without events after which the API server is asked for a bookmark.
	probe = 20 * time.Second
	// lenientRetry is retry of a lenient source.
	lenientRetry = time.Minute

	rightsAreMissing = "let Usher get, list and watch them: apply the chart of this version, or do not read them, with --admission-policies=off"
)

// Options configure a [Source]. The zero value works.
type Options struct {
	// Wait is how long the API server must report that a kind of policy does not exist until that
	// is assumed; 0 means 10 s. An API server that has just started may report that in error.
	Wait time.Duration
	// Proofs tells what is known of the right of those who wrote the policies; nil means that
	// the policies need no proofs.
	Proofs Proofs
	// Lenient says that kinds that cannot be read do not hold up the others: it is for policies that
	// are not to be enforced.
	Lenient bool
	// Log receives a record when policies cannot be read, and when they can be read again.
	Log *slog.Logger
}

// Proofs checks the proofs of policies.
type Proofs interface {
	// Check says what is known of a policy.
	Check(api.Object) api.Proof
	// Version changes whenever Check may answer otherwise. As long as it is 0, nothing can be
	// said, and policies that need a proof are not handed over, nor are any others.
	Version() uint64
}

// A Source holds the policies of a cluster. Use [New].
type Source struct {
	kinds   []*kind
	changed chan struct{}
}

var _ source.Source = (*Source)(nil)

// New returns the source of the policies that client reads, in all namespaces. The client
// needs get, list and watch on every kind of policy.
func New(client dynamic.Interface, o Options) *Source {
	var all [][]api.Kind
	for _, kind := range api.Kinds() {
		all = append(all, []api.Kind{kind})
	}
	return newSource(client, all, o)
}

// Admission returns the source of Kubernetes' own admission policies and their bindings. A kind that
// the API server does not serve, in any version, has no policies. The client needs get, list and
// watch on every kind.
func Admission(client dynamic.Interface, o Options) *Source {
	return newSource(client, api.ForeignKinds(), o)
}

func newSource(client dynamic.Interface, kinds [][]api.Kind, o Options) *Source {
	if o.Wait <= 0 {
		o.Wait = 10 * time.Second
	}
	s := &Source{changed: make(chan struct{}, 1)}
	for _, versions := range kinds {
		s.kinds = append(s.kinds, newKind(client, versions, s.signal, o))
	}
	return s
}

// Recheck says that Proofs may answer otherwise than before.
func (s *Source) Recheck() { s.signal() }

// signal reports a change; several calls may be merged.
func (s *Source) signal() { changes.Signal(s.changed) }

// Run delivers the policies as soon as all kinds have been read, and again within half a second of
// a change.
//
// It never fails. A kind that does not exist is reported as unreadable and does not delay the
// others; its policies are delivered when its CRD exists. If a kind cannot be read for the first
// time because of any other error, nothing is delivered, since requests would be decided without
// its policies. Later, policies stay as they were last seen. Call Run once.
func (s *Source) Run(ctx context.Context, update func(source.Set)) error {
	for _, k := range s.kinds {
		go k.run(ctx)
	}
	// kubectl apply writes many policies one by one.
	pause := changes.Pause{Quiet: 50 * time.Millisecond, Limit: 500 * time.Millisecond}
	var last *source.Set
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
		if !pause.Wait(ctx, s.changed) {
			return nil
		}
		set, complete := s.set()
		if complete && (last == nil || !same(*last, set)) {
			last = &set
			update(set)
		}
	}
}

// set is everything that is known. It is complete if the API server has answered for every kind.
func (s *Source) set() (set source.Set, complete bool) {
	for _, k := range s.kinds {
		if !k.addTo(&set) {
			return source.Set{}, false
		}
	}
	return set, true
}

// same reports whether nothing has changed. A policy that has not changed keeps its
// object, so that comparing pointers is enough.
func same(a, b source.Set) bool {
	return slices.EqualFunc(a.Policies, b.Policies, func(x, y api.Policy) bool { return x.Object == y.Object && x.Proof == y.Proof }) &&
		slices.EqualFunc(a.Unreadable, b.Unreadable, func(x, y source.Unreadable) bool { return x.String() == y.String() })
}

// Staleness is for how long the policies have not been confirmed to be those of the cluster, for
// the kind with the longest time. Up to about half a minute is normal, since bookmarks of a quiet
// kind are that far apart. It is zero before Run.
func (s *Source) Staleness() time.Duration {
	var longest time.Duration
	for _, k := range s.kinds {
		if heard := k.heard(); !heard.IsZero() {
			longest = max(longest, time.Since(heard))
		}
	}
	return longest
}

// A Reading says how a kind of policy is read.
type Reading struct {
	Kind schema.GroupKind
	// Version is the one in which the kind is read; empty if it is not, for the reason Err.
	Version string
	Err     error
}

// ErrAbsent is the error of a kind that the cluster does not have.
var ErrAbsent = errors.New("the cluster has no such kind")

// ErrForbidden is the error of a kind that Usher may not read.
var ErrForbidden = errors.New("Usher may not read them: " + rightsAreMissing) //nolint:staticcheck // It begins with a name.

// Unread returns why there is nothing to hand over yet: the error of the first kind that was never read and
// cannot be. It is nil if there is none.
func (s *Source) Unread() error {
	for _, k := range s.kinds {
		if state := k.state(); state.Err != nil && !state.Synced {
			return fmt.Errorf("read policies of kind %s: %w", k.versions[0].Kind, state.Err)
		}
	}
	return nil
}

// Readings returns how each kind is read. A kind that was not tried yet has neither a version nor an
// error.
func (s *Source) Readings() []Reading {
	all := make([]Reading, len(s.kinds))
	for i, k := range s.kinds {
		all[i] = k.read()
	}
	return all
}
