package serve_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/serve"
)

// A blocked handler tells when it is entered, and answers when it is let go.
type blocked struct {
	entered, release chan struct{}
}

func newBlocked() *blocked {
	return &blocked{entered: make(chan struct{}), release: make(chan struct{})}
}

func (b *blocked) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	b.entered <- struct{}{}
	<-b.release
	w.WriteHeader(http.StatusOK)
}

func ask(h http.Handler, length int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mutate", nil)
	r.ContentLength = length
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOverloadIsShed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason   string
		inFlight int
		length   int64
	}{
		{"too many", 1, 1},
		{"too many, of which nobody knows how long they are", 1, -1},
		{"too large together", 100, serve.MostBytes/2 + 1},
		{"one too large for itself", 100, serve.MostBytes * 2},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var shed atomic.Int64
			var log bytes.Buffer
			b := newBlocked()
			h := serve.Limit(row.inFlight, 10*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)), func() { shed.Add(1) }, b)
			var first sync.WaitGroup
			first.Go(func() {
				if w := ask(h, row.length); w.Code != http.StatusOK {
					t.Errorf("the first is answered %d", w.Code)
				}
			})
			<-b.entered
			for range 3 {
				w := ask(h, row.length)
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || w.Body.Len() == 0 {
					t.Errorf("another is answered %d %v %s", w.Code, w.Header(), w.Body)
				}
			}
			close(b.release)
			first.Wait()
			if shed.Load() != 3 || strings.Count(log.String(), "turned away") != 1 {
				t.Errorf("%d counted as shed, log:\n%s", shed.Load(), log.String())
			}
			go func() { <-b.entered }()
			if w := ask(h, row.length); w.Code != http.StatusOK {
				t.Errorf("once there is room again it is answered %d", w.Code)
			}
		})
	}
}

func TestABurstWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := newBlocked()
	h := serve.Limit(1, time.Minute, slog.New(slog.DiscardHandler), func() { t.Error("shed") }, b)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if w := ask(h, 1); w.Code != http.StatusOK {
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	for range 5 {
		<-b.entered
		select {
		case <-b.entered:
			t.Error("two at a time")
		case b.release <- struct{}{}:
		}
	}
	all.Wait()
}
