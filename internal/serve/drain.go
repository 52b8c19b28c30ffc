package serve

import (
	"net/http"
	"sync"
)

// A drain counts requests in flight, and tells when the last one is done once no more
// are wanted.
type drain struct {
	mu       sync.Mutex
	inFlight int
	closing  bool
	idle     chan struct{}
}

func newDrain() *drain { return &drain{idle: make(chan struct{})} }

// count counts the requests of a handler.
func (d *drain) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.add(1)
		defer d.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (d *drain) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight += n
	d.tell()
}

// begin makes the server say that it is not ready any more. The channel that it returns is
// closed when no request is in flight.
func (d *drain) begin() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	d.tell()
	return d.idle
}

// begun reports whether begin was called.
func (d *drain) begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}

func (d *drain) tell() {
	if !d.closing || d.inFlight > 0 {
		return
	}
	select {
	case <-d.idle:
	default:
		close(d.idle)
	}
}
