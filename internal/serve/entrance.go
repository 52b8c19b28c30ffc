package serve

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// The reasons to reject callers.
const (
	unknownPath   = "path"
	otherResource = "resource"
)

// An entrance serves the webhooks of a server that manages its webhook configurations: only under
// registered paths, and only for what API servers send there. The next handler sees the phase in
// place of the path, because the path is secret.
type entrance struct {
	routes *routes
	// door creates the handler for the reviews of a route; accept limits these, and nil accepts
	// all.
	door func(at route, accept func(context.Context, *usher.Request) error) http.Handler
	// demanding says that the door authenticates callers: then the names of entries are valid
	// paths, too.
	demanding bool
	refused   func(reason string)

	mu    sync.Mutex
	doors map[route]http.Handler
}

// mostDoors limits the cached doors: callers can use any name that an entry can have.
const mostDoors = 256

// candidate matches what a path of a webhook looks like, registered by this version, an older
// one or a later one.
var candidate = regexp.MustCompile(`^/(mutate|validate)(/[0-9a-f]{32,128})?$`)

// ServeHTTP implements http.Handler.
func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := e.routes.find(r.URL.Path)
	if ok {
		e.open(at).ServeHTTP(w, disguised(r, at.phase()))
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if _, named := rule.ParseEntry(name); named && e.demanding {
		e.serve(w, r, name)
		return
	}
	if !candidate.MatchString(r.URL.Path) {
		e.refuse(w, http.StatusNotFound, unknownPath)
		return
	}
	err := e.routes.fresh(r.Context())
	if at, ok = e.routes.find(r.URL.Path); ok {
		e.open(at).ServeHTTP(w, disguised(r, at.phase()))
		return
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		e.refuse(w, http.StatusServiceUnavailable, unknownPath)
		return
	}
	e.refuse(w, http.StatusNotFound, unknownPath)
}

// serveAnybody serves paths that are not secret: the names of the entries.
func (e *entrance) serveAnybody(w http.ResponseWriter, r *http.Request) {
	e.serve(w, r, r.PathValue("entry"))
}

func (e *entrance) serve(w http.ResponseWriter, r *http.Request, entry string) {
	at, ok := rule.ParseEntry(entry)
	if !ok {
		http.NotFound(w, r)
		return
	}
	e.open(route{entry: entry, bare: true, free: true}).ServeHTTP(w, disguised(r, at.Phase))
}

// phase returns the phase, with which the name of the entry begins.
func (at route) phase() usher.Phase {
	phase, _, _ := strings.Cut(at.entry, "-")
	return usher.Phase(phase)
}

// asked returns the entry that a request at the route is for. The path of a phase is for no
// particular entry: older versions and manual configurations register it.
func (at route) asked() string {
	if at.bare && at.entry == string(at.phase()) {
		return ""
	}
	return at.entry
}

// open returns the door of a route.
func (e *entrance) open(at route) http.Handler {
	e.mu.Lock()
	defer e.mu.Unlock()
	door := e.doors[at]
	if door == nil {
		if e.doors == nil || len(e.doors) >= mostDoors {
			e.doors = map[route]http.Handler{}
		}
		door = e.door(at, e.accept(at))
		e.doors[at] = door
	}
	return door
}

// accept accepts the reviews that API servers send to an entry. If the webhook configurations
// cannot be read now, it accepts: a decision does less harm than none.
func (e *entrance) accept(at route) func(context.Context, *usher.Request) error {
	return func(ctx context.Context, r *usher.Request) error {
		r.Entry, r.Trusted = at.asked(), e.demanding || !at.bare
		if at.free || e.routes.covers(at.entry, r) || e.routes.fresh(ctx) != nil || e.routes.covers(at.entry, r) {
			return nil
		}
		e.refused(otherResource)
		return fmt.Errorf("reviews of %s are not answered here", r.Resource.GroupResource())
	}
}

// refuse responds without reading the request body.
func (e *entrance) refuse(w http.ResponseWriter, code int, reason string) {
	e.refused(reason)
	// Otherwise the server would continue to read the body. An error only means that it does.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	w.Header().Set("Connection", "close")
	http.Error(w, http.StatusText(code), code)
}

// disguised returns a copy of the request with the path of the phase.
func disguised(r *http.Request, phase usher.Phase) *http.Request {
	copied, u := *r, *r.URL
	u.Path, u.RawPath = "/"+string(phase), ""
	copied.URL, copied.RequestURI = &u, u.RequestURI()
	return &copied
}
