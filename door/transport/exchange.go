package transport

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
)

// attempts is how often a write is retried after a conflict.
const attempts = 5

// An exchange is one request of a client and its response: what is asked, what the decider says, and what the
// server then gets.
type exchange struct{ review }

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
