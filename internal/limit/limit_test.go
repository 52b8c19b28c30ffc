package limit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/limit"
)

const kib = 1 << 10

func quiet(o limit.Options) *limit.Limiter {
	o.Log = slog.New(slog.DiscardHandler)
	return limit.New(o)
}

// A desk is a handler that reads the body, says so, and answers when it is told to.
type desk struct {
	entered, release chan struct{}
}

func newDesk() *desk { return &desk{entered: make(chan struct{}), release: make(chan struct{})} }

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	d.entered <- struct{}{}
	<-d.release
}

// A visit is a request from an address.
func visit(h http.Handler, address string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.RemoteAddr = address + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func sized(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }

func TestExcessIsShed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		options limit.Options
		size    int
	}{
		{"too many", limit.Options{Slots: 1}, 1},
		{"too large together", limit.Options{Bytes: 1024 * kib}, 200 * kib},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var shed atomic.Int64
			var log bytes.Buffer
			o := row.options
			o.Turn, o.Shed, o.Log = 10*time.Millisecond, func() { shed.Add(1) }, slog.New(slog.NewTextHandler(&log, nil))
			l, d := limit.New(o), newDesk()
			h := l.Handler(d)
			var first sync.WaitGroup
			first.Go(func() {
				if w := visit(h, "10.0.0.1", sized(row.size)); w.Code != http.StatusOK {
					t.Errorf("the first is answered %d %s", w.Code, w.Body)
				}
			})
			<-d.entered
			for range 3 {
				if w := visit(h, "10.0.0.1", sized(row.size)); w.Code != http.StatusTooManyRequests {
					t.Errorf("another is answered %d %s", w.Code, w.Body)
				}
			}
			close(d.release)
			first.Wait()
			if shed.Load() != 3 || strings.Count(log.String(), "overloaded: rejecting requests") != 1 {
				t.Errorf("%d counted as shed, log:\n%s", shed.Load(), log.String())
			}
			go func() { <-d.entered }()
			if w := visit(h, "10.0.0.1", sized(row.size)); w.Code != http.StatusOK {
				t.Errorf("once there is room again it is answered %d", w.Code)
			}
			nothingIsTaken(t, l)
		})
	}
}

func nothingIsTaken(t *testing.T, l *limit.Limiter) {
	t.Helper()
	use := l.Use()
	use.MaxBytes, use.MaxSlots = 0, 0
	if diff := cmp.Diff(limit.Use{}, use); diff != "" {
		t.Errorf("what was taken is not given back (-want +got):\n%s", diff)
	}
}

func TestABurstWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	d := newDesk()
	l := quiet(limit.Options{Slots: 1, Turn: time.Minute, Shed: func() { t.Error("shed") }})
	h := l.Handler(d)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if w := visit(h, "10.0.0.1", sized(1)); w.Code != http.StatusOK {
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	for range 5 {
		<-d.entered
		select {
		case <-d.entered:
			t.Error("two at a time")
		case d.release <- struct{}{}:
		}
	}
	all.Wait()
	nothingIsTaken(t, l)
}

// A stalled body ends when it is told to, and tells when it is read.
type stalled struct{ read, end chan struct{} }

func (s *stalled) Read([]byte) (int, error) {
	s.read <- struct{}{}
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

func TestWhatIsOnlyAnnouncedTakesNothing(t *testing.T) {
	t.Parallel()
	l := quiet(limit.Options{Slots: 1, Bytes: 1024 * kib})
	d := newDesk()
	h := l.Handler(d)
	slow := &stalled{make(chan struct{}), make(chan struct{})}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/", slow)
			r.ContentLength = 256 << 20
			h.ServeHTTP(httptest.NewRecorder(), r)
		})
		<-slow.read
	}
	if use := l.Use(); use.Bytes != 4*64*kib || use.Slots != 0 {
		t.Errorf("four bodies of which nothing has come take %+v", use)
	}
	go func() { <-d.entered; close(d.release) }()
	if w := visit(h, "10.0.0.2", sized(7*kib)); w.Code != http.StatusOK {
		t.Errorf("beside them a request is answered %d %s", w.Code, w.Body)
	}
	close(slow.end)
	all.Wait()
	nothingIsTaken(t, l)
}

// hold makes as many requests of an address as get through, and returns how many that are.
func hold(t *testing.T, h http.Handler, d *desk, address string, most, size int) int {
	t.Helper()
	for i := range most {
		refused := make(chan struct{})
		go func() {
			if visit(h, address, sized(size)).Code != http.StatusOK {
				close(refused)
			}
		}()
		select {
		case <-d.entered:
		case <-refused:
			return i
		}
	}
	return most
}

func TestNoAddressTakesEverything(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		options limit.Options
		size    int
		want    []int
	}{
		{"slots", limit.Options{Slots: 90}, 1, []int{60, 20, 7, 2}},
		{"one slot", limit.Options{Slots: 1}, 1, []int{1, 0}},
		{"two slots", limit.Options{Slots: 2}, 1, []int{2, 0}},
		{"bytes", limit.Options{Bytes: 90 * 64 * kib}, 7 * kib, []int{60, 20, 7, 2}},
		{"slots of which others have half", limit.Options{Slots: 180, Provable: true}, 1, []int{60, 20, 7, 2}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			o := row.options
			o.Turn = -1
			l, d := quiet(o), newDesk()
			defer close(d.release)
			var got []int
			for i := range row.want {
				got = append(got, hold(t, l.Handler(d), d, "10.0.0."+string(rune('1'+i)), 1000, row.size))
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("requests of one address after the other (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProvenCallersHaveCapacityOfTheirOwn(t *testing.T) {
	t.Parallel()
	l, d := quiet(limit.Options{Slots: 100, Turn: -1, Provable: true}), newDesk()
	defer close(d.release)
	strangers := 0
	for i := range 26 {
		strangers += hold(t, l.Handler(d), d, "10.0.0."+string(rune('a'+i)), 1000, 1)
	}
	if strangers < 40 || strangers > 50 {
		t.Errorf("callers who have proved nothing hold %d slots of 100", strangers)
	}
	if got := hold(t, l.Proven(d), d, "10.0.0.a", 1000, 1); got != 100-strangers {
		t.Errorf("beside them others hold %d", got)
	}
}

// Of those who wait each address gets its turn.
func TestAddressesTakeTurns(t *testing.T) {
	t.Parallel()
	d := newDesk()
	l := quiet(limit.Options{Slots: 1, Turn: time.Minute})
	answered := make(chan string, 10)
	h := l.Handler(d)
	var all sync.WaitGroup
	ask := func(address string, waiting int) {
		all.Go(func() {
			visit(h, address, sized(1))
			answered <- address
		})
		poll(t, func() bool { return l.Use().Waiting == waiting })
	}
	ask("10.0.0.1", 0)
	<-d.entered
	for i := range 3 {
		ask("10.0.0.1", i+1)
	}
	ask("10.0.0.2", 4)
	var got []string
	for range 5 {
		d.release <- struct{}{}
		got = append(got, <-answered)
		if len(got) < 5 {
			<-d.entered
		}
	}
	all.Wait()
	if got[0] != "10.0.0.1" || got[1] != "10.0.0.2" {
		t.Errorf("answered in the order %v", got)
	}
	nothingIsTaken(t, l)
}

func poll(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not become so")
		}
	}
}

func TestEverythingIsGivenBack(t *testing.T) {
	t.Parallel()
	of := func(n int) func() io.Reader { return func() io.Reader { return sized(n) } }
	read := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for _, row := range []struct {
		reason  string
		body    func() io.Reader
		handler http.HandlerFunc
	}{
		{"answered", of(300 * kib), read},
		{"not even read", of(300 * kib), func(http.ResponseWriter, *http.Request) {}},
		{"a panic", of(300 * kib), func(w http.ResponseWriter, r *http.Request) { read(w, r); panic(http.ErrAbortHandler) }},
		{"a body that breaks off", func() io.Reader { return io.MultiReader(sized(100*kib), iotest.ErrReader(io.ErrUnexpectedEOF)) }, read},
		{"more than there is", of(2048 * kib), read},
		{"decoding", of(10), func(w http.ResponseWriter, r *http.Request) {
			read(w, r)
			if err := limit.Pay(r.Body, 300*kib); err != nil {
				t.Errorf("decoding: %v", err)
			}
		}},
		{"decoding that takes more than there is", of(10), func(w http.ResponseWriter, r *http.Request) {
			read(w, r)
			if err := limit.Pay(r.Body, 4096*kib); !errors.Is(err, limit.ErrTooLarge) {
				t.Errorf("decoding: %v", err)
			}
		}},
		{"discarded", of(4096 * kib), func(_ http.ResponseWriter, r *http.Request) {
			limit.Discard(r.Body, 1<<30)
			if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("after it was discarded: %d %v", n, err)
			}
		}},
		{"discarded after it was too large", of(4096 * kib), func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); !errors.Is(err, limit.ErrTooLarge) {
				t.Errorf("read: %v", err)
			}
			limit.Discard(r.Body, 1<<30)
		}},
		{"used after it was answered", of(10), func(_ http.ResponseWriter, r *http.Request) {
			t.Cleanup(func() {
				if err := limit.Pay(r.Body, 1<<30); err != nil {
					t.Error(err)
				}
			})
		}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			l := quiet(limit.Options{Slots: 1, Bytes: 1024 * kib, Turn: -1})
			for _, h := range []http.Handler{l.Handler(row.handler), l.Proven(row.handler)} {
				func() {
					defer func() { _ = recover() }()
					visit(h, "10.0.0.1", row.body())
				}()
			}
			t.Cleanup(func() { nothingIsTaken(t, l) })
		})
	}
}

func TestWaitingEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	d := newDesk()
	l := quiet(limit.Options{Slots: 1, Turn: time.Hour, Shed: func() { t.Error("who is gone was not shed") }})
	h := l.Handler(d)
	var all sync.WaitGroup
	all.Go(func() { visit(h, "10.0.0.1", sized(1)) })
	<-d.entered
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		r := httptest.NewRequest(http.MethodPost, "/", sized(1)).WithContext(ctx)
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
	poll(t, func() bool { return l.Use().Waiting == 1 })
	cancel()
	poll(t, func() bool { return l.Use().Waiting == 0 })
	close(d.release)
	all.Wait()
	nothingIsTaken(t, l)
}

// Two limiters share bytes, and nothing else.
func TestBeside(t *testing.T) {
	t.Parallel()
	l := quiet(limit.Options{Slots: 1, Bytes: 1024 * kib, Turn: -1})
	d, other := newDesk(), l.Beside(limit.Options{Slots: -1, Turn: -1})
	defer close(d.release)
	if got := hold(t, l.Handler(d), d, "10.0.0.1", 10, 1); got != 1 {
		t.Errorf("%d through one slot", got)
	}
	if got := hold(t, other.Handler(d), d, "10.0.0.1", 1000, 1); got < 5 || got > 15 {
		t.Errorf("%d through as many slots as one likes, and what is left of the bytes", got)
	}
}

func TestBodiesHaveToMakeProgress(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			l := quiet(limit.Options{Window: 50 * time.Millisecond})
			failed := make(chan error, 1)
			s := httptest.NewUnstartedServer(l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Proto != protocol {
					t.Errorf("asked with %s", r.Proto)
				}
				_, err := io.Copy(io.Discard, r.Body)
				failed <- err
			})))
			s.EnableHTTP2 = protocol == "HTTP/2.0"
			s.StartTLS()
			defer s.Close()
			body, writer := io.Pipe()
			defer func() { _ = writer.Close() }()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = 1 << 20
			go func() { _, _ = writer.Write([]byte("x")) }()
			go func() {
				if response, err := s.Client().Do(r); err == nil {
					_ = response.Body.Close()
				}
			}()
			if err := <-failed; !errors.Is(err, limit.ErrSlow) {
				t.Errorf("reading ends with %v", err)
			}
			poll(t, func() bool { return l.Use().Bytes == 0 })
		})
	}
}

// A request may take longer to decide than a body may to arrive.
func TestDecisionsMayTakeLonger(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		l := quiet(limit.Options{Window: 20 * time.Millisecond})
		s := httptest.NewUnstartedServer(l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			select {
			case <-r.Context().Done():
				t.Errorf("the request ends: %v", context.Cause(r.Context()))
			case <-time.After(200 * time.Millisecond):
			}
		})))
		s.EnableHTTP2 = http2
		s.StartTLS()
		response, err := s.Client().Post(s.URL, "text/plain", sized(10))
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("status %s", response.Status)
		}
		s.Close()
	}
}
