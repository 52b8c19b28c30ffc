package routes

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// The reasons to reject callers.
const (
	UnknownPath   = "path"
	OtherResource = "resource"
)

// An Entrance serves the webhooks of a server that manages its webhook configurations: only under
// registered paths, and only for what API servers send there. The next handler sees the phase in
// place of the path, because the path is secret.
type Entrance struct {
	// Routes may be nil if only ServeAnybody is used.
	Routes *Routes
	// Door creates the handler for the reviews of a route; accept limits these, and nil accepts
	// all.
	Door func(at Route, accept func(context.Context, *usher.Request) error) http.Handler
	// Demanding says that the door authenticates callers: then the names of entries are valid
	// paths, too.
	Demanding bool
	// Refused counts rejected callers.
	Refused func(reason string)

	mu    sync.Mutex
	doors map[Route]http.Handler
}

// mostDoors limits the cached doors: callers can use any name that an entry can have.
const mostDoors = 256

// candidate matches what a path of a webhook looks like, registered by this version, an older
// one or a later one.
var candidate = regexp.MustCompile(`^/(mutate|validate)(/[0-9a-f]{32,128})?$`)

// ServeHTTP implements http.Handler.
func (e *Entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := e.Routes.find(r.URL.Path)
	if ok {
		e.open(at).ServeHTTP(w, disguised(r, at.Phase()))
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if _, named := rule.ParseEntry(name); named && e.Demanding {
		e.serve(w, r, name)
		return
	}
	if !candidate.MatchString(r.URL.Path) {
		e.refuse(w, http.StatusNotFound, UnknownPath)
		return
	}
	err := e.Routes.Fresh(r.Context())
	if at, ok = e.Routes.find(r.URL.Path); ok {
		e.open(at).ServeHTTP(w, disguised(r, at.Phase()))
		return
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		e.refuse(w, http.StatusServiceUnavailable, UnknownPath)
		return
	}
	e.refuse(w, http.StatusNotFound, UnknownPath)
}

// ServeAnybody serves paths that are not secret: the names of the entries.
func (e *Entrance) ServeAnybody(w http.ResponseWriter, r *http.Request) {
	e.serve(w, r, r.PathValue("entry"))
}

func (e *Entrance) serve(w http.ResponseWriter, r *http.Request, entry string) {
	at, ok := rule.ParseEntry(entry)
	if !ok {
		http.NotFound(w, r)
		return
	}
	e.open(Route{entry: entry, Bare: true, free: true}).ServeHTTP(w, disguised(r, at.Phase))
}

// Phase returns the phase, with which the name of the entry begins.
func (at Route) Phase() usher.Phase {
	phase, _, _ := strings.Cut(at.entry, "-")
	return usher.Phase(phase)
}

// OfCandidates reports whether the entry is for candidates alone: its answers have no effect.
func (at Route) OfCandidates() bool {
	entry, _ := rule.ParseEntry(at.entry)
	return entry.OfCandidates()
}

// asked returns the entry that a request at the route is for. The path of a phase is for no
// particular entry: older versions and manual configurations register it.
func (at Route) asked() string {
	if at.Bare && at.entry == string(at.Phase()) {
		return ""
	}
	return at.entry
}

// open returns the door of a route.
func (e *Entrance) open(at Route) http.Handler {
	e.mu.Lock()
	defer e.mu.Unlock()
	door := e.doors[at]
	if door == nil {
		if e.doors == nil || len(e.doors) >= mostDoors {
			e.doors = map[Route]http.Handler{}
		}
		door = e.Door(at, e.accept(at))
		e.doors[at] = door
	}
	return door
}

// accept accepts the reviews that API servers send to an entry. If the webhook configurations
// cannot be read now, it accepts: a decision does less harm than none.
func (e *Entrance) accept(at Route) func(context.Context, *usher.Request) error {
	return func(ctx context.Context, r *usher.Request) error {
		r.Entry, r.Trusted = at.asked(), e.Demanding || !at.Bare
		if at.free || e.Routes.covers(at.entry, r) || e.Routes.Fresh(ctx) != nil || e.Routes.covers(at.entry, r) {
			return nil //nolint:nilerr // Without fresh routes it accepts.
		}
		e.Refused(OtherResource)
		return fmt.Errorf("reviews of %s are not answered here", r.Resource.GroupResource())
	}
}

// refuse responds without reading the request body.
func (e *Entrance) refuse(w http.ResponseWriter, code int, reason string) {
	e.Refused(reason)
	// Otherwise the server would continue to read the body. An error only means that it does.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	w.Header().Set("Connection", "close")
	http.Error(w, http.StatusText(code), code)
}

// disguised returns a copy of the request with the path of the phase, or the request if it has that.
func disguised(r *http.Request, phase usher.Phase) *http.Request {
	if r.URL.Path == "/"+string(phase) {
		return r
	}
	copied := struct {
		request http.Request
		url     url.URL
	}{*r, *r.URL}
	u := &copied.url
	u.Path, u.RawPath = "/"+string(phase), ""
	copied.request.URL, copied.request.RequestURI = u, u.RequestURI()
	return &copied.request
}
