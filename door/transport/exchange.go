package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

// attempts is how often a write is retried after a conflict.
const attempts = 5

// An exchange is one request of a client and its response.
type exchange struct {
	*transport

	request  *http.Request
	target   target
	body     []byte
	warnings []string
}

// A denial is a response that does not come from a server.
type denial struct{ status metav1.Status }

func (d *denial) Error() string { return d.status.Message }

// A reply is a response of the server that is passed to the client unchanged.
type reply struct{ *http.Response }

func (reply) Error() string { return "the server has answered" }

// run decides the request and sends the result. The error is a connection error.
func (x *exchange) run() (*http.Response, error) {
	if x.target.verb != connect {
		if err := x.read(); err != nil {
			return x.end(err)
		}
	}
	response, err := x.write()
	if err != nil {
		return x.end(err)
	}
	return response, nil
}

func (x *exchange) write() (*http.Response, error) {
	switch x.target.verb {
	case create:
		return x.create()
	case update:
		return x.update()
	case patch:
		return x.patch()
	case remove:
		return x.remove()
	case removeCollection:
		return x.removeCollection()
	default:
		return x.connect()
	}
}

// read reads the body of the request, and closes it.
func (x *exchange) read() error {
	if x.request.Body == nil {
		return nil
	}
	defer x.request.Body.Close()
	limit := x.options.MaxBody
	body, err := io.ReadAll(io.LimitReader(x.request.Body, limit+1))
	if err != nil {
		return &broken{fmt.Errorf("read body: %w", err)}
	}
	if int64(len(body)) > limit {
		return &denial{metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
			Message: fmt.Sprintf("Request entity too large: limit is %d", limit),
		}}
	}
	x.body = body
	return nil
}

// A broken connection is an error that the failure policy does not cover.
type broken struct{ error }

func (b *broken) Unwrap() error { return b.error }

// end turns the reason why a request was not sent into a response.
func (x *exchange) end(err error) (*http.Response, error) {
	var said *denial
	var given reply
	var lost *broken
	switch {
	case errors.As(err, &said):
		if x.target.verb == connect && x.request.Body != nil {
			_ = x.request.Body.Close()
		}
		return x.respond(&said.status)
	case errors.As(err, &given):
		return given.Response, nil
	case errors.As(err, &lost):
		return nil, lost.error
	case x.request.Context().Err() != nil:
		return nil, context.Cause(x.request.Context())
	}
	if x.undecided(err) {
		response, err := x.pass()
		if errors.As(err, &lost) {
			return nil, lost.error
		}
		return response, err
	}
	return x.respond(&answer.Error(deniedBy(usher.Validate), answer.Undecided(err)).ErrStatus)
}

// undecided logs that there is no decision, and reports whether to ignore that.
func (x *exchange) undecided(reason error) bool {
	x.options.Log.ErrorContext(x.request.Context(), "no decision was reached", "method", x.request.Method,
		"path", x.request.URL.Path, "ignored", x.options.FailurePolicy == usher.Ignore, "error", reason)
	return x.options.FailurePolicy == usher.Ignore
}

// question is a request without objects.
func (x *exchange) question(operation usher.Operation, kind schema.GroupVersionKind, dryRun []string) *usher.Request {
	return &usher.Request{
		UID:         string(uuid.NewUUID()),
		Operation:   operation,
		Kind:        kind,
		Resource:    x.target.resource,
		Subresource: x.target.subresource,
		Name:        x.target.name,
		Namespace:   x.target.namespace,
		DryRun:      slices.Contains(dryRun, metav1.DryRunAll),
	}
}

// concerns reports whether the decider may cover an operation on a kind, for any user.
func (x *exchange) concerns(kind schema.GroupVersionKind, operations ...usher.Operation) bool {
	for _, operation := range operations {
		r := x.question(operation, kind, nil)
		for _, r.Phase = range []usher.Phase{usher.Mutate, usher.Validate} {
			if x.options.Covers(r) {
				return true
			}
		}
	}
	return false
}

// pass sends the client's request unchanged.
func (x *exchange) pass() (*http.Response, error) {
	return x.send(x.request.URL, x.request.Header, x.body)
}

// settle runs both phases: the object of r is then the changed one. It reports whether there was a
// change.
func (x *exchange) settle(r *usher.Request) (bool, error) {
	changed, err := x.mutate(r)
	if err != nil {
		return false, err
	}
	return changed, x.validate(r)
}

func (x *exchange) mutate(r *usher.Request) (bool, error) {
	d, asked, err := x.ask(usher.Mutate, r)
	if err != nil || !asked {
		return false, err
	}
	operations := answer.Patch(r, d)
	if len(operations) == 0 {
		return false, nil
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return false, err
	}
	tree, effective, err := jsonpatch.Apply(tree, operations)
	if err != nil {
		return false, x.failed(usher.Mutate, fmt.Errorf("apply patch: %w", err))
	}
	r.Object = usher.TreeObject(tree)
	return len(effective) > 0, nil
}

func (x *exchange) validate(r *usher.Request) error {
	_, _, err := x.ask(usher.Validate, r)
	return err
}

// ask calls the decider, if r is covered. The error is the denial.
func (x *exchange) ask(phase usher.Phase, r *usher.Request) (d usher.Decision, asked bool, err error) {
	r.Phase = phase
	if !x.options.Covers(r) {
		return d, false, nil
	}
	if r.User, err = x.user(); err != nil {
		return d, false, x.failed(phase, err)
	}
	if !x.options.Covers(r) {
		return d, false, nil
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), x.options.Timeout)
	defer cancel()
	q := *r
	if d, err = answer.Decide(ctx, x.decider, &q, x.options.Log); err != nil {
		return d, false, x.failed(phase, err)
	}
	for _, text := range answer.Warnings(d.Warnings) {
		if !slices.Contains(x.warnings, text) {
			x.warnings = append(x.warnings, text)
		}
	}
	status, err := answer.Denial(&q, d)
	if err != nil {
		return d, false, x.failed(phase, err)
	}
	if status != nil {
		return d, true, &denial{answer.Error(deniedBy(phase), status).ErrStatus}
	}
	return d, true, nil
}

// failed is the denial of a request without a decision, nil if that is ignored.
func (x *exchange) failed(phase usher.Phase, reason error) error {
	if x.request.Context().Err() != nil {
		return reason
	}
	if x.undecided(reason) {
		return nil
	}
	return &denial{answer.Error(deniedBy(phase), answer.Undecided(reason)).ErrStatus}
}

// deniedBy is the name of the webhook of a phase in messages of API servers.
func deniedBy(phase usher.Phase) string {
	return fmt.Sprintf("admission webhook %q", string(phase)+".usher.dev")
}

// send sends the client's request to a URL, with this header and body.
func (x *exchange) send(to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	request := x.request.Clone(x.request.Context())
	at := *to
	request.URL, request.Header = &at, header.Clone()
	if x.target.verb != connect {
		setBody(request, body)
	}
	response, err := x.next.RoundTrip(request)
	if err != nil {
		return nil, &broken{err}
	}
	return response, nil
}

// setBody sets a body that can be sent again.
func setBody(request *http.Request, body []byte) {
	request.ContentLength = int64(len(body))
	if len(body) == 0 {
		request.Body, request.GetBody = http.NoBody, nil
		return
	}
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	request.Body = io.NopCloser(bytes.NewReader(body))
}

// sendObject sends an object as JSON instead of the client's body.
func (x *exchange) sendObject(mediaType string, tree any) (*http.Response, error) {
	body, err := encode(tree)
	if err != nil {
		return nil, err
	}
	return x.send(x.request.URL, withType(x.request.Header, mediaType), body)
}

func withType(header http.Header, mediaType string) http.Header {
	header = header.Clone()
	header.Set("Content-Type", mediaType)
	return header
}
