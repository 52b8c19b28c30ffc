// Package decisions serves the last decisions to users of the cluster.
package decisions

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/observe/recent"
)

const (
	// defaultLast is how many decisions a list has unless it asks for another number.
	defaultLast = 100
	// gather is the shortest time between two writes to a subscriber.
	gather = 100 * time.Millisecond
	// writeTimeout is how long a subscriber may take to receive what is written at once.
	writeTimeout = 10 * time.Second
	// batch is how many decisions are written at once. They stay in memory until they are.
	batch = 128
)

// An API serves the last decisions: a list, or a stream of server-sent events. It is a resource of the
// API that [delegated] guards.
type API struct {
	ring *recent.Ring
	// kind is that of the list.
	kind string
	// process distinguishes the sequence numbers of this process from those of others.
	process string
	// writeTimeout is the constant, except in tests.
	writeTimeout time.Duration
}

// New returns an API for the decisions of a ring, which are a list of the kind.
func New(ring *recent.Ring, kind string) *API {
	return &API{ring: ring, kind: kind, process: rand.Text(), writeTimeout: writeTimeout}
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, ok := delegated.RequestOf(r.Context())
	if !ok {
		http.Error(w, "the caller is not known", http.StatusForbidden)
		return
	}
	if request.Name != "" {
		http.Error(w, "decisions have no names: list or watch them", http.StatusNotFound)
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
		delegated.WriteStatus(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	filter.Namespace = request.Namespace
	if request.Verb == "watch" {
		a.watch(w, r, request, &filter, last)
		return
	}
	a.list(w, r, &filter, last)
}

// list writes the last decisions. It keeps none of them in memory while the client reads, and says
// how many were lost meanwhile.
func (a *API) list(w http.ResponseWriter, r *http.Request, filter *recent.Filter, last int) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	out := &paced{w: w, control: http.NewResponseController(w), timeout: a.writeTimeout}
	out.end, _ = r.Context().Deadline()
	out.printf(`{"apiVersion":%q,"kind":%q,"items":[`, delegated.Group+"/v1", a.kind)
	end := a.ring.Next()
	cursor := a.ring.Last(last, filter)
	separator, missed := "", uint64(0)
	buffer := make([]*recent.Decision, 0, batch)
	for {
		before := cursor.At()
		all, lost := cursor.Until(buffer, end)
		missed += lost
		for _, d := range all {
			out.printf("%s\n%s", separator, line(d))
			separator = ","
		}
		if cursor.At() == before || out.flush() != nil {
			break
		}
	}
	out.printf("\n],\"lost\":%d%s}\n", missed, since(a.ring.Oldest(filter.Namespace), ","))
	_ = out.flush()
}

// watch streams decisions: first the last ones, or those since the one that the client has seen last,
// then an event "current" and each new one. An event "lost" says how many decisions were lost before
// they were read, an event "end" why the server ends the stream. The ids of all events resume it.
func (a *API) watch(w http.ResponseWriter, r *http.Request, request delegated.Request, filter *recent.Filter, last int) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	cursor := a.ring.Last(last, filter)
	if from, seen := a.resume(r.Header.Get("Last-Event-ID")); seen {
		cursor = a.ring.Read(from, filter)
	}
	s, err := a.ring.Subscribe(delegated.Owner(request.User), cursor)
	if err != nil {
		delegated.WriteStatus(w, refusal(err))
		return
	}
	defer s.Close()
	e := events{paced: paced{w: w, control: http.NewResponseController(w), timeout: a.writeTimeout}, process: a.process}
	e.oldest = a.ring.Oldest(filter.Namespace)
	// The headers are sent even if there is nothing yet.
	e.at(s.At())
	a.follow(r, s, &e)
}

func (a *API) follow(r *http.Request, s *recent.Subscription, e *events) {
	buffer := make([]*recent.Decision, 0, batch)
	current := false
	// HTTP/2 ends a stream at its write deadline, even if all is written: each write sets the next one.
	beat := time.NewTicker(a.writeTimeout / 2)
	defer beat.Stop()
	for {
		all, lost := s.Next(buffer)
		e.lost(lost)
		for _, d := range all {
			e.decision(d)
		}
		if len(all) < cap(buffer) && !current {
			current = true
			e.current(s.At())
		}
		if e.flush() != nil {
			return
		}
		if len(all) == cap(buffer) {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.Done():
			e.end(s.Err())
			return
		case <-beat.C:
			// A client that resumes need not have seen a decision.
			e.at(s.At())
		case <-s.More():
			// What comes at the same time is written at once.
			select {
			case <-time.After(gather):
			case <-s.Done():
			case <-r.Context().Done():
				return
			}
		}
	}
}

// since is the field that says how far back the decisions go; empty if there are none.
func since(oldest time.Time, separator string) string {
	if oldest.IsZero() {
		return ""
	}
	return separator + `"oldest":"` + oldest.Format(time.RFC3339Nano) + `"`
}

// refusal is the status for a subscriber that is not served.
func refusal(err error) error {
	if errors.Is(err, recent.ErrTooMany) {
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d clients watch decisions already: try again later", recent.MostSubscribers), 5)
	}
	return apierrors.NewServiceUnavailable(err.Error())
}

// resume returns the sequence number after that of an event. It is false if the event is not one of
// this process.
func (a *API) resume(id string) (from uint64, seen bool) {
	process, text, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(text, 10, 64)
	if process != a.process || err != nil || n > a.ring.Next() {
		return 0, false
	}
	return n, true
}

// line returns a decision as JSON. It has nothing that cannot be encoded.
func line(d *recent.Decision) []byte {
	text, err := d.JSON()
	if err != nil {
		text, _ = json.Marshal(err.Error())
	}
	return text
}

// A paced writes to a client that has to receive each part within a timeout, and all until the end,
// if there is one. The first error ends it.
type paced struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	end     time.Time
	err     error
	dirty   bool
}

func (p *paced) printf(format string, args ...any) {
	if p.err != nil {
		return
	}
	if !p.dirty {
		// Connections that have no deadlines end otherwise.
		until := time.Now().Add(p.timeout)
		if !p.end.IsZero() && p.end.Before(until) {
			until = p.end
		}
		_ = p.control.SetWriteDeadline(until)
	}
	p.dirty = true
	_, p.err = fmt.Fprintf(p.w, format, args...) //nolint:gosec // It is JSON or events, and no sniffing is allowed.
}

func (p *paced) flush() error {
	if p.err == nil && p.dirty {
		p.dirty = false
		p.err = p.control.Flush()
	}
	return p.err
}

// events writes server-sent events.
type events struct {
	paced

	process string
	// oldest is how far back the decisions went when the stream began.
	oldest time.Time
}

func (e *events) decision(d *recent.Decision) {
	e.printf("id: %s-%d\nevent: decision\ndata: %s\n\n", e.process, d.Sequence+1, line(d))
}

func (e *events) lost(n uint64) {
	if n > 0 {
		e.printf("event: lost\ndata: {\"lost\":%d}\n\n", n)
	}
}

// at says from where on a client that has to reconnect resumes.
func (e *events) at(next uint64) { e.printf("id: %s-%d\nevent: at\ndata: {}\n\n", e.process, next) }

// current says that what follows is new.
func (e *events) current(next uint64) {
	e.printf("id: %s-%d\nevent: current\ndata: {%s}\n\n", e.process, next, since(e.oldest, ""))
}

func (e *events) end(err error) {
	e.printf("event: end\ndata: {\"reason\":%q}\n\n", err.Error())
	_ = e.flush()
}
