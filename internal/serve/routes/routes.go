// Package routes serves webhooks under paths that nobody can guess, and chooses which paths to register.
package routes

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/reload"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

const (
	// refreshEvery is how often the Secret, the registration and the Leases are read.
	refreshEvery = 10 * time.Second
	// refreshGap is the shortest time between two refreshes, regardless of the number of requests
	// that need one.
	refreshGap     = 250 * time.Millisecond
	refreshTimeout = 10 * time.Second
	// freshTimeout is how long a request waits for one.
	freshTimeout = 2 * time.Second
	// mostWaiting limits the requests that wait for a refresh.
	mostWaiting = 256
	// rotateEvery is the age at which a key is replaced.
	rotateEvery = 24 * time.Hour
	// outageAfter is how long to wait for a sign of another serving replica: a replica writes its
	// Lease every ten seconds.
	outageAfter = 40 * time.Second
)

// The words of a Lease. Replicas that serve secret paths also serve all paths that they find in the
// webhook configurations.
const (
	servesPaths = "paths"
	// servesRights is the word of replicas that know the entries for policies whose writers need
	// rights.
	servesRights = "rights"
	servesKey    = "key-"
)

// A Registrar reads what API servers call.
type Registrar interface {
	Registered(ctx context.Context) ([]webhookconfig.Registered, error)
}

// Peers lists the other replicas, and publishes to them what this one serves.
type Peers interface {
	Peers(ctx context.Context) ([]replicas.Peer, error)
	Serves(topic string, words ...string)
	Leads() bool
}

// Routes holds the URL paths of webhooks that the server accepts, and chooses the paths to
// register: see [table] and [table.choose].
//
// A request for an unknown path waits until the webhook configurations have been read again: an API
// server that uses a registered path must not be rejected. That also allows replicas of other
// versions to register other paths at any time.
type Routes struct {
	keeper    *keyring.Keeper
	registrar Registrar
	peers     Peers
	log       *slog.Logger
	// outage and serves belong to the goroutine that refreshes.
	outage *outage
	serves []string

	table atomic.Pointer[table]
	// chosen are the paths to register.
	chosen  atomic.Pointer[Choice]
	changed chan struct{}

	mu sync.Mutex
	// next is a refresh that has not begun yet; nil if no request waits for one.
	next    *refreshing
	waiting int
	wake    chan struct{}
}

// A refreshing is one refresh, for the requests that wait for it.
type refreshing struct {
	done chan struct{}
	err  error
}

// New returns Routes that have read nothing yet.
func New(k *keyring.Keeper, r Registrar, p Peers, log *slog.Logger) *Routes {
	return &Routes{keeper: k, registrar: r, peers: p, log: log, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// Start reads the keys, which are required to serve, and checks whether there was an outage of all
// replicas. It also reads the rest, which is optional.
func (p *Routes) Start(ctx context.Context) error {
	began := time.Now()
	keys, err := p.keeper.Load(ctx)
	if err != nil {
		return err
	}
	others, err := p.peers.Peers(ctx)
	if err != nil {
		p.log.Warn("whether other replicas run is not known", "error", err)
	} else if p.outage = newOutage(others, began); p.outage.confirmed(others, began) {
		p.outage = nil
		if keys, err = p.keeper.Rotate(ctx, replacedBefore(began)); err != nil {
			return err
		}
	}
	registered, err := p.registrar.Registered(ctx)
	if err != nil {
		p.log.Warn("registration is not known yet", "error", err)
	}
	p.take(newTable(nil, keys, registered, time.Now()), others)
	return nil
}

// Run refreshes the routes until ctx is done.
func (p *Routes) Run(ctx context.Context) error {
	reload.Loop{
		Every: refreshEvery, Changes: p.wake,
		Load: func(ctx context.Context) error {
			p.mu.Lock()
			r := p.next
			p.next = nil
			p.mu.Unlock()
			err := p.refresh(ctx)
			if r != nil {
				r.err = err
				close(r.done)
			}
			deadline.Sleep(ctx, refreshGap)
			return err
		},
		Report: func(err error) { p.log.Warn("read webhook paths; those that are known go on", "error", err) },
	}.Run(ctx)
	return nil
}

// refresh reads everything once, and replaces the key when it is old enough.
func (p *Routes) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	last, now := p.table.Load(), time.Now()
	others, peersErr := p.peers.Peers(ctx)
	due, confirmed := never, peersErr == nil && p.outage.confirmed(others, now)
	switch {
	case confirmed:
		due = replacedBefore(p.outage.began)
	case p.peers.Leads():
		due = tooOld(now)
	}
	keys, err := p.keeper.Rotate(ctx, due)
	if err != nil {
		// The known keys are still valid.
		keys = last.keys
	} else if confirmed {
		p.outage = nil
	}
	registered, registeredErr := p.registrar.Registered(ctx)
	next := newTable(last, keys, registered, now)
	if registeredErr != nil {
		next = last.with(keys)
	}
	if peersErr == nil {
		p.take(next, others)
	} else {
		p.table.Store(next)
	}
	return errors.Join(err, peersErr, registeredErr)
}

func never(keyring.Keys) bool { return false }

func replacedBefore(t time.Time) func(keyring.Keys) bool {
	return func(k keyring.Keys) bool { return k.Replaced.Before(t.Truncate(time.Second)) }
}

// tooOld also matches keys with a time in the future, from a replica with a wrong clock.
func tooOld(now time.Time) func(keyring.Keys) bool {
	return func(k keyring.Keys) bool { return now.Sub(k.Replaced).Abs() >= rotateEvery }
}

// take uses a new table, and announces that.
func (p *Routes) take(next *table, others []replicas.Peer) {
	p.table.Store(next)
	words := []string{servesPaths, servesRights}
	for _, key := range paths.Valid(next.keys, next.read) {
		words = append(words, servesKey+key.Fingerprint())
	}
	if !slices.Equal(words, p.serves) {
		p.serves = words
		p.peers.Serves("paths", words...)
	}
	p.adopt(next.choose(others))
}

// adopt makes a Choice the current one.
func (p *Routes) adopt(c Choice) {
	last := p.chosen.Swap(&c)
	if last != nil && last.Name == c.Name {
		return
	}
	p.log.Info("webhook paths chosen", "paths", c.Name, "because", c.Reason)
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Choose decides again which paths to register.
func (p *Routes) Choose(ctx context.Context) (Choice, error) {
	others, err := p.peers.Peers(ctx)
	if err != nil {
		return Choice{}, err
	}
	c := p.table.Load().choose(others)
	p.adopt(c)
	return c, nil
}

// Name returns the name of the paths that were chosen last.
func (p *Routes) Name() string { return p.chosen.Load().Name }

// Path returns the path to register for an entry.
func (p *Routes) Path(entry string) string { return p.chosen.Load().path(entry) }

// Changed has a message when other paths were chosen.
func (p *Routes) Changed() <-chan struct{} { return p.changed }

// Describe writes the keys and the choice.
func (p *Routes) Describe(b *page.Page, secret string) {
	keys, chosen := p.table.Load().keys, p.chosen.Load()
	b.Namef("webhook paths: of %s, made %s, in Secret %s\n", keys.Current, keys.Replaced.Format(time.RFC3339), secret)
	b.Namef("  registered: %s, since %s\n", chosen.Name, chosen.Reason)
}

// find returns the entry of a path, if the server accepts the path. It looks up the hash of the
// path, so that the time that this takes reveals nothing about existing paths.
func (p *Routes) find(path string) (Route, bool) {
	r, ok := p.table.Load().routes[sha256.Sum256([]byte(path))]
	return r, ok
}

// covers reports whether API servers send a request to an entry.
func (p *Routes) covers(entry string, r *usher.Request) bool {
	return p.table.Load().covers[entry].match(r.Resource.Group, r.Resource.Resource, r.Subresource)
}

var errBusy = errors.New("too many requests wait for the registration to be read")

// Fresh waits for a refresh that began after it was called.
func (p *Routes) Fresh(ctx context.Context) error {
	p.mu.Lock()
	if p.waiting >= mostWaiting {
		p.mu.Unlock()
		return errBusy
	}
	p.waiting++
	r := p.next
	if r == nil {
		r = &refreshing{done: make(chan struct{})}
		p.next = r
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
