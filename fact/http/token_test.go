package http_test

import (
	"fmt"
	"io"
	"log"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/http"
)

// A desk is an issuer of tokens and a service that requires them, with a clock to turn.
type desk struct {
	*httptest.Server
	mu     sync.Mutex
	now    time.Time
	issued int
	// answer is what the issuer says: a status, and a body in which %d is the number of
	// the token.
	status int
	answer string
	// rejects is a token that the service does not accept.
	rejects string
	hold    chan struct{}
}

func newDesk(t *testing.T) (*desk, *http.Resolver) {
	t.Helper()
	d := &desk{now: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), status: 200, answer: `{"token":"t%d"}`}
	d.Server = serve(t, d.handle)
	return d, http.New(http.Options{AllowLocal: true, Now: d.clock})
}

func (d *desk) handle(w nethttp.ResponseWriter, r *nethttp.Request) {
	d.mu.Lock()
	hold := d.hold
	d.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/login") && hold != nil {
		<-hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !strings.HasPrefix(r.URL.Path, "/login") {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == d.rejects {
			w.WriteHeader(nethttp.StatusUnauthorized)
		}
		_, _ = fmt.Fprintf(w, `{"token":%q}`, token)
		return
	}
	d.issued++
	user, password, _ := r.BasicAuth()
	body, _ := io.ReadAll(r.Body)
	if r.Method != "POST" || user != "u" || !strings.HasPrefix(password, "p") || len(body) > 0 {
		w.WriteHeader(nethttp.StatusForbidden)
		return
	}
	w.WriteHeader(d.status)
	_, _ = io.WriteString(w, strings.ReplaceAll(d.answer, "%d", fmt.Sprint(d.issued)))
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// set changes the desk and lets time pass.
func (d *desk) set(passes time.Duration, change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(passes)
	if change != nil {
		change()
	}
}

func (d *desk) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.issued
}

func (d *desk) ref(password string, lifetime time.Duration) *fact.HTTP {
	ref := get(d.URL + "/data")
	ref.Auth = &fact.Auth{URL: d.URL + "/login", Username: "u", Password: password, Lifetime: lifetime}
	return ref
}

// token returns the token that a request carried.
func token(t *testing.T, r *http.Resolver, ref fact.Ref) string {
	t.Helper()
	value, err := r.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	text, _ := value.(map[string]any)["body"].(map[string]any)["token"].(string)
	return text
}

func TestTokenLifetime(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration, unit time.Duration) string {
		at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
		return fmt.Sprintf(`{"token":"t%%d","expireAt":%d}`, at.UnixNano()/int64(unit))
	}
	tests := []struct {
		reason   string
		answer   string
		lifetime time.Duration
		want     time.Duration
	}{
		{"milliseconds", in(time.Hour, time.Millisecond), 0, time.Hour},
		{"the issuer's word counts", in(time.Hour, time.Millisecond), time.Minute, time.Hour},
		{"seconds are recognised", in(time.Hour, time.Second), 0, time.Hour},
		{"no word: the policy's", `{"token":"t%d"}`, time.Minute, time.Minute},
		{"no word at all", `{"token":"t%d","expireAt":null}`, 0, 5 * time.Minute},
		{"a time in the past", in(-time.Hour, time.Millisecond), 0, 10 * time.Second},
		{"a negative time", `{"token":"t%d","expireAt":-5}`, 0, 10 * time.Second},
		{"a time after the end of time", `{"token":"t%d","expireAt":1e300}`, 0, 24 * time.Hour},
		{"a fraction, in a string", `{"token":"t%d","expireAt":"1735689660000.5"}`, 0, time.Minute},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			d, resolver := newDesk(t)
			d.set(0, func() { d.answer = test.answer })
			ref := d.ref("p", test.lifetime)
			for range 3 {
				if got := token(t, resolver, ref); got != "t1" {
					t.Fatalf("token %q, want t1", got)
				}
			}
			d.set(test.want*4/5-time.Millisecond, nil)
			if got := token(t, resolver, ref); got != "t1" || d.asked() != 1 {
				t.Fatalf("token %q after %d requests for one, want t1 after 1", got, d.asked())
			}
			d.set(test.want/5+2*time.Millisecond, nil)
			if got := token(t, resolver, ref); got != "t2" {
				t.Errorf("token %q after its life, want t2", got)
			}
		})
	}
}

func TestTokenIsRenewedInAdvance(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	ref := d.ref("p", 100*time.Second)
	token(t, resolver, ref)
	hold := make(chan struct{})
	d.set(90*time.Second, func() { d.hold = hold })
	if got := token(t, resolver, ref); got != "t1" {
		t.Errorf("token %q while the next is on its way, want t1", got)
	}
	d.set(0, func() { d.hold = nil })
	close(hold)
	for token(t, resolver, ref) != "t2" {
		if t.Context().Err() != nil {
			t.Fatal("the token was not renewed")
		}
	}
	if d.asked() != 2 {
		t.Errorf("%d requests for a token, want 2", d.asked())
	}
}

func TestTokenIsFetchedOnceForAll(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	hold := make(chan struct{})
	d.set(0, func() { d.hold = hold })
	ref := d.ref("p", 0)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := token(t, resolver, ref); got != "t1" {
				t.Errorf("token %q, want t1", got)
			}
		})
	}
	close(hold)
	wg.Wait()
	if d.asked() != 1 {
		t.Errorf("%d requests for a token, want 1", d.asked())
	}
}

func TestTokenFailuresBackOff(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	d.set(0, func() { d.status = 503 })
	ref := d.ref("p", 0)
	fails := func(want int) {
		t.Helper()
		for range 3 {
			_, err := resolver.Resolve(t.Context(), ref)
			if err == nil || !strings.Contains(err.Error(), "get token from "+d.URL+"/login: the answer is 503") {
				t.Fatalf("error = %v, want that of the issuer", err)
			}
		}
		if d.asked() != want {
			t.Fatalf("%d requests for a token, want %d", d.asked(), want)
		}
	}
	fails(1)
	for i, wait := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		d.set(time.Duration(wait)*time.Second-time.Millisecond, nil)
		fails(i + 1)
		d.set(time.Millisecond, nil)
		fails(i + 2)
	}
	d.set(time.Minute, func() { d.status = 201 })
	if got := token(t, resolver, ref); got != "t10" {
		t.Errorf("token %q after recovery, want t10", got)
	}
}

func TestTokenOutlivesFailures(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	ref := d.ref("p", 100*time.Second)
	token(t, resolver, ref)
	d.set(90*time.Second, func() { d.answer = `{"token":""}` })
	for range 5 {
		if got := token(t, resolver, ref); got != "t1" {
			t.Errorf("token %q while renewing fails, want t1", got)
		}
	}
	if d.asked() > 2 {
		t.Errorf("%d requests for a token within a second, want at most 2", d.asked())
	}
	d.set(20*time.Second, nil)
	if _, err := resolver.Resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("error = %v, want that the answer has no token", err)
	}
}

func TestTokensAreToldApart(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	other := d.ref("p", 0)
	other.Auth.URL += "/other"
	for i, ref := range []fact.Ref{d.ref("p", 0), d.ref("p2", 0), other, d.ref("p", time.Hour)} {
		want := []string{"t1", "t2", "t3", "t1"}[i]
		if got := token(t, resolver, ref); got != want {
			t.Errorf("ref %d: token %q, want %q", i, got, want)
		}
	}
}

func TestTokenThatIsRefused(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	ref := d.ref("p", time.Hour)
	token(t, resolver, ref)
	d.set(5*time.Second, func() { d.rejects = "t1" })
	token(t, resolver, ref)
	if got := token(t, resolver, ref); got != "t1" {
		t.Errorf("token %q, want the young t1", got)
	}
	d.set(5*time.Second, nil)
	token(t, resolver, ref)
	if got := token(t, resolver, ref); got != "t2" {
		t.Errorf("token %q after t1 was refused, want t2", got)
	}
}

func TestTokenAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`["s3cret"]`:                        "not a JSON object",
		`{"token":1}`:                       "not a JSON object",
		`{"token":"a","expireAt":"s3cret"}`: "not a JSON object",
		`{"expireAt":1}`:                    "no token",
		large(1 << 20):                      "more than",
	} {
		d, resolver := newDesk(t)
		d.set(0, func() { d.answer = answer })
		_, err := resolver.Resolve(t.Context(), d.ref("p", 0))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("answer %.40s: error = %v, want one with %q", answer, err, want)
		}
	}
}

func TestManyTokens(t *testing.T) {
	t.Parallel()
	d, resolver := newDesk(t)
	for i := range 300 {
		token(t, resolver, d.ref(fmt.Sprintf("p%d", i), 0))
	}
	if got := token(t, resolver, d.ref("p299", 0)); got != "t300" {
		t.Errorf("token %q, want the one still known, t300", got)
	}
	if got := token(t, resolver, d.ref("p0", 0)); got != "t301" {
		t.Errorf("token %q, want a new one for what was forgotten, t301", got)
	}
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
