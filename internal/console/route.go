package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// The limits of requests.
const (
	// maxBody is the size of the body.
	maxBody = 1 << 20
	// maxWaiting is how many requests may wait for their turn, and longestWait for how long.
	maxWaiting  = 32
	longestWait = 15 * time.Second
	// atOnce is how many are answered at once, those that decide and others, and atOnceRemote how many that wait for a
	// cluster.
	atOnce, atOnceRemote = 2, 6
)

// A Weight says with which other routes a route takes turns.
type Weight int

// The weights of routes.
const (
	// Light routes take milliseconds.
	Light Weight = iota
	// Heavy routes evaluate policies.
	Heavy
	// Remote routes wait for a cluster.
	Remote
)

// A Route answers requests for a path.
type Route struct {
	Method, Path, Summary string
	Weight                Weight

	// in and out are the types of the bodies; in is nil without one.
	in, out reflect.Type
	// parameter is the name of the text that a GET has, in its path or in its query; empty for none.
	parameter string
	// stream, unless nil, answers instead of answer.
	stream func(ctx context.Context, query url.Values, send Send) error
	answer func(ctx context.Context, w http.ResponseWriter, r *http.Request) (any, error)
}

// Get returns a route without a body. If parameter is not empty, the answer gets the value that it has in the path or
// in the query.
func Get[Out any](path, parameter, summary string, answer func(ctx context.Context, value string) (Out, error)) Route {
	return Route{
		Method: http.MethodGet, Path: path, Summary: summary, out: reflect.TypeFor[Out](), parameter: parameter,
		answer: func(ctx context.Context, _ http.ResponseWriter, r *http.Request) (any, error) {
			value := r.PathValue(parameter)
			if value == "" && parameter != "" {
				value = r.URL.Query().Get(parameter)
			}
			return answer(ctx, value)
		},
	}
}

// From returns the route as one of another weight.
func (r Route) From(weight Weight) Route {
	r.Weight = weight
	return r
}

// Post returns a route with a body.
func Post[In, Out any](path string, weight Weight, summary string, answer func(ctx context.Context, in *In) (Out, error)) Route {
	return Route{
		Method: http.MethodPost, Path: path, Summary: summary, Weight: weight, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		answer: func(ctx context.Context, w http.ResponseWriter, r *http.Request) (any, error) {
			in := new(In)
			if err := decode(w, r, in); err != nil {
				return nil, err
			}
			return answer(ctx, in)
		},
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &Error{http.StatusUnsupportedMediaType, "expected a body of application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = rule.DecodeStrict(body, into, nil)
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", large.Limit)}
	}
	if err != nil {
		return &Error{http.StatusBadRequest, fmt.Sprintf("decode request: %v", err)}
	}
	return nil
}

// An Error is an error with an HTTP status. Others mean that the request cannot be answered as it is.
type Error struct {
	Status int
	Text   string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// refuse writes an error.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	if known, ok := errors.AsType[*Error](err); ok {
		status = known.Status
	}
	body, err := json.Marshal(map[string]string{"error": printable.Line(err.Error())})
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func writeBody(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// A dispatcher answers requests a few at a time, and ends those that a page has replaced by newer ones.
type dispatcher struct {
	turns   map[Weight]chan struct{}
	streams chan struct{}

	mu      sync.Mutex
	waiting int
	// newest ends the newest request of a page for a path.
	newest map[string]*running
}

type running struct{ end context.CancelCauseFunc }

func newDispatcher() *dispatcher {
	return &dispatcher{
		turns: map[Weight]chan struct{}{
			Light: make(chan struct{}, atOnce), Heavy: make(chan struct{}, atOnce), Remote: make(chan struct{}, atOnceRemote),
		},
		streams: make(chan struct{}, mostStreams),
		newest:  map[string]*running{},
	}
}

var (
	errReplaced = &Error{http.StatusConflict, "a newer request of the page has replaced this one"}
	errBusy     = &Error{http.StatusTooManyRequests, "too many requests are waiting: try again"}
)

func (d *dispatcher) serve(w http.ResponseWriter, r *http.Request, route *Route) {
	if route.stream != nil {
		d.follow(w, r, route)
		return
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	leave, err := d.enter(r, end)
	if err != nil {
		refuse(w, err)
		return
	}
	defer leave()
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	select {
	case d.turns[route.Weight] <- struct{}{}:
		defer func() { <-d.turns[route.Weight] }()
	case <-ctx.Done():
		refuse(w, context.Cause(ctx))
		return
	case <-timer.C:
		refuse(w, errBusy)
		return
	}
	answer, err := ask(ctx, w, r, route)
	if replaced := context.Cause(ctx); replaced != nil {
		err = replaced
	}
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		refuse(w, fmt.Errorf("encode answer: %w", err))
		return
	}
	writeBody(w, body)
}

// enter counts a request, and ends the one that it replaces.
func (d *dispatcher) enter(r *http.Request, end context.CancelCauseFunc) (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting >= maxWaiting {
		return nil, errBusy
	}
	d.waiting++
	page, own := r.Header.Get("Usher-Page"), &running{end}
	key := page + " " + r.URL.Path
	if page != "" && r.Method == http.MethodPost {
		if older := d.newest[key]; older != nil {
			older.end(errReplaced)
		}
		d.newest[key] = own
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting--
		if d.newest[key] == own {
			delete(d.newest, key)
		}
	}, nil
}

// ask returns the answer of a route, and an error if there is a defect in it.
func ask(ctx context.Context, w http.ResponseWriter, r *http.Request, route *Route) (answer any, err error) {
	defer func() {
		if defect := recover(); defect != nil {
			err = &Error{http.StatusInternalServerError, fmt.Sprintf("a defect of usher: %v", defect)}
		}
	}()
	return route.answer(ctx, w, r)
}
