// Package spans records what a server does as OpenTelemetry spans, and sends them over OTLP to a collector.
//
// Spans name policies, kinds, namespaces and outcomes. They have no text of objects, of users or of errors,
// which repeat what is in objects: everybody who may read traces may read all of them.
package spans

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/component-base/tracing"

	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/ratelog"
)

const (
	// mostSpans limits the spans of one request, or one object of an audit, below the first.
	mostSpans = 64
	// longestText limits attributes, in bytes. Names of Kubernetes are shorter.
	longestText = 256
	// endTime is how long the last spans may take to be sent.
	endTime = 2 * time.Second
)

// Names of spans.
const (
	reviewSpan = "review"
	decideSpan = "decide"
	ruleSpan   = "rule"
	factSpan   = "fact"
	workerSpan = "worker"
	auditSpan  = "audit"
)

// An Identity names a server among those that send spans.
type Identity struct {
	// Version is that of the program, Instance the name of this replica.
	Version, Instance string
}

// Tracing makes spans of what its functions wrap. A nil Tracing makes none, and wraps nothing: what it gets
// is what it returns.
type Tracing struct {
	provider tracing.TracerProvider
	tracer   trace.Tracer
}

// New returns what makes spans. It does not wait for the collector: if there is none, spans are dropped, and
// requests are not delayed. Call End when nothing makes spans any more. The errors of sending are logged, for
// the whole process.
func New(ctx context.Context, c *Config, id Identity, log *slog.Logger) (*Tracing, error) {
	if c == nil {
		return nil, nil
	}
	errors := ratelog.New(log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		errors.Warn(context.Background(), "export", "spans cannot be sent", "error", printable.Excerpt(err.Error(), longestText))
	}))
	// The exporter goes on when ctx is done.
	provider, err := tracing.NewProvider(context.WithoutCancel(ctx), c, nil, []resource.Option{resource.WithAttributes(
		attribute.String("service.name", "usher"),
		attribute.String("service.version", clean(id.Version)),
		attribute.String("service.instance.id", clean(id.Instance)),
	)})
	if err != nil {
		return nil, fmt.Errorf("send spans: %w", err)
	}
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/usher-dev/usher")}, nil
}

// End sends the last spans, and stops sending.
func (t *Tracing) End() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	// Its error is one of sending, which is logged.
	_ = t.provider.Shutdown(ctx)
}

// Handler records the requests that next handles. The trace of the caller goes on, and it is sampled as the
// caller says, if the caller is known to be an API server; others could have every request sampled, and add to
// traces that are not theirs: their requests begin a trace of their own.
func (t *Tracing) Handler(door string, known bool, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if known {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, reviewSpan, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		r = r.WithContext(withBudget(ctx))
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		said := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(said, r)
		span.SetAttributes(attribute.String("usher.door", door), attribute.Int("http.response.status_code", said.code))
		if said.code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "no review was answered")
		}
	})
}

// A status is a response whose status is remembered.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements [http.ResponseWriter].
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

type budgetKey struct{}

// withBudget returns a context for what may have so many spans.
func withBudget(ctx context.Context) context.Context {
	left := new(atomic.Int32)
	left.Store(mostSpans)
	return context.WithValue(ctx, budgetKey{}, left)
}

// begin begins a span below that of ctx at a time, zero for now. It returns false if nothing is recorded, or
// enough was.
func (t *Tracing) begin(ctx context.Context, name string, at time.Time) (context.Context, trace.Span, bool) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil, false
	}
	left, limited := ctx.Value(budgetKey{}).(*atomic.Int32)
	if !limited || left.Add(-1) < 0 {
		return ctx, nil, false
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithTimestamp(at)) //nolint:spancheck // The caller ends it.
	return ctx, span, true                                          //nolint:spancheck // The caller ends it.
}

// leftOut returns how many spans there would have been in addition.
func leftOut(ctx context.Context) int {
	left, _ := ctx.Value(budgetKey{}).(*atomic.Int32)
	if left == nil {
		return 0
	}
	return max(0, -int(left.Load()))
}

// clean returns a name as it can be sent: text that is not UTF-8 would have all spans of a message dropped.
func clean(name string) string { return printable.Cut(printable.Blank(name), longestText) }

// text returns an attribute, none if the value is empty.
func text(to []attribute.KeyValue, key, value string) []attribute.KeyValue {
	if value == "" {
		return to
	}
	return append(to, attribute.String(key, clean(value)))
}
