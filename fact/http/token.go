package http

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/usher-dev/usher/fact"
)

const (
	// tokenTimeout limits the request for a token. It does not end with the request that started
	// it: others wait for it, too.
	tokenTimeout = 3 * time.Second
	// maxTokens is how many tokens are kept.
	maxTokens = 256
	// defaultLifetime applies if the issuer does not return a lifetime.
	defaultLifetime = 5 * time.Minute
	// No token is requested again before minLifetime, nor used after maxLifetime, regardless of its
	// issuer.
	minLifetime = 10 * time.Second
	maxLifetime = 24 * time.Hour
	// After a failure the next attempt waits for minBackoff, then twice as long each time.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// tokens keeps bearer tokens, in memory only. A token is requested on first use, and again after
// four fifths of its lifetime; until the new one arrives, the old one is used.
type tokens struct {
	now    func() time.Time
	fetch  func(context.Context, fact.Auth) (granted, error)
	flight singleflight.Group

	mu    sync.Mutex
	known map[tokenKey]*token
	uses  uint64
}

// A tokenKey identifies a token: all three fields are needed.
type tokenKey [sha256.Size]byte

// A token is a token and its lifetime. The zero token is expired.
type token struct {
	value                   string
	fetched, renew, expires time.Time
	err                     error // of the last attempt
	failures                int
	retry                   time.Time // no attempt before
	used                    uint64
}

// granted is the answer of an issuer.
type granted struct {
	token    string
	lifetime time.Duration
}

func newTokens(now func() time.Time, fetch func(context.Context, fact.Auth) (granted, error)) *tokens {
	return &tokens{now: now, fetch: fetch, known: map[tokenKey]*token{}}
}

func keyOf(auth fact.Auth) tokenKey {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q", auth.URL, auth.Username, auth.Password))
}

// token returns a token that is valid now.
func (t *tokens) token(ctx context.Context, auth fact.Auth) (string, error) {
	key := keyOf(auth)
	value, state, err := t.look(key)
	if state == settled {
		return value, err
	}
	fetched := t.flight.DoChan(string(key[:]), func() (any, error) {
		value, state, err := t.look(key)
		if state == settled {
			return value, err // somebody was faster
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
		defer cancel()
		grant, err := t.fetch(ctx, auth)
		return grant.token, t.record(key, grant, err)
	})
	if state == renewable {
		return value, nil
	}
	select {
	case result := <-fetched:
		value, _ := result.Val.(string)
		return value, result.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// A tokenState is what to do about a token.
type tokenState int

const (
	expired   tokenState = iota // get one
	renewable                   // use it, and get another
	settled                     // use it, or fail: it is too early for another attempt
)

func (t *tokens) look(key tokenKey) (string, tokenState, error) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entry(key)
	waiting := now.Before(known.retry)
	switch {
	case !now.Before(known.expires) && waiting:
		return "", settled, fmt.Errorf("%w (not tried again before %s)", known.err, known.retry.Format(time.TimeOnly))
	case !now.Before(known.expires):
		return "", expired, nil
	case now.Before(known.renew) || waiting:
		return known.value, settled, nil
	}
	return known.value, renewable, nil
}

// record keeps what an attempt gave.
func (t *tokens) record(key tokenKey, grant granted, err error) error {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entry(key)
	if err != nil {
		backoff := min(minBackoff<<min(known.failures, 10), maxBackoff)
		known.err, known.failures, known.retry = err, known.failures+1, now.Add(backoff)
		return err
	}
	life := min(max(grant.lifetime, minLifetime), maxLifetime)
	*known = token{value: grant.token, fetched: now, renew: now.Add(life / 5 * 4), expires: now.Add(life), used: known.used}
	return nil
}

// refused reports that a service rejected the token: it is no longer used, unless it is so new that
// another one would not help.
func (t *tokens) refused(auth fact.Auth, value string) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entry(keyOf(auth))
	if known.value == value && now.Sub(known.fetched) >= minLifetime {
		known.expires = now
	}
}

// entry returns the entry of a token. The caller holds the lock.
func (t *tokens) entry(key tokenKey) *token {
	t.uses++
	known, ok := t.known[key]
	if !ok {
		if len(t.known) >= maxTokens {
			t.dropOldest()
		}
		known = &token{}
		t.known[key] = known
	}
	known.used = t.uses
	return known
}

func (t *tokens) dropOldest() {
	var oldest tokenKey
	used := t.uses
	for key, known := range t.known {
		if known.used < used {
			oldest, used = key, known.used
		}
	}
	delete(t.known, oldest)
}

// fetchToken requests a token from the issuer.
func (r *Resolver) fetchToken(ctx context.Context, auth fact.Auth) (granted, error) {
	if err := checkURL(auth.URL); err != nil {
		return granted{}, err
	}
	client, err := r.clients.of(nil)
	if err != nil {
		return granted{}, err
	}
	request, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, auth.URL, nil)
	if err != nil {
		return granted{}, errors.New("the URL cannot be read")
	}
	request.SetBasicAuth(auth.Username, auth.Password)
	request.Header.Set("User-Agent", "usher")
	response, err := do(client, request)
	if err != nil {
		return granted{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
		return granted{}, fmt.Errorf("the answer is %s", response.Status)
	}
	return readGrant(response, auth.Lifetime, r.tokens.now())
}

// readGrant's errors do not quote the response, which may contain a token.
func readGrant(response *nethttp.Response, lifetime time.Duration, now time.Time) (granted, error) {
	text, err := readBody(response)
	if err != nil {
		return granted{}, err
	}
	var answer struct {
		Token    string      `json:"token"`
		ExpireAt json.Number `json:"expireAt"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return granted{}, errors.New("the answer is not a JSON object with a token and a number expireAt")
	}
	if answer.Token == "" {
		return granted{}, errors.New("the answer has no token")
	}
	if lifetime <= 0 {
		lifetime = defaultLifetime
	}
	if at, err := answer.ExpireAt.Float64(); err == nil && at != 0 {
		lifetime = until(at, now)
	}
	return granted{token: answer.Token, lifetime: lifetime}, nil
}

// until is the time until at, in milliseconds since 1970. Some issuers write seconds: a number that
// would be in the early 1970s is taken for seconds.
func until(at float64, now time.Time) time.Duration {
	if at < 1e11 {
		at *= 1000
	}
	left := min(max(at-float64(now.UnixMilli()), 0), float64(maxLifetime.Milliseconds()))
	return time.Duration(left) * time.Millisecond
}
