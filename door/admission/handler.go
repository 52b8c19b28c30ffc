package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/envelope"
	"github.com/usher-dev/usher/internal/jsonscan"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/ratelog"
)

const (
	defaultMaxBody = 32 << 20
	defaultTimeout = 10 * time.Second
	// longestTimeout is longer than API servers wait for any webhook.
	longestTimeout = time.Minute
	// longestReserve limits the part of the caller's timeout that is reserved for the response.
	longestReserve = 500 * time.Millisecond
	// drain limits how much of a body that is too large is read, in multiples of the limit: a
	// caller that is still sending may not read the response.
	drain = 8
)

type handler struct {
	decider usher.Decider
	phase   usher.Phase
	maxBody int64
	timeout time.Duration
	accept  func(context.Context, *usher.Request) error
	// allows says that all reviews are allowed.
	allows bool
	log    *slog.Logger
	// refused logs requests that are not reviews, and patches that API servers would not read.
	refused *ratelog.Logger
}

func newHandler(d usher.Decider, phase usher.Phase, o Options) *handler {
	h := &handler{decider: d, phase: phase, maxBody: o.MaxBody, timeout: cmp.Or(o.Timeout, defaultTimeout), accept: o.Accept, allows: o.AlwaysAllow, log: o.Log}
	if h.maxBody <= 0 {
		h.maxBody = defaultMaxBody
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.refused = ratelog.New(h.log)
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := h.deadline(r)
	defer cancel()
	buffers := bufferPool.Get().(*buffers)
	defer buffers.release()
	answer, err := h.serve(ctx, r, buffers)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	envelope.Send(w, answer)
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := envelope.Write(w, err)
	if code == http.StatusTooManyRequests {
		// The limiter logs rejections, at a limited rate.
		return
	}
	// The URL path may be a secret.
	h.refused.Warn(r.Context(), http.StatusText(code), "request is not an admission review",
		"phase", h.phase, "remote", r.RemoteAddr, "code", code, "error", err)
}

// serve returns the response to one review, in the buffers.
func (h *handler) serve(ctx context.Context, r *http.Request, buffers *buffers) ([]byte, error) {
	if err := envelope.Check(r); err != nil {
		return nil, err
	}
	body, err := envelope.Read(r, h.maxBody, nil, "an AdmissionReview")
	if refusal := (*envelope.Refusal)(nil); errors.As(err, &refusal) && refusal.Code == http.StatusRequestEntityTooLarge {
		return h.tooLarge(r, body, buffers, refusal)
	}
	if err != nil {
		return nil, err
	}
	review := &review{meter: meter{ctx: ctx, body: r.Body}}
	defer review.meter.end()
	if err := review.decode(body); err != nil {
		return h.undecodable(ctx, review, buffers, err)
	}
	review.request.Phase = h.phase
	if h.accept != nil {
		if err := h.accept(ctx, &review.request); err != nil {
			return nil, envelope.Refuse(http.StatusForbidden, "%v", err)
		}
	}
	return h.answer(ctx, review, buffers)
}

// undecodable responds to a review that could be read in part. Under failurePolicy Ignore an HTTP
// error would let it pass, so HTTP errors are for what is not a review, and for what the caller
// should send again.
func (h *handler) undecodable(ctx context.Context, review *review, buffers *buffers, err error) ([]byte, error) {
	tooLarge := errors.Is(err, limit.ErrTooLarge)
	switch {
	case errors.Is(err, limit.ErrOverloaded):
		return nil, envelope.Failure(err)
	case errors.Is(err, jsonscan.ErrTooDeep) && review.identified():
		return h.deny(ctx, review, answer.Refusal(http.StatusBadRequest, err.Error()), buffers)
	case tooLarge && review.identified():
		return h.deny(ctx, review, answer.Refusal(http.StatusRequestEntityTooLarge, errMemory), buffers)
	case tooLarge:
		return nil, envelope.Failure(err)
	case ctx.Err() != nil && review.identified():
		return h.deny(ctx, review, answer.Undecided(err), buffers)
	case ctx.Err() != nil:
		return nil, envelope.Refuse(http.StatusRequestTimeout, "%v", err)
	}
	return nil, envelope.Refuse(http.StatusBadRequest, "%v", err)
}

// errMemory is the message to the user if a review takes too much memory.
const errMemory = "admission review takes more memory than the server has for one request: make the object smaller"

// tooLarge denies a review that could be read in part. Under failurePolicy Ignore an HTTP error
// would let it pass.
func (h *handler) tooLarge(r *http.Request, beginning []byte, buffers *buffers, refusal *envelope.Refusal) ([]byte, error) {
	limit.Discard(r.Body, drain*h.maxBody)
	review := &review{}
	_ = review.decode(beginning)
	if !review.identified() {
		return nil, refusal
	}
	reason := strings.Replace(refusal.Text, "body", "admission review", 1)
	if refusal.Text == limit.ErrTooLarge.Error() {
		reason = errMemory
	}
	return h.deny(r.Context(), review, answer.Refusal(http.StatusRequestEntityTooLarge, reason), buffers)
}

// answer decides a review and encodes the decision.
func (h *handler) answer(ctx context.Context, review *review, buffers *buffers) ([]byte, error) {
	decision, err := answer.Decide(ctx, h.decider, &review.request, h.log)
	if err != nil {
		return h.deny(ctx, review, answer.Undecided(err), buffers)
	}
	if h.phase == usher.Validate && len(decision.Patch) > 0 {
		h.refused.Warn(ctx, "patch", "a validating webhook cannot change objects, and its patch is left out: mount the decider with admission.Mutate, or look at Request.Phase",
			"uid", review.request.UID)
	}
	if h.allows {
		return encodeReview(review, &admissionv1.AdmissionResponse{Allowed: true}, buffers)
	}
	response, err := respond(&review.request, decision, buffers)
	if err != nil {
		return h.deny(ctx, review, answer.Undecided(err), buffers)
	}
	return encodeReview(review, response, buffers)
}

// deny answers a review that could not be decided.
func (h *handler) deny(ctx context.Context, review *review, status *metav1.Status, buffers *buffers) ([]byte, error) {
	what := "review denied without a decision"
	if h.allows {
		what = "review allowed without a decision"
	}
	h.log.ErrorContext(ctx, what,
		"uid", review.request.UID, "phase", h.phase, "code", status.Code, "error", status.Message)
	if h.allows {
		return encodeReview(review, &admissionv1.AdmissionResponse{Allowed: true}, buffers)
	}
	return encodeReview(review, &admissionv1.AdmissionResponse{Result: status}, buffers)
}

// deadline returns the context of a decision: it ends shortly before callerTimeout.
func (h *handler) deadline(r *http.Request) (context.Context, func()) {
	if h.timeout < 0 {
		return r.Context(), func() {}
	}
	timeout := h.timeout
	if said := callerTimeout(r.URL); said > 0 {
		said = min(said, longestTimeout)
		timeout = said - min(said/10, longestReserve)
	}
	ctx := &deadline.Context{Context: r.Context(), At: time.Now().Add(timeout)}
	return ctx, ctx.Release
}

// callerTimeout returns how long the caller waits, 0 if it does not say.
func callerTimeout(u *url.URL) time.Duration {
	// The query that API servers write needs no parser.
	text, ok := strings.CutPrefix(u.RawQuery, "timeout=")
	if !ok || strings.ContainsAny(text, "&%+;") {
		text = u.Query().Get("timeout")
	}
	said, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return said
}
