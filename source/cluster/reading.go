package cluster

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/internal/reflector"
)

// A reading is how a kind is read now: in one of its versions.
type reading struct {
	// version is an index of the versions of the kind.
	version   int
	reflector *reflector.Reflector
	// synced says that the policies were complete once, in any version.
	synced bool
	// absent is the state after all versions were found not to be served, one by one; its Err is nil
	// as long as one may be.
	absent reflector.State
	// said is the reason of the newest error that was logged.
	said string
}

// use makes a reflector for a version, with which the next attempt is made.
func (k *kind) use(version int) *reflector.Reflector {
	o := reflector.Options{Retry: retry, Probe: probe, Changed: k.changed, Log: k.log}
	if k.options.Lenient {
		// Nobody waits for these, and rights may never come.
		o.Retry, o.Probe = lenientRetry, 0
	}
	if len(k.versions) > 1 {
		// That one version is not served is not worth a record.
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := reflector.New(k.client, k.versions[version].GroupVersionResource(), k, o)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reading.version, k.reading.reflector = version, r
	return r
}

// state is that of the reflector, which knows only one version.
func (k *kind) state() reflector.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &k.reading
	s := r.reflector.State()
	if s.Synced {
		r.synced = true
	}
	s.Synced = r.synced
	if len(k.versions) == 1 {
		return s
	}
	switch {
	case s.Current, s.Err != nil && !apierrors.IsNotFound(s.Err):
		r.absent = reflector.State{}
	case r.absent.Err != nil:
		s.Err, s.Since, s.Until = r.absent.Err, r.absent.Since, r.absent.Until
	case s.Err != nil:
		// Another version may be served.
		s.Err, s.Since, s.Until = nil, time.Time{}, time.Time{}
	}
	return s
}

// run follows the kind until ctx is done. Some wait after reading begins to fail there is
// something to report.
func (k *kind) run(ctx context.Context) {
	go k.follow(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.failed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(k.options.Wait):
			k.signal()
		}
	}
}

// follow reads the kind in the newest version that the API server serves, until ctx is done. When
// that version is no longer served, it looks for another one.
func (k *kind) follow(ctx context.Context) {
	for {
		for version := range k.versions {
			r := k.use(version)
			if len(k.versions) == 1 {
				r.Run(ctx)
				return
			}
			k.until(ctx, r)
			if ctx.Err() != nil {
				return
			}
		}
		k.noVersion()
		pause := retry
		if k.options.Lenient {
			pause = lenientRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// until runs a reflector until ctx is done, or the version is not served.
func (k *kind) until(ctx context.Context, r *reflector.Reflector) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	for {
		select {
		case <-ended:
			return
		case <-k.moved:
		}
		s := r.State()
		k.note(s)
		if apierrors.IsNotFound(s.Err) {
			cancel()
			<-ended
			return
		}
	}
}

// noVersion notes that no version is served.
func (k *kind) noVersion() {
	k.mu.Lock()
	now := time.Now()
	absent := &k.reading.absent
	first := absent.Err == nil
	if first {
		absent.Since = now
	}
	absent.Err, absent.Until = k.reading.reflector.State().Err, now
	k.mu.Unlock()
	if first {
		k.log.Info("the cluster has no admission policies of this kind")
	}
	k.changed()
}

// note logs how a kind with several versions is read, when that changes.
func (k *kind) note(s reflector.State) {
	k.mu.Lock()
	said, version := k.reading.said, k.versions[k.reading.version]
	next := said
	switch {
	case s.Current:
		next = "read as " + version.Version
	case s.Err != nil:
		next = string(apierrors.ReasonForError(s.Err))
	}
	k.reading.said = next
	k.mu.Unlock()
	switch {
	case next == said, apierrors.IsNotFound(s.Err):
	case s.Err == nil:
		k.log.Info("admission policies are read", "version", version.Version)
	case isForbidden(s):
		k.log.Warn("admission policies cannot be read", "error", s.Err.Error(), "do", rightsAreMissing)
	default:
		k.log.Warn("admission policies cannot be read; trying again", "error", s.Err.Error())
	}
}

func (k *kind) read() Reading {
	s := k.state()
	k.mu.Lock()
	defer k.mu.Unlock()
	r := Reading{Kind: k.versions[0].GroupKind(), Err: s.Err}
	switch {
	case apierrors.IsNotFound(s.Err):
		r.Err = ErrAbsent
	case isForbidden(s):
		r.Err = ErrForbidden
	case s.Err == nil && s.Synced:
		r.Version = k.versions[k.reading.version].Version
	}
	return r
}
