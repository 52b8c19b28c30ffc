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
	"github.com/usher-dev/usher/rule"
)

// The reasons for which callers are refused.
const (
	unknownPath   = "path"
	otherResource = "resource"
)

// An entrance answers the webhooks of a server that keeps its own registration: only under
// paths that API servers were told, and for nothing but what they send there. What is behind
// it sees the phase in place of the path, which nobody may learn.
type entrance struct {
	routes *routes
	// door answers the reviews of a route that accept accepts; nil accepts all.
	door func(at route, accept func(context.Context, *usher.Request) error) http.Handler
	// demanding says that callers have to prove who they are, behind the door: then the names
	// of entries are paths, too.
	demanding bool
	refused   func(reason string)

	mu    sync.Mutex
	doors map[route]http.Handler
}

// mostDoors bounds the doors that are kept: callers may choose among the names that entries can
// have.
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

// serveAnybody answers without paths that anybody has to be told: they are the names of the
// entries.
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

// phase is what the entry's name begins with.
func (at route) phase() usher.Phase {
	phase, _, _ := strings.Cut(at.entry, "-")
	return usher.Phase(phase)
}

// asked is the entry that a request at the route is for. Under the path of a phase it is none
// in particular: so it is registered by older versions, and by hand.
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

// accept accepts the reviews that API servers send to an entry. If what they send cannot be
// read now, a decision does less harm than none.
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

// refuse answers without reading what the caller sends.
func (e *entrance) refuse(w http.ResponseWriter, code int, reason string) {
	e.refused(reason)
	// Otherwise the server would go on to read the body. Nothing is lost if it does.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	w.Header().Set("Connection", "close")
	http.Error(w, http.StatusText(code), code)
}

// disguised is a request as if it had come for the phase's own path.
func disguised(r *http.Request, phase usher.Phase) *http.Request {
	copied, u := *r, *r.URL
	u.Path, u.RawPath = "/"+string(phase), ""
	copied.URL, copied.RequestURI = &u, u.RequestURI()
	return &copied
}
