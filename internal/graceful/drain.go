package graceful

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// A drain counts requests in flight, and signals when the last one is done during shutdown. The
// zero value is ready to use.
type drain struct {
	mu       sync.Mutex
	inFlight int
	closing  bool
	// last is when a request began or ended during shutdown, or the shutdown did.
	last time.Time
}

// count counts the requests of a handler.
func (d *drain) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.add(1)
		defer d.add(-1)
		next.ServeHTTP(&draining{ResponseWriter: w, drain: d}, r)
	})
}

// A draining response asks the client to close the connection if the server is shutting down when
// the response starts.
type draining struct {
	http.ResponseWriter
	drain *drain
	begun bool
}

func (w *draining) WriteHeader(code int) {
	if !w.begun && w.drain.begun() {
		w.Header().Set("Connection", "close")
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *draining) Write(body []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(body)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (w *draining) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (d *drain) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight += n
	if d.closing {
		d.last = time.Now()
	}
}

// begin makes the server not ready, and asks clients to close connections after their next request.
func (d *drain) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing, d.last = true, time.Now()
}

// quiet waits until no request has come for a while, or ctx is done. Closing connections before
// that would lose requests that are on their way.
func (d *drain) quiet(ctx context.Context, pause time.Duration) {
	ticker := time.NewTicker(pause / 10)
	defer ticker.Stop()
	for {
		d.mu.Lock()
		done := d.inFlight == 0 && time.Since(d.last) > pause
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// begun reports whether begin was called.
func (d *drain) begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}
