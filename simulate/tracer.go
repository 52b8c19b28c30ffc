package simulate

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// A hookName names a webhook.
type hookName struct{ configuration, webhook string }

type hookKey struct{}

// hookOf returns the webhook that a request is sent to.
func hookOf(ctx context.Context) hookName {
	name, _ := ctx.Value(hookKey{}).(hookName)
	return name
}

// A tracer learns which webhook a call is for: the dispatchers of the API server start a
// span for each, with the name as attributes. There is no other way to tell, since several
// webhooks can have one URL.
type tracer struct{ embedded.Tracer }

// A tracers is where tracers come from.
type tracers struct{ embedded.TracerProvider }

// withTracer returns a context in which the dispatchers use a tracer.
func withTracer(ctx context.Context) context.Context {
	return trace.ContextWithSpan(ctx, span{})
}

// Tracer implements [trace.TracerProvider].
func (tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{} }

// Start implements [trace.Tracer].
func (tracer) Start(ctx context.Context, _ string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	var name hookName
	config := trace.NewSpanStartConfig(options...)
	attributes := config.Attributes()
	set := attribute.NewSet(attributes...)
	if value, ok := set.Value("configuration"); ok {
		name.configuration = value.AsString()
	}
	if value, ok := set.Value("webhook"); ok {
		name.webhook = value.AsString()
		ctx = context.WithValue(ctx, hookKey{}, name)
	}
	return trace.ContextWithSpan(ctx, span{}), span{}
}

// A span records nothing.
type span struct{ noop.Span }

// TracerProvider implements [trace.Span].
func (span) TracerProvider() trace.TracerProvider { return tracers{} }
