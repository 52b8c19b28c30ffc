package conversion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/internal/envelope"
	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/limit"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/ratelog"
)

const (
	defaultMaxBody = 128 << 20
	// maxMessage is the longest reason for a failure, in bytes.
	maxMessage = 16 << 10
	// failuresAtOnce is how many different failures are logged at once; after that, one in failureInterval.
	failuresAtOnce  = 20
	failureInterval = 10 * time.Second
)

type handler struct {
	converter Converter
	maxBody   int64
	log       *slog.Logger
	// refused logs requests that are not reviews.
	refused *ratelog.Logger
	// failures limits how often different failures are logged: objects choose what they are.
	failures *rate.Limiter
	// lastError is the failure that was logged last, and when.
	lastError struct {
		sync.Mutex
		text string
		at   time.Time
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review, err := h.read(r)
	if err != nil {
		if code := envelope.Write(w, err); code != http.StatusTooManyRequests {
			h.refused.Warn(r.Context(), http.StatusText(code), "request is not a conversion review",
				"path", r.URL.Path, "remote", r.RemoteAddr, "code", code, "error", err)
		}
		return
	}
	objects, err := h.convertAll(r, review.Request)
	if err != nil {
		h.logFailure(r.Context(), review.Request, err)
	}
	answer, err := json.Marshal(review.answer(objects, err))
	if err != nil {
		h.log.ErrorContext(r.Context(), "encode ConversionReview", "uid", review.Request.UID, "error", err)
		http.Error(w, "encode ConversionReview: "+err.Error(), http.StatusInternalServerError)
		return
	}
	envelope.Send(w, answer)
}

// logFailure logs a failure. An API server that cannot fill its cache retries ten times a second
// until it can.
func (h *handler) logFailure(ctx context.Context, r *request, err error) {
	const often = time.Minute
	level, text := slog.LevelError, cut(err.Error())
	h.lastError.Lock()
	if text == h.lastError.text && time.Since(h.lastError.at) < often || !h.failures.Allow() {
		level = slog.LevelDebug
	} else {
		h.lastError.text, h.lastError.at = text, time.Now()
	}
	h.lastError.Unlock()
	h.log.Log(ctx, level, "conversion failed", "uid", r.UID, "to", r.DesiredAPIVersion, "error", text)
}

// read returns the review that was posted.
func (h *handler) read(r *http.Request) (*review, error) {
	if err := envelope.Check(r); err != nil {
		return nil, err
	}
	body, err := envelope.Read(r, h.maxBody, nil, "a "+kind)
	if err != nil {
		return nil, err
	}
	if err := pay(r, body); err != nil {
		return nil, envelope.Failure(err)
	}
	review, err := decodeReview(body)
	if err != nil {
		return nil, envelope.Refuse(http.StatusBadRequest, "%v", err)
	}
	return review, nil
}

// maxDepth is how deep encoding/json goes.
const maxDepth = 10000

// pay reserves the memory that decoding a review and its objects takes. It ignores errors in the
// JSON, which decoding finds.
func pay(r *http.Request, body []byte) error {
	// The objects are copied from it.
	failed := limit.Pay(r.Body, len(body))
	if failed != nil {
		return failed
	}
	_, _, _ = jsontree.Prescan(body, 0, maxDepth, func(weight int) error {
		failed = cmp.Or(r.Context().Err(), limit.Pay(r.Body, weight))
		return failed
	})
	return failed
}

// convertAll converts all objects, in order, or none.
func (h *handler) convertAll(asked *http.Request, r *request) ([]json.RawMessage, error) {
	ctx := asked.Context()
	converted := make([]json.RawMessage, 0, len(r.Objects))
	for i, raw := range r.Objects {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("objects[%d]: the caller does not wait any more: %w", i, err)
		}
		object, before, err := decodeObject(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if raw, err = h.convertOne(ctx, object, before, r.DesiredAPIVersion); err != nil {
			return nil, fmt.Errorf("%s: %w", before, err)
		}
		// It is copied into the answer.
		if err := limit.Pay(asked.Body, 2*len(raw)); err != nil {
			return nil, fmt.Errorf("%s: %w", before, err)
		}
		converted = append(converted, raw)
	}
	return converted, nil
}

func decodeObject(raw json.RawMessage) (*unstructured.Unstructured, identity, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, identity{}, fmt.Errorf("decode object: %w", err)
	}
	before, err := identityOf(object)
	return object, before, err
}

// convertOne converts object, and checks what an API server will check.
func (h *handler) convertOne(ctx context.Context, object *unstructured.Unstructured, before identity, to string) (json.RawMessage, error) {
	if err := h.convert(ctx, object, to); err != nil {
		return nil, err
	}
	after, err := identityOf(object)
	if err != nil {
		return nil, fmt.Errorf("the converter has spoilt the object: %w", err)
	}
	if before != after {
		return nil, fmt.Errorf("the converter has made it %s: the kind, name, namespace and uid of an object have to stay", after)
	}
	object.SetAPIVersion(to)
	converted, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	return converted, nil
}

// errPanic is what a caller learns about a panic; the log has the details.
var errPanic = errors.New("the converter panicked")

// convert calls the converter. A panic is an error; http.ErrAbortHandler is re-raised for the
// server, which closes the connection without a response.
func (h *handler) convert(ctx context.Context, object *unstructured.Unstructured, to string) (err error) {
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case http.ErrAbortHandler:
			panic(reason)
		default:
			if h.failures.Allow() {
				h.log.ErrorContext(ctx, "converter panicked", "to", to, "reason", cut(fmt.Sprint(reason)), "stack", string(debug.Stack()))
			}
			err = errPanic
		}
	}()
	return h.converter.Convert(ctx, object, to)
}

// An identity is what a conversion must preserve.
type identity struct{ kind, namespace, name, uid string }

func (i identity) String() string {
	name := i.name
	if i.namespace != "" {
		name = i.namespace + "/" + name
	}
	return strings.TrimSpace(i.kind + " " + name)
}

var errNoMetadata = errors.New("metadata is missing")

// identityOf returns the identity of an object that has metadata.
func identityOf(o *unstructured.Unstructured) (identity, error) {
	if _, ok := o.Object["metadata"].(map[string]any); !ok {
		return identity{}, errNoMetadata
	}
	return identity{kind: o.GetKind(), namespace: o.GetNamespace(), name: o.GetName(), uid: string(o.GetUID())}, nil
}

// cut returns text that others may show as it is, and that is not too long.
func cut(text string) string { return printable.Excerpt(text, maxMessage) }
