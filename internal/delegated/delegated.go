// Package delegated is Usher's own HTTP API: resources that are not stored in the API server, but
// guarded like those that are. The API server of the cluster authenticates and authorizes callers:
// TokenReview for bearer tokens, the cluster's CA for client certificates, SubjectAccessReview for
// rights. So operators grant access with RBAC, and there are no users, passwords or roles of
// Usher's own.
//
// The resources belong to the API group usher.dev and to a namespace each. Their handlers see
// only requests that are allowed, and read from [RequestOf] what was allowed. Every handler
// has to pass delegatedtest.Run.
//
// If the API server does not answer, nobody is let in.
package delegated

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/usher-dev/usher/internal/limit"
)

const (
	// Group is the API group of the resources.
	Group = "usher.dev"
	// Root is the path below which everything is.
	Root = "/usher/v1"
)

// The resources. What grants access to them is in the chart.
const (
	// Decisions are the recent decisions: requests, and the outcomes of policies.
	Decisions = "decisions"
	// CandidateDecisions are recent decisions of policy candidates that differ from those of the policies in force.
	CandidateDecisions = "candidatedecisions"
	// AuditResults are what policies say of objects that exist.
	AuditResults = "auditresults"
	// Recordings are requests as they came, with the objects that users wrote.
	Recordings = "recordings"
)

// Resources are all resources.
func Resources() []string { return []string{Decisions, CandidateDecisions, AuditResults, Recordings} }

// Verbs are the verbs of every resource.
func Verbs() []string { return []string{"get", "list", "watch"} }

const (
	// defaultTTL is how long an answer of the API server is used again, as in extension API
	// servers: so long does a right outlive its revocation.
	defaultTTL = 10 * time.Second
	// reviewTimeout bounds the questions to the API server about one request.
	reviewTimeout = 10 * time.Second
	// requestTimeout limits a request. A watch is authorized once, so it has to start again every
	// few minutes.
	requestTimeout    = 30 * time.Second
	defaultMaxWatch   = 5 * time.Minute
	defaultInFlight   = 64
	memoryOfOneCaller = 128 << 10
)

// Options configure an [API].
type Options struct {
	// Client is the client of the API server. Its rate limit bounds the load that callers can
	// cause: share it with nothing else.
	Client kubernetes.Interface
	// Audiences are the accepted audiences of tokens, such as "usher.dev".
	Audiences []string
	// Handlers serve the resources. Without one requests get 404, after authorization.
	Handlers map[string]http.Handler

	// TTL is how long an answer of the API server is used again; 0 means 10 s.
	TTL time.Duration
	// MaxWatch is how long a watch may last; 0 means 5 minutes.
	MaxWatch time.Duration
	// MaxInFlight is how many requests are served at the same time; 0 means 64. No user has more than
	// a quarter of them.
	MaxInFlight int

	// Answered, which may be nil, is called for each response. The resource is "access" for
	// requests about the caller's own rights, and empty, like the verb, for any other path.
	Answered func(resource, verb string, code int)
	// Refused, which may be nil, is called for each request with no or wrong credentials.
	Refused func(Reason)
	// Log is slog.Default if nil.
	Log *slog.Logger
}

// A Reason is why a caller is not known. It is the label of a metric.
type Reason string

// The reasons.
const (
	NoCredentials    Reason = "no_credentials"
	WrongCredentials Reason = "wrong_credentials"
)

// Reasons are all reasons.
func Reasons() []Reason { return []Reason{NoCredentials, WrongCredentials} }

// An API is a handler for everything below [Root].
type API struct {
	*reviewer

	ca      *dynamiccertificates.ConfigMapCAController
	limited http.Handler
	slots   slots
}

// New returns an API. It does not call the API server yet.
func New(o Options) (*API, error) {
	o = o.withDefaults()
	o.MaxWatch, o.MaxInFlight = cmp.Or(o.MaxWatch, defaultMaxWatch), cmp.Or(o.MaxInFlight, defaultInFlight)
	if len(o.Audiences) == 0 {
		return nil, errors.New("no audiences: any token of the cluster would be accepted")
	}
	ca, err := clientCA(o.Client)
	if err != nil {
		return nil, fmt.Errorf("watch client CA: %w", err)
	}
	a := &API{ca: ca, slots: slots{most: max(o.MaxInFlight/4, 1)}}
	if a.reviewer, err = newReviewer(o, ca); err != nil {
		return nil, err
	}
	limits := limit.New(limit.Options{Slots: o.MaxInFlight, Bytes: int64(o.MaxInFlight) * memoryOfOneCaller, Log: o.Log})
	a.limited = limits.Handler(http.HandlerFunc(a.answer))
	return a, nil
}

func (o Options) withDefaults() Options {
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Run keeps the CA of client certificates current until ctx is done.
func (a *API) Run(ctx context.Context) error {
	a.ca.Run(ctx, 1)
	return nil
}

// ConfigureTLS makes a server request client certificates. They are verified with each request, by
// the CA of that time.
func (a *API) ConfigureTLS(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ClientAuth = tls.RequestClientCert
	return c
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.limited.ServeHTTP(w, r) }

// answer responds to a request, and counts it.
func (a *API) answer(w http.ResponseWriter, r *http.Request) {
	counted := &response{ResponseWriter: w, code: http.StatusOK}
	if r.ContentLength != 0 {
		// Otherwise the server would read the rest of the body.
		counted.Header().Set("Connection", "close")
	}
	counted.Header().Set("Cache-Control", "no-store")
	counted.Header().Set("X-Content-Type-Options", "nosniff")
	writeUntil(w, reviewTimeout+requestTimeout)
	request, err := parse(r)
	if err == nil {
		err = a.serve(counted, r, request)
	}
	if err != nil {
		WriteStatus(counted, err)
	}
	if a.options.Answered != nil {
		a.options.Answered(request.label(), request.Verb, counted.code)
	}
}

func (a *API) serve(w http.ResponseWriter, r *http.Request, request Request) error {
	if err := enter(r); err != nil {
		return err
	}
	// A caller who goes away keeps the slot until the API server has answered: otherwise any
	// number of questions could be under way.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reviewTimeout)
	defer cancel()
	var err error
	if request.User, err = a.authenticate(ctx, r); err != nil {
		return err
	}
	give, err := a.slots.take(Owner(request.User))
	if err != nil {
		return err
	}
	defer give()
	if request.Resource == "" {
		return a.access(ctx, w, request)
	}
	if err := a.authorize(ctx, request); err != nil {
		return err
	}
	handler := a.options.Handlers[request.Resource]
	if handler == nil {
		return notFound("this version of Usher does not serve %s", request.Resource)
	}
	longest := requestTimeout
	if request.Verb == "watch" {
		longest = a.options.MaxWatch
	}
	handled, done := context.WithTimeout(r.Context(), longest)
	defer done()
	writeUntil(w, longest)
	handler.ServeHTTP(w, withRequest(handled, r, request))
	return nil
}

// writeUntil ends the connection of a client that has not received the response by then. It also
// replaces what the request before left on the connection.
func writeUntil(w http.ResponseWriter, timeout time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
}

// enter waits for a slot. There is nothing to say in a body.
func enter(r *http.Request) error {
	n, err := io.ReadFull(r.Body, make([]byte, 1))
	switch {
	case n > 0:
		return apierrors.NewBadRequest("the request has a body: parameters belong into the URL")
	case errors.Is(err, io.EOF):
		return nil
	}
	return apierrors.NewTooManyRequests("too many requests: try again later", 1)
}

// authorize returns the status for a request that is not allowed.
func (a *API) authorize(ctx context.Context, request Request) error {
	allowed, reason, err := a.allowed(ctx, request.attributes())
	if err != nil || allowed {
		return err
	}
	return forbidden(request, reason)
}
