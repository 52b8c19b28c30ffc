package authorization

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/envelope"
	"github.com/usher-dev/usher/internal/jsonscan"
	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/ratelog"
)

const (
	defaultMaxBody     = 1 << 20
	defaultTimeout     = 500 * time.Millisecond
	defaultMaxInFlight = 1000
	// longestReserve limits the part of the caller's timeout that is reserved for the response.
	longestReserve = 100 * time.Millisecond
	// keptBuffer is the largest buffer that is used again, in bytes.
	keptBuffer = 64 << 10
)

type handler struct {
	decider usher.Decider
	// only is the verdict that is answered besides no opinion; empty means both.
	only    usher.Verdict
	options Options
	// refused logs requests that are not reviews.
	refused  *ratelog.Logger
	inFlight atomic.Int64
	// logged is when the last line about overload was logged, in seconds.
	logged atomic.Int64
	// reviews have no name of their own, and get a number after a prefix that other
	// handlers do not have.
	prefix  string
	reviews atomic.Uint64
	// spaces has workspaces to be used again.
	spaces sync.Pool
}

func newHandler(d usher.Decider, only usher.Verdict, o Options) *handler {
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultMaxInFlight)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &handler{
		decider: d, only: only, options: o, refused: ratelog.New(o.Log), prefix: rand.Text()[:8] + "-",
		spaces: sync.Pool{New: func() any { return &workspace{body: make([]byte, 0, 4096), out: make([]byte, 0, 512)} }},
	}
}

var (
	errOverload  = &envelope.Refusal{Code: http.StatusServiceUnavailable, Text: "overloaded: rejecting reviews"}
	errUndecided = &envelope.Refusal{Code: http.StatusServiceUnavailable, Text: "no decision was reached"}
)

// A workspace is the memory for one response, reused for the next.
type workspace struct {
	body, out []byte
	scanner   jsonscan.Scanner
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := envelope.Check(r); err != nil {
		h.refuse(w, r, err)
		return
	}
	space := h.spaces.Get().(*workspace)
	err := h.serve(space, r)
	switch {
	case errors.Is(err, errOverload):
		h.overloaded(w, r)
	case err != nil:
		h.refuse(w, r, err)
	default:
		envelope.Send(w, space.out)
	}
	if cap(space.body) <= keptBuffer {
		h.spaces.Put(space)
	}
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if code := envelope.Write(w, err); code < http.StatusInternalServerError {
		h.refused.Warn(r.Context(), http.StatusText(code), "request is not an access review",
			"path", r.URL.Path, "remote", r.RemoteAddr, "code", code, "error", err)
	}
}

// overloaded rejects a review. It logs at most once a second, to do little work under load.
func (h *handler) overloaded(w http.ResponseWriter, r *http.Request) {
	if now := time.Now().Unix(); h.logged.Swap(now) != now {
		h.options.Log.ErrorContext(r.Context(), "overloaded: rejecting access reviews",
			"path", r.URL.Path, "max-in-flight", h.options.MaxInFlight)
	}
	if h.options.Shadow {
		// The review was not read. API servers take an answer without version, too.
		envelope.Send(w, []byte(`{"status":{"allowed":false}}`+"\n"))
		return
	}
	http.Error(w, errOverload.Text, errOverload.Code)
}

// serve has the answer to one review in space.out.
func (h *handler) serve(space *workspace, r *http.Request) error {
	var err error
	if space.body, err = envelope.Read(r, h.options.MaxBody, space.body[:0], "a "+kind); err != nil {
		return overload(err)
	}
	// This comes after the body is read: a slow body does not take a slot.
	if most := int64(h.options.MaxInFlight); most > 0 {
		defer h.inFlight.Add(-1)
		if h.inFlight.Add(1) > most {
			return errOverload
		}
	}
	// The decider may keep the request, so it is not part of the workspace.
	review := &review{}
	if err := review.decode(&space.scanner, space.body, watch(r, len(space.body))); err != nil {
		if errors.Is(err, limit.ErrOverloaded) || errors.Is(err, limit.ErrTooLarge) {
			return overload(envelope.Failure(err))
		}
		return envelope.Refuse(http.StatusBadRequest, "%v", err)
	}
	answer, err := h.answer(r, review)
	if err != nil {
		return err
	}
	space.out = answer.append(space.out[:0], review.apiVersion)
	return nil
}

// overload is err, or errOverload if there was not enough memory for the request.
func overload(err error) error {
	if refusal := (*envelope.Refusal)(nil); errors.As(err, &refusal) && refusal.Code == http.StatusTooManyRequests {
		return errOverload
	}
	return err
}

// watch returns what a scan of a body of this size reports its memory to. Small bodies are charged
// already.
func watch(r *http.Request, size int) jsontree.Watch {
	if size <= 4096 {
		return nil
	}
	return func(weight int) error {
		if err := r.Context().Err(); err != nil {
			return err
		}
		return limit.Pay(r.Body, weight)
	}
}

// answer decides a review.
func (h *handler) answer(r *http.Request, review *review) (answer, error) {
	q := &review.request
	q.UID = h.prefix + strconv.FormatUint(h.reviews.Add(1), 10)
	if h.reads(q) {
		if h.only == usher.Deny {
			return answer{}, nil
		}
		return answer{allowed: true, reason: "the authorizer reads its policies"}, nil
	}
	ctx, cancel := h.deadline(r)
	defer cancel()
	decision, err := h.decide(ctx, q)
	var a answer
	if err == nil {
		a, err = answerOf(decision, h.only)
	}
	if err != nil {
		h.options.Log.ErrorContext(ctx, "access review without a decision", "uid", q.UID, "path", r.URL.Path, "error", err)
		if h.options.Shadow {
			return answer{evaluationError: errUndecided.Text}, nil
		}
		return answer{}, errUndecided
	}
	if h.options.Shadow {
		return answer{}, nil
	}
	return a, nil
}

// reads reports whether q is from this process, which reads its policies. Without them it cannot
// decide anything.
func (h *handler) reads(q *usher.Request) bool {
	if h.options.Self == "" || q.User.Name != h.options.Self || q.Access.NonResource || q.Subresource != "" {
		return false
	}
	if q.Resource.Group != "rbac.authorization.k8s.io" && !api.IsGroup(q.Resource.Group) {
		return false
	}
	switch q.Access.Verb {
	case "get", "list", "watch":
		return true
	}
	return false
}

// errPanic replaces a panic, whose details are in the log.
var errPanic = errors.New("the decider panicked")

// decide calls the decider. A panic means that there is no decision.
func (h *handler) decide(ctx context.Context, r *usher.Request) (decision usher.Decision, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			h.options.Log.ErrorContext(ctx, "decider panicked", "uid", r.UID, "phase", r.Phase,
				"reason", reason, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return h.decider.Decide(ctx, r)
}

// deadline returns the context of a decision: it ends shortly before the caller's timeout.
func (h *handler) deadline(r *http.Request) (context.Context, context.CancelFunc) {
	timeout := h.options.Timeout
	if said, err := time.ParseDuration(timeoutOf(r)); err == nil && said > 0 {
		timeout = min(timeout, said-min(said/10, longestReserve))
	}
	return context.WithTimeout(r.Context(), timeout)
}

// timeoutOf returns the timeout parameter of a request. It usually is the only one, and
// plain.
func timeoutOf(r *http.Request) string {
	if text, ok := strings.CutPrefix(r.URL.RawQuery, "timeout="); ok && !strings.ContainsAny(text, "&%+;") {
		return text
	}
	if r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get("timeout")
}
