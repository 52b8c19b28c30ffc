package serve

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/observe/recent"
)

const (
	// mostLast is how many decisions a list has unless it asks for another number.
	defaultLast = 100
	// flushEvery is the shortest time between two writes to a subscriber, and heartbeat the longest.
	flushEvery = 50 * time.Millisecond
	heartbeat  = 15 * time.Second
)

// A decisionsAPI serves the last decisions: a list, or a stream of server-sent events.
type decisionsAPI struct {
	ring *recent.Ring
	// process distinguishes the sequence numbers of this process from those of others.
	process string
}

func newDecisionsAPI(ring *recent.Ring) *decisionsAPI {
	return &decisionsAPI{ring: ring, process: rand.Text()}
}

// A decisionList is the response to a list.
type decisionList struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Items      []*recent.Decision `json:"items"`
}

// ServeHTTP implements [http.Handler].
func (a *decisionsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, ok := delegated.RequestOf(r.Context())
	if !ok {
		http.Error(w, "the caller is not known", http.StatusForbidden)
		return
	}
	query := r.URL.Query()
	filter, err := recent.ParseFilter(query)
	last := defaultLast
	if text := query.Get("last"); err == nil && text != "" {
		if last, err = strconv.Atoi(text); err != nil || last < 0 || last > recent.Size {
			err = fmt.Errorf("last %q is not a number from 0 to %d", text, recent.Size)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if request.Name != "" {
		http.Error(w, "decisions have no names: list or watch them", http.StatusNotFound)
		return
	}
	filter.Namespace = request.Namespace
	if request.Verb == "watch" {
		a.watch(w, r, &filter, last)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	items := a.ring.Last(last, filter.Accepts)
	if items == nil {
		items = []*recent.Decision{}
	}
	_ = json.NewEncoder(w).Encode(decisionList{"usher.dev/v1", "DecisionList", items})
}

// watch streams decisions: first the last ones, or those since the one that the client has seen last,
// then each new one. An event "lost" says how many decisions the client has missed.
func (a *decisionsAPI) watch(w http.ResponseWriter, r *http.Request, filter *recent.Filter, last int) {
	from, seen := a.resume(r.Header.Get("Last-Event-ID"))
	var first []*recent.Decision
	if !seen {
		from = a.ring.Next()
		first = a.ring.Last(last, func(d *recent.Decision) bool { return d.Sequence < from && filter.Accepts(d) })
	}
	s, err := a.ring.Subscribe(from)
	if errors.Is(err, recent.ErrTooMany) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d clients watch decisions already: try again later", recent.MostSubscribers), http.StatusTooManyRequests)
		return
	}
	defer s.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	e := events{w: w, flusher: http.NewResponseController(w), process: a.process}
	// The headers are sent even if there is nothing yet.
	e.beat()
	for _, d := range first {
		e.decision(d)
	}
	if e.flush() != nil {
		return
	}
	buffer := make([]*recent.Decision, 0, 256)
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		all, lost := s.Read(buffer)
		e.lost(lost)
		for _, d := range all {
			if filter.Accepts(d) {
				e.decision(d)
			}
		}
		if len(all) == cap(buffer) {
			continue
		}
		if e.flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.More():
			// What comes at the same time is written at once.
			select {
			case <-time.After(flushEvery):
			case <-r.Context().Done():
				return
			}
		case <-beat.C:
			e.beat()
		}
		beat.Reset(heartbeat)
	}
}

// resume returns the sequence number after that of an event. It is false if the event is not one of
// this process.
func (a *decisionsAPI) resume(id string) (from uint64, seen bool) {
	process, text, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(text, 10, 64)
	if process != a.process || err != nil || n >= a.ring.Next() {
		return 0, false
	}
	return n + 1, true
}

// events writes server-sent events. The first error ends it.
type events struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	process string
	err     error
	dirty   bool
}

func (e *events) write(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
		e.dirty = true
	}
}

func (e *events) decision(d *recent.Decision) {
	text, err := json.Marshal(d)
	if err != nil {
		e.err = err
		return
	}
	e.write("id: %s-%d\nevent: decision\ndata: %s\n\n", e.process, d.Sequence, text)
}

func (e *events) lost(n uint64) {
	if n > 0 {
		e.write("event: lost\ndata: {\"lost\":%d}\n\n", n)
	}
}

func (e *events) beat() { e.write(": nothing new\n\n") }

func (e *events) flush() error {
	if e.err == nil && e.dirty {
		e.dirty = false
		e.err = e.flusher.Flush()
	}
	return e.err
}
