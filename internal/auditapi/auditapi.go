// Package auditapi serves the results of the audit of a cluster, and has the form in which clients
// read them. Who may read which namespace is not its business: see package delegated.
package auditapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/delegated"
)

// A List is one page of results: those of one namespace, or of the cluster.
type List struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Metadata has the parameter continue of the request for the next page; it is empty on the last
	// one. A page can be empty and not be the last one.
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []result.Result `json:"items"`
	// Summary counts all results of the namespaces that end on this page, also those that filters
	// leave out: the sum over all pages is that of the list. If a namespace has more results than the
	// audit lists, they are counted only.
	Summary result.Summary `json:"summary"`
	// Policies are the parts of Summary that are of policies: those with results that the parameter
	// policy selects, sorted. Other parameters do not filter them.
	Policies []result.PolicySummary `json:"policies,omitempty"`
	// Kinds are on the first page. Callers who see one namespace are not told how many objects the
	// cluster has, nor why they cannot be read.
	Kinds []result.KindStatus `json:"kinds,omitempty"`
}

const (
	// defaultLimit and maxLimit are how many results a page has at most.
	defaultLimit, maxLimit = 500, 1000
	// maxBytes ends a page: it stays in memory until the client has read it.
	maxBytes = 64 << 10
	// policyBytes is about how long the counts of a policy are as JSON.
	policyBytes = 150
	// maxRead ends a page for which filters select little: others wait for their turn.
	maxRead = 20_000
	// writeTimeout is how long a client may take to read a page.
	writeTimeout = 10 * time.Second
)

// Options configure a [Handler].
type Options struct {
	// Reader returns the results; nil while another replica audits the cluster. If the function is
	// nil, the audit is off.
	Reader func() result.Reader
	// Leader, which may be nil, returns the name of the replica that audits; empty if it is not known.
	Leader func() string
}

// A Handler serves lists. It is for the resource [delegated.AuditResults].
type Handler struct {
	options Options
	// turn is held while a page is made: the results of a namespace are then in memory, once for
	// all callers.
	turn chan struct{}
}

// New returns a handler.
func New(o Options) *Handler { return &Handler{options: o, turn: make(chan struct{}, 1)} }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, ok := delegated.RequestOf(r.Context())
	if !ok {
		http.Error(w, "the caller is not known", http.StatusForbidden)
		return
	}
	body, err := h.answer(r, request)
	if err != nil {
		delegated.WriteStatus(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	// Without deadlines the request ends with that of the API.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	// If this fails, the client has disconnected.
	_, _ = w.Write(body) //nolint:gosec // It is JSON, and no sniffing is allowed.
}

func (h *Handler) answer(r *http.Request, request delegated.Request) ([]byte, error) {
	switch {
	case request.Name != "":
		return nil, notFound("results have no names: list them")
	case request.Verb == "watch":
		return nil, notFound("results cannot be watched: list them")
	}
	query, err := parseQuery(r.URL.Query())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	reader, err := h.reader()
	if err != nil {
		return nil, err
	}
	if err := h.wait(r.Context()); err != nil {
		return nil, err
	}
	defer func() { <-h.turn }()
	p := page{reader: reader, query: query, namespace: request.Namespace}
	if err := p.fill(r.Context()); err != nil {
		return nil, err
	}
	return p.encode()
}

// reader returns the results, or the status for a replica without them.
func (h *Handler) reader() (result.Reader, error) {
	if h.options.Reader == nil {
		return nil, notFound("the audit is off: start Usher with --audit (value audit.enabled of the chart)")
	}
	if reader := h.options.Reader(); reader != nil {
		return reader, nil
	}
	leader := ""
	if h.options.Leader != nil {
		leader = h.options.Leader()
	}
	text, details := "another replica audits the cluster: ask that one", &metav1.StatusDetails{RetryAfterSeconds: 1}
	if leader != "" {
		text, details.Kind, details.Name = "replica "+leader+" audits the cluster: ask that one; if it has ended, another one takes over within 20 s", "Pod", leader
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: text, Details: details,
	}}
}

// wait waits until no other page is made.
func (h *Handler) wait(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return apierrors.NewTooManyRequests("others read results: try again", 1)
	}
}

func notFound(text string) error {
	err := apierrors.NewNotFound(schema.GroupResource{Group: delegated.Group, Resource: delegated.AuditResults}, "")
	err.ErrStatus.Message = text
	return err
}

// encode returns the page as JSON.
func (p *page) encode() ([]byte, error) {
	list := List{APIVersion: delegated.Group + "/v1", Kind: "AuditResultList", Items: p.items, Summary: p.counts.Total(), Policies: p.policies(), Kinds: p.kinds}
	list.Metadata.Continue = p.next.String()
	body, err := json.Marshal(list)
	return append(body, '\n'), err
}
