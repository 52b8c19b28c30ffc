package spans_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/observe/spans"
	"github.com/usher-dev/usher/internal/observe/spans/spanstest"
)

// all samples every request.
const all = 1_000_000

func begin(t *testing.T, rate int32) (*spans.Tracing, *spanstest.Collector) {
	t.Helper()
	c := spanstest.Start(t)
	return to(t, c.Address, rate, slog.New(slog.DiscardHandler)), c
}

func to(t *testing.T, endpoint string, rate int32, log *slog.Logger) *spans.Tracing {
	t.Helper()
	tracing, err := spans.New(t.Context(), &spans.Config{Endpoint: &endpoint, SamplingRatePerMillion: &rate}, spans.Identity{Version: "v1.2.3", Instance: "usher-0"}, log)
	if err != nil {
		t.Fatal(err)
	}
	return tracing
}

// secret is what no span may contain.
const secret = "s3cret"

var denied = &usher.Request{
	UID: "u-1", Phase: usher.Validate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop",
	Name: secret, User: usher.User{Name: secret}, Object: usher.RawObject([]byte(`{"data":{"a":"` + secret + `"}}`)),
}

// deny denies, with everything that a decision can repeat of an object, and takes the steps that have spans.
func deny(tracing *spans.Tracing) usher.Decider {
	facts := tracing.Facts(fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return nil, errors.New(secret) }))
	return usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		_, _ = facts.Resolve(fact.ForTenant(ctx, "shop"), &fact.HTTP{URL: "https://cmdb.example/" + secret})
		_, _ = facts.Resolve(ctx, &fact.Object{APIVersion: "v1", Kind: secret, Namespace: secret, Name: secret})
		tracing.Job()(ctx, "cue", "shop")(errors.New(secret))
		d := usher.Denied(secret)
		d.Findings = []usher.Finding{
			{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "labels"}, Rule: "spec.validations[0]", Outcome: usher.Rejected, Message: secret, Took: 5 * time.Millisecond},
			{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "broken"}, Rule: "spec.validations[0]", Outcome: usher.Failed, Err: errors.New(secret)},
			{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "quick"}, Rule: "spec.validations[0]", Outcome: usher.Passed, Took: 5 * time.Microsecond},
		}
		for i := range d.Findings {
			tracing.Rule()(ctx, &d.Findings[i], time.Now())
		}
		return d, nil
	})
}

// request sends one with a header to a handler that decides.
func request(t *testing.T, tracing *spans.Tracing, known bool, traceparent string, r *usher.Request) {
	t.Helper()
	decider := tracing.Decider(deny(tracing))
	handler := tracing.Handler("admission", known, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if _, err := decider.Decide(q.Context(), r); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusOK)
	}))
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate-"+secret, http.NoBody)
	q.Header.Set("Traceparent", traceparent)
	q.Header.Set("Baggage", "a="+secret)
	handler.ServeHTTP(httptest.NewRecorder(), q)
}

const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	sampled     = "00-" + callerTrace + "-b7ad6b7169203331-01"
	unsampled   = "00-" + callerTrace + "-b7ad6b7169203331-00"
)

// A review of an API server that traces belongs to the trace of the API server.
func TestReview(t *testing.T) {
	t.Parallel()
	tracing, collected := begin(t, 0)
	request(t, tracing, true, sampled, denied)
	tracing.End()
	review := one(t, collected, "review")
	if got := hex.EncodeToString(review.GetTraceId()); got != callerTrace {
		t.Errorf("it belongs to the trace %s", got)
	}
	decide := one(t, collected, "decide")
	if !bytes.Equal(decide.GetParentSpanId(), review.GetSpanId()) {
		t.Error("the decision is not part of the review")
	}
	want := map[string]string{
		"usher.uid": "u-1", "usher.phase": "validate", "usher.operation": "CREATE", "k8s.kind": "ConfigMap", "k8s.version": "v1", "k8s.namespace.name": "shop",
		"usher.verdict": "deny", "usher.rules": "int_value:3", "usher.dry_run": "bool_value:false",
	}
	for key, value := range want {
		if got := decide.Attributes[key]; got != value {
			t.Errorf("%s is %q: expected %q", key, got, value)
		}
	}
	for key, policy := range map[string]string{"usher.policies.rejected": "ObjectPolicy shop/labels", "usher.policies.failed": "ClusterObjectPolicy broken"} {
		if !strings.Contains(decide.Attributes[key], policy) {
			t.Errorf("%s is %q: expected %q", key, decide.Attributes[key], policy)
		}
	}
	var rules []string
	for _, s := range collected.Spans("rule") {
		rules = append(rules, s.Attributes["usher.policy.name"]+" "+s.Attributes["usher.outcome"])
		if took := time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano()); s.Attributes["usher.policy.name"] == "labels" && took != 5*time.Millisecond {
			t.Errorf("the rule took %s", took)
		}
	}
	slices.Sort(rules)
	if diff := cmp.Diff([]string{"broken failed", "labels rejected"}, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	var facts []string
	for _, s := range collected.Spans("fact") {
		facts = append(facts, s.Attributes["usher.fact.sort"]+" "+s.Attributes["usher.tenant"])
		if s.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR {
			t.Error("a fact that was not resolved has no error")
		}
	}
	slices.Sort(facts)
	if diff := cmp.Diff([]string{"http shop", "object "}, facts); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if job := one(t, collected, "worker"); job.Attributes["usher.worker.job"] != "cue" {
		t.Errorf("job %v", job.Attributes)
	}
	sender := map[string]string{"service.name": "usher", "service.version": "v1.2.3", "service.instance.id": "usher-0"}
	if diff := cmp.Diff([]map[string]string{sender}, collected.Resources()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// Nothing of an object, a user, an error, a path or what a policy asks for leaves the cluster.
func TestNothingOfObjects(t *testing.T) {
	t.Parallel()
	tracing, collected := begin(t, all)
	request(t, tracing, true, sampled, denied)
	ctx, did := tracing.Audit()(t.Context(), "configmaps/v1")
	_, _ = tracing.Decider(deny(tracing)).Decide(ctx, denied)
	did(errors.New(secret))
	tracing.End()
	received := collected.Spans("")
	if len(received) < 10 {
		t.Errorf("%d spans", len(received))
	}
	for _, s := range received {
		if text := s.String(); strings.Contains(text, secret) {
			t.Error(text)
		}
	}
}

// Who is sampled: what a caller says counts if that is an API server.
func TestSampling(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason      string
		rate        int32
		known       bool
		traceparent string
		want        bool
	}{
		{"the API server samples", 0, true, sampled, true},
		{"the API server does not sample", all, true, unsampled, false},
		{"the API server has no traces", all, true, "", true},
		{"nobody samples", 0, true, "", false},
		{"a caller that nobody knows samples", 0, false, sampled, false},
		{"a caller that nobody knows does not sample", all, false, unsampled, true},
		{"it is no context of a trace", 0, true, "00-" + secret + "-01", false},
	}
	for _, tt := range tests {
		tracing, collected := begin(t, tt.rate)
		request(t, tracing, tt.known, tt.traceparent, denied)
		tracing.End()
		reviews := collected.Spans("review")
		if len(reviews) == 1 != tt.want {
			t.Errorf("%s: %d reviews, expected %v", tt.reason, len(reviews), tt.want)
		}
		for _, s := range reviews {
			if own := hex.EncodeToString(s.GetTraceId()) != callerTrace; own == tt.known && tt.traceparent != "" {
				t.Errorf("%s: it belongs to the trace %x", tt.reason, s.GetTraceId())
			}
		}
	}
}

// Names that cannot be sent do not prevent others from being sent, and are short.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	tracing, collected := begin(t, all)
	hostile := *denied
	hostile.Namespace, hostile.UID = "\xff\x00\u202e", strings.Repeat("ü", 1<<20)
	request(t, tracing, true, "", &hostile)
	request(t, tracing, true, "", denied)
	tracing.End()
	if n := len(collected.Spans("decide")); n != 2 {
		t.Errorf("%d decisions", n)
	}
	for _, s := range collected.Spans("") {
		if len(s.String()) > 4096 {
			t.Errorf("a span of %d bytes", len(s.String()))
		}
	}
}

// A request has so many spans at most, however much policies ask for.
func TestManySpans(t *testing.T) {
	t.Parallel()
	tracing, collected := begin(t, all)
	ctx, did := tracing.Audit()(t.Context(), "pods/v1")
	d := tracing.Decider(usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		for range 1000 {
			tracing.Rule()(ctx, &usher.Finding{Outcome: usher.Failed}, time.Now())
		}
		return usher.Allowed(), nil
	}))
	if _, err := d.Decide(ctx, denied); err != nil {
		t.Error(err)
	}
	did(nil)
	tracing.End()
	if n := len(collected.Spans("")); n > 65 {
		t.Errorf("%d spans", n)
	}
	if got := one(t, collected, "decide").Attributes["usher.spans.left_out"]; got != "int_value:937" {
		t.Errorf("left out: %s", got)
	}
}

// Without a collector, requests are handled, more than are kept, and the server ends.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	tracing := to(t, "127.0.0.1:1", all, slog.New(slog.DiscardHandler))
	for range 5000 {
		request(t, tracing, true, "", denied)
	}
	tracing.End()
}

// Off means off: nothing is wrapped, so that it takes neither time nor memory.
func TestOff(t *testing.T) {
	t.Parallel()
	off, err := spans.New(t.Context(), nil, spans.Identity{}, nil)
	if off != nil || err != nil {
		t.Fatalf("%v, %v", off, err)
	}
	handler := http.NewServeMux()
	if off.Handler("admission", true, handler) != http.Handler(handler) || off.Rule() != nil || off.Job() != nil || off.Audit() != nil || off.Facts(nil) != nil || off.Decider(nil) != nil {
		t.Error("something is wrapped")
	}
	off.End()
}

// What is not sampled costs nothing below the review.
func TestNotSampledAllocates(t *testing.T) {
	tracing, _ := begin(t, 0)
	defer tracing.End()
	decider := tracing.Decider(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil }))
	facts := tracing.Facts(fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return nil, nil }))
	ran, job := tracing.Rule(), tracing.Job()
	slow := &usher.Finding{Outcome: usher.Failed}
	ref := &fact.HTTP{}
	if allocs := testing.AllocsPerRun(100, func() {
		_, _ = decider.Decide(t.Context(), denied)
		_, _ = facts.Resolve(t.Context(), ref)
		ran(t.Context(), slow, time.Time{})
		job(t.Context(), "cue", "")(nil)
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason, text, want string
	}{
		{"all fields", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: collector.monitoring:4317\nsamplingRatePerMillion: 100\n", ""},
		{"an earlier version", "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n", ""},
		{"another kind", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuditConfiguration\n", "expected a TracingConfiguration"},
		{"another version", "apiVersion: apiserver.config.k8s.io/v9\nkind: TracingConfiguration\n", "expected a TracingConfiguration"},
		{"nothing", "", "expected a TracingConfiguration"},
		{"a slip", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRate: 1\n", `unknown field "samplingRate"`},
		{"too often", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000001\n", "less than or equal to one million"},
		{"less than never", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: -1\n", "must be positive"},
		{"a URL", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: https://collector:4317\n", "unsupported scheme"},
		{"an empty address", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: ''\n", "endpoint is empty"},
		{"too large", strings.Repeat("#", 1<<20), "larger than"},
		{"aliases", "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*e,*e,*e,*e,*e,*e]\n", "tracing configuration"},
	}
	for _, tt := range tests {
		file := filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := spans.Load(file)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, expected %q", tt.reason, err, tt.want)
		}
	}
	if _, err := spans.Load(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// one returns the only span with a name.
func one(t *testing.T, c *spanstest.Collector, name string) spanstest.Span {
	t.Helper()
	named := c.Spans(name)
	if len(named) != 1 {
		t.Fatalf("%d spans %s", len(named), name)
	}
	return named[0]
}
