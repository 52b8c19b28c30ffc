// Package transport is the door in a client: it decides the writes of a client of client-go before
// they leave the process.
//
//	config, err = transport.Wrap(config, policies, transport.Options{Covers: policies.Covers})
//	client, err := kubernetes.NewForConfig(config)
//
// The policies are those of [github.com/usher-dev/usher/live.New]. Without Covers every write is decided, and what it
// changes is read first; that is for deciders in Go that decide about everything.
//
// Objects that are created or updated are changed as the decider says; what it denies is not sent,
// and the client gets the error that an API server with a webhook returns. Reads and watches are
// not touched.
//
// What is decided is what happens: a patch is decided by its result, and sent on condition that the
// object has not changed. The same holds for updates and deletions. Only the creation of an object
// by PUT or apply cannot be conditional.
//
// An object is decided as the client wrote it, without the defaults of an API server. A client can
// bypass this door: to enforce policies, enforce them in the API server. Both together do no harm
// if the policies are idempotent, as they must be anyway: API servers run them more than once.
package transport

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
)

// Options configure a transport. The zero value works.
type Options struct {
	// Covers reports whether the decider decides a request; nil means all writes. It is called without
	// objects and user first, and then with them. Before what a patch changes or a deletion deletes is read, the
	// kind may be missing, too: it is known then only of resources with a type in Scheme. What is not covered is
	// sent without a read.
	Covers func(*usher.Request) bool
	// FailurePolicy applies if the decider fails, if the object to change cannot be read, and to
	// bodies that cannot be decoded: protobuf of types that Scheme does not have. Ignore sends these
	// requests unchanged.
	FailurePolicy usher.FailurePolicy
	// User is the user of the client, nobody if it is empty; if it is nil, the API server is asked once a minute.
	User *usher.User
	// Timeout is how long a decision may take; 0 means 10 seconds. It ends with the request.
	Timeout time.Duration
	// MaxBody is the largest body that is decided, in bytes; 0 means 3 MiB, which is what API
	// servers accept.
	MaxBody int64
	// Scheme knows the types of protobuf bodies and strategic merge patches; nil means that of
	// client-go. It is not changed.
	Scheme *runtime.Scheme
	// Log receives errors; nil means slog.Default.
	Log *slog.Logger
}

const (
	defaultTimeout = 10 * time.Second
	defaultMaxBody = 3 << 20
)

// shared is what all clients of one configuration have in common.
type shared struct {
	decider usher.Decider
	options Options
	codecs  serializer.CodecFactory
	// prefix is the path of the server, before /api.
	prefix string
	// direct sends requests that are not decided.
	direct http.RoundTripper

	mu    sync.Mutex
	users map[string]knownUser
}

// Wrap returns a copy of config whose clients send their writes to d first. Wrap last: the config
// must already have the server and the credentials. Copies of the result may differ from it in
// impersonation.
func Wrap(config *rest.Config, d usher.Decider, o Options) (*rest.Config, error) {
	switch {
	case config == nil || d == nil:
		return nil, errors.New("wrap transport: it needs a configuration and a decider")
	case o.FailurePolicy != "" && o.FailurePolicy != usher.Fail && o.FailurePolicy != usher.Ignore:
		return nil, fmt.Errorf("wrap transport: FailurePolicy is %q: write Fail or Ignore", o.FailurePolicy)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	if o.Covers == nil {
		o.Covers = func(*usher.Request) bool { return true }
	}
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("wrap transport: %w", err)
	}
	direct, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("wrap transport: %w", err)
	}
	s := &shared{
		decider: d, options: o, codecs: serializer.NewCodecFactory(o.Scheme), direct: direct,
		prefix: strings.TrimSuffix(server.Path, "/"), users: map[string]knownUser{},
	}
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{shared: s, next: next} })
	return wrapped, nil
}

// A transport is the one of one client.
type transport struct {
	*shared

	next http.RoundTripper
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	target, ok := parse(request, t.prefix)
	if !ok {
		return t.next.RoundTrip(request)
	}
	x := &exchange{review{server: server{asked{transport: t, request: request, target: target}}}}
	response, err := x.run()
	if err != nil {
		return nil, err
	}
	x.warn(response)
	return response, nil
}
