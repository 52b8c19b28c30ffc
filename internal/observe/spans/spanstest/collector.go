// Package spanstest has a collector of spans for tests.
package spanstest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// A Collector receives spans over OTLP/gRPC.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	// Address is its host and port.
	Address string

	mu    sync.Mutex
	spans []*otlp.Span
	// resources are the attributes of those that sent them.
	resources []map[string]string
}

// Start starts a collector, which runs until the test ends.
func Start(t testing.TB) *Collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Address: listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// Export implements [collector.TraceServiceServer].
func (c *Collector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sent := range r.GetResourceSpans() {
		c.resources = append(c.resources, attributes(sent.GetResource().GetAttributes()))
		for _, scope := range sent.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// A Span is one as it was received, with its attributes as text.
type Span struct {
	*otlp.Span

	Attributes map[string]string
}

// Spans returns those with a name that were received so far; all if it is empty.
func (c *Collector) Spans(name string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var named []Span
	for _, s := range c.spans {
		if name == "" || s.GetName() == name {
			named = append(named, Span{s, attributes(s.GetAttributes())})
		}
	}
	return named
}

// Resources returns the attributes of those that sent spans so far.
func (c *Collector) Resources() []map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.resources)
}

func attributes(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		if text, ok := a.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
			texts[a.GetKey()] = text.StringValue
			continue
		}
		texts[a.GetKey()] = a.GetValue().String()
	}
	return texts
}
