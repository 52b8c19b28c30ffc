// Package cluster reads policies from the API server of a cluster and follows their
// changes.
//
// A policy that is being deleted stays in force until it is gone. A policy that cannot be decoded
// stays as it was. Writes of the status and of other metadata that API servers maintain are not
// changes.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

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
)

// Options configure a [Source]. The zero value works.
type Options struct {
	// Wait is how long the API server must report that a kind of policy does not exist until that
	// is assumed; 0 means 10 s. An API server that has just started may report that in error.
	Wait time.Duration
	// Proofs tells what is known of the right of those who wrote the policies; nil means that
	// the policies need no proofs.
	Proofs Proofs
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
	wait    time.Duration
	kinds   []*kind
	changed chan struct{}
}

var _ source.Source = (*Source)(nil)

// New returns the source of the policies that client reads, in all namespaces. The client
// needs get, list and watch on every kind of policy.
func New(client dynamic.Interface, o Options) *Source {
	if o.Wait <= 0 {
		o.Wait = 10 * time.Second
	}
	s := &Source{wait: o.Wait, changed: make(chan struct{}, 1)}
	for _, kind := range api.Kinds() {
		s.kinds = append(s.kinds, newKind(client, kind, s.signal, o))
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
		go k.run(ctx, s.wait)
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
		if !k.addTo(&set, s.wait) {
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

// Err is why policies cannot be read at present, nil if they can.
func (s *Source) Err() error {
	for _, k := range s.kinds {
		if err := k.reflector.State().Err; err != nil {
			return fmt.Errorf("read policies of kind %s: %w", k.gvk.Kind, err)
		}
	}
	return nil
}
