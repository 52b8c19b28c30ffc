package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/jsonscan"
)

const (
	defaultMaxBody = 32 << 20
	defaultTimeout = 10 * time.Second
	// longestTimeout is more than any API server grants a webhook.
	longestTimeout = time.Minute
	// longestReserve bounds what is kept of the caller's patience for the way back.
	longestReserve = 500 * time.Millisecond
	// prefix is how much of a body that is too large is looked at. What identifies a
	// review comes first; only objects are large.
	prefix = 64 << 10
	// drain bounds how much of a body that is too large is read, in multiples of the limit:
	// a caller that is still sending may not see the answer.
	drain = 8
)

type handler struct {
	decider usher.Decider
	phase   usher.Phase
	maxBody int64
	timeout time.Duration
	log     *slog.Logger
}

func newHandler(d usher.Decider, phase usher.Phase, o Options) *handler {
	h := &handler{decider: d, phase: phase, maxBody: o.MaxBody, timeout: cmp.Or(o.Timeout, defaultTimeout), log: o.Log}
	if h.maxBody <= 0 {
		h.maxBody = defaultMaxBody
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	return h
}

// A refusal is an HTTP error: the request is not one that could be answered.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := h.deadline(r)
	defer cancel()
	room := rooms.Get().(*room)
	defer room.release()
	answer, err := h.serve(ctx, r, room)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Otherwise a long answer is sent in chunks.
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	// The caller is gone if this fails: nobody is left to be told.
	_, _ = w.Write(answer)
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	if refusal := (*refusal)(nil); errors.As(err, &refusal) {
		code = refusal.code
	}
	if code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	h.log.WarnContext(r.Context(), "request is not an admission review",
		"path", r.URL.Path, "remote", r.RemoteAddr, "code", code, "error", err)
	http.Error(w, err.Error(), code)
}

// serve returns the answer to one review, which lies in room.
func (h *handler) serve(ctx context.Context, r *http.Request, room *room) ([]byte, error) {
	if err := checkHeader(r); err != nil {
		return nil, err
	}
	body, complete, err := readBody(r.Body, r.ContentLength, h.maxBody)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "read body: %v", err)
	}
	if len(body) == 0 {
		return nil, refuse(http.StatusBadRequest, "body is empty: an AdmissionReview is wanted")
	}
	if !complete {
		return h.tooLarge(r, body, room)
	}
	review, err := decodeReview(body)
	if errors.Is(err, jsonscan.ErrTooDeep) && review.identified() {
		return h.deny(ctx, review, answer.Refusal(http.StatusBadRequest, err.Error()), room)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	review.request.Phase = h.phase
	return h.answer(ctx, review, room)
}

func checkHeader(r *http.Request) error {
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "method %s is not allowed: reviews are posted", r.Method)
	}
	if header := r.Header.Get("Content-Type"); !isJSON(header) {
		return refuse(http.StatusUnsupportedMediaType, "Content-Type is %q: application/json is wanted", header)
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return refuse(http.StatusUnsupportedMediaType, "Content-Encoding is %q: a body without encoding is wanted", encoding)
	}
	return nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// readBody returns the body, or its beginning if it is larger than limit. Length is what
// the caller says it is, or negative.
func readBody(r io.Reader, length, limit int64) (body []byte, complete bool, err error) {
	if length > limit {
		body, err = io.ReadAll(io.LimitReader(r, prefix))
		return body, false, err
	}
	// A caller can claim any length: large bodies only get their room as they come.
	buffer := make([]byte, 0, min(max(length+1, 512), 1<<20))
	for {
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > limit:
			return buffer[:min(len(buffer), prefix)], false, nil
		case err == io.EOF:
			return buffer, true, nil
		case err != nil:
			return nil, false, err
		case len(buffer) == cap(buffer):
			grown := make([]byte, len(buffer), min(2*int64(cap(buffer)), limit+1))
			copy(grown, buffer)
			buffer = grown
		}
	}
}

// tooLarge denies a review of which only the beginning is there. An HTTP error would let
// it pass under failurePolicy Ignore.
func (h *handler) tooLarge(r *http.Request, beginning []byte, room *room) ([]byte, error) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, drain*h.maxBody))
	review, _ := decodeReview(beginning)
	if !review.identified() {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body is larger than %d bytes", h.maxBody)
	}
	reason := fmt.Sprintf("admission review is larger than %d bytes", h.maxBody)
	return h.deny(r.Context(), review, answer.Refusal(http.StatusRequestEntityTooLarge, reason), room)
}

// answer decides a review and encodes the decision.
func (h *handler) answer(ctx context.Context, review *review, room *room) ([]byte, error) {
	decision, err := answer.Decide(ctx, h.decider, &review.request, h.log)
	if err != nil {
		return h.deny(ctx, review, answer.Undecided(err), room)
	}
	response, err := respond(&review.request, decision, room)
	if err != nil {
		return h.deny(ctx, review, answer.Undecided(err), room)
	}
	return encodeReview(review, response, room)
}

// deny answers a review that could not be decided.
func (h *handler) deny(ctx context.Context, review *review, status *metav1.Status, room *room) ([]byte, error) {
	h.log.ErrorContext(ctx, "review denied without a decision",
		"uid", review.request.UID, "phase", h.phase, "code", status.Code, "error", status.Message)
	return encodeReview(review, &admissionv1.AdmissionResponse{Result: status}, room)
}

// deadline returns the context of a decision: it ends a little before the caller loses
// patience.
func (h *handler) deadline(r *http.Request) (context.Context, func()) {
	if h.timeout < 0 {
		return r.Context(), func() {}
	}
	timeout := h.timeout
	if said := patience(r.URL); said > 0 {
		said = min(said, longestTimeout)
		timeout = said - min(said/10, longestReserve)
	}
	ctx := &deadline.Context{Context: r.Context(), At: time.Now().Add(timeout)}
	return ctx, ctx.Release
}

// patience returns how long the caller says that it waits, 0 if it does not say.
func patience(u *url.URL) time.Duration {
	// What an API server writes needs no parser.
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
