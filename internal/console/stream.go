package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/usher-dev/usher/internal/printable"
)

const (
	// mostStreams is how many streams there are at once.
	mostStreams = 4
	// heartbeat is the longest time without a word, and writeTimeout how long the page may take to receive what is
	// written at once.
	heartbeat    = 5 * time.Second
	writeTimeout = 10 * time.Second
)

// Send sends an event to the page, and returns an error once it has gone.
type Send func(event string, data any) error

// Stream returns a route that answers with server-sent events, until follow returns or the page goes. An error of follow
// is the last event, failed.
func Stream(path, summary string, follow func(ctx context.Context, query url.Values, send Send) error) Route {
	return Route{Method: http.MethodGet, Path: path, Summary: summary, stream: follow}
}

// An events writes events, and comments while there are none.
type events struct {
	control *http.ResponseController

	mu sync.Mutex
	w  http.ResponseWriter
}

func (e *events) write(format string, args ...any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Connections that have no deadlines end otherwise.
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

// send writes an event. JSON has no line breaks, and its texts no control characters.
func (e *events) send(event string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode %s: %w", event, err)
	}
	return e.write("event: %s\ndata: %s\n\n", event, body)
}

// follow serves a stream.
func (d *dispatcher) follow(w http.ResponseWriter, r *http.Request, route *Route) {
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		refuse(w, &Error{http.StatusTooManyRequests, fmt.Sprintf("%d streams are open: close another page", mostStreams)})
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	e := &events{control: http.NewResponseController(w), w: w}
	// The request is read; that nothing more comes does not end it.
	_ = e.control.SetReadDeadline(time.Time{})
	if e.write(": begins\n\n") != nil {
		return
	}
	beating := sync.WaitGroup{}
	beating.Go(func() {
		defer cancel()
		for ticker := time.NewTicker(heartbeat); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
			}
			if e.write(": nothing new\n\n") != nil {
				return
			}
		}
	})
	err := followed(ctx, r, route, e)
	if err != nil && ctx.Err() == nil {
		_ = e.send("failed", map[string]string{"error": printable.Line(err.Error())})
	}
	cancel()
	beating.Wait()
}

// followed runs the stream of a route, and returns an error if there is a defect in it.
func followed(ctx context.Context, r *http.Request, route *Route, e *events) (err error) {
	defer func() {
		if defect := recover(); defect != nil {
			err = fmt.Errorf("a defect of usher: %v", defect)
		}
	}()
	if err = route.stream(ctx, r.URL.Query(), e.send); errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
