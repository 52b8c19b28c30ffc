package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/observe/metrics"
)

var (
	team  = usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "require-team"}
	label = usher.PolicyRef{Kind: "OverridePolicy", Namespace: "shop", Name: "add-label"}
)

func decide(t *testing.T, m *metrics.Metrics, phase usher.Phase, decision usher.Decision, err error) {
	t.Helper()
	d := m.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return decision, err }), "admission")
	got, gotErr := d.Decide(context.Background(), &usher.Request{Phase: phase})
	if diff := cmp.Diff(decision, got); diff != "" || !errors.Is(gotErr, err) {
		t.Errorf("the decision has changed: %v, %s", gotErr, diff)
	}
}

// compare compares the metrics of these names with a text in the format of Prometheus.
func compare(t *testing.T, registry *prometheus.Registry, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	decide(t, m, usher.Mutate, usher.Allowed(), nil)
	decide(t, m, usher.Mutate, usher.Allowed(), nil)
	decide(t, m, usher.Validate, usher.Denied("no"), nil)
	decide(t, m, usher.Validate, usher.Decision{}, nil)
	decide(t, m, usher.Validate, usher.Allowed(), errors.New("broken"))
	decide(t, m, "strange", usher.Decision{Verdict: "strange"}, nil)
	panics := m.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic("x") }), "other")
	func() {
		defer func() { _ = recover() }()
		_, _ = panics.Decide(context.Background(), &usher.Request{Phase: usher.Authorize})
	}()
	compare(t, registry, `
# HELP usher_decisions_total Requests that were decided, by verdict: allow, deny, no_opinion, or error if there is no decision.
# TYPE usher_decisions_total counter
usher_decisions_total{door="admission",phase="mutate",verdict="allow"} 2
usher_decisions_total{door="admission",phase="validate",verdict="deny"} 1
usher_decisions_total{door="admission",phase="validate",verdict="error"} 1
usher_decisions_total{door="admission",phase="validate",verdict="no_opinion"} 1
usher_decisions_total{door="admission",phase="other",verdict="error"} 1
usher_decisions_total{door="other",phase="authorize",verdict="error"} 1
`, "usher_decisions_total")
	if n, err := testutil.GatherAndCount(registry, "usher_decision_duration_seconds"); n != 4 || err != nil {
		t.Errorf("durations of %d doors and phases, %v, want 4", n, err)
	}
}

// TestPolicyAdmission: a policy that is refused has not refused anything.
func TestPolicyAdmission(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	m.Snapshot(usher.Snapshot{InForce: []usher.PolicyRef{team}})
	decision := usher.Denied("spec: no")
	decision.Findings = []usher.Finding{{Policy: team, Written: true, Rule: "spec", Outcome: usher.Rejected, Message: "spec: no"}}
	writePolicy(t, m, decision)
	decide(t, m, usher.Validate, usher.Denied("no"), nil)
	compare(t, registry, `
# HELP usher_policy_admissions_total Writes of policies that were decided, by verdict. They are included in the decisions.
# TYPE usher_policy_admissions_total counter
usher_policy_admissions_total{phase="validate",verdict="deny"} 1
# HELP usher_policy_denials_total Rules of the policy that rejected a request.
# TYPE usher_policy_denials_total counter
usher_policy_denials_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 0
# HELP usher_policy_evaluations_total Rules of the policy that ran.
# TYPE usher_policy_evaluations_total counter
usher_policy_evaluations_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 0
`, "usher_policy_admissions_total", "usher_policy_denials_total", "usher_policy_evaluations_total")
}

// writePolicy has the write of a policy decided.
func writePolicy(t *testing.T, m *metrics.Metrics, decision usher.Decision) {
	t.Helper()
	d := m.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return decision, nil }), "admission")
	policy := schema.GroupVersionKind{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Kind: "ClusterValidatePolicy"}
	if _, err := d.Decide(t.Context(), &usher.Request{Phase: usher.Validate, Operation: usher.Create, Kind: policy}); err != nil {
		t.Fatal(err)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	h := m.Requests("/authorize", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	for _, method := range []string{"POST", "GET", "POST"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/authorize", nil))
	}
	compare(t, registry, `
# HELP usher_access_requests_total Requests to the authorization webhooks, by HTTP status: 503 means that there is no decision.
# TYPE usher_access_requests_total counter
usher_access_requests_total{code="200",endpoint="/authorize"} 2
usher_access_requests_total{code="405",endpoint="/authorize"} 1
`, "usher_access_requests_total")
	if n, err := testutil.GatherAndCount(registry, "usher_access_request_duration_seconds"); n != 1 || err != nil {
		t.Errorf("durations of %d endpoints, %v, want 1", n, err)
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	gone, fresh := usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: "gone"}, usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: "fresh"}
	admission := usher.PolicyRef{Kind: "ValidatingAdmissionPolicy", Name: "replicas"}
	warned := []usher.Check{{Message: "at most 3", Actions: []usher.Action{usher.ActWarn}}, {Message: "at most 2", Actions: []usher.Action{usher.ActWarn}}}
	decide(t, m, usher.Mutate, usher.Decision{Findings: []usher.Finding{
		{Policy: label, Outcome: usher.Changed, Took: 250 * time.Millisecond},
		{Policy: label, Outcome: usher.Passed, Took: 250 * time.Millisecond},
		{Policy: team, Outcome: usher.Rejected},
		{Policy: team, Outcome: usher.WouldDeny},
		{Policy: team, Outcome: usher.Failed, Ignored: true, Took: 2 * time.Second},
		{Policy: gone, Outcome: usher.Failed},
		{Policy: label, Outcome: usher.Exempted, Exemptions: make([]usher.Exemption, 2), Checks: warned},
		{Policy: team, Outcome: usher.Passed, Checks: warned},
		{Policy: admission, Outcome: usher.Rejected, Checks: []usher.Check{{Message: "at most 3"}, {Message: "no such key: x", Failed: true}}},
		{Outcome: usher.Passed},
	}}, nil)
	m.Snapshot(usher.Snapshot{InForce: []usher.PolicyRef{{}, admission, team, label, fresh, team}})
	compare(t, registry, `
# HELP usher_policy_denials_total Rules of the policy that rejected a request.
# TYPE usher_policy_denials_total counter
usher_policy_denials_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_denials_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 1
usher_policy_denials_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 0
usher_policy_denials_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 1
# HELP usher_policy_duration_seconds_total Total run time of rules of the policy.
# TYPE usher_policy_duration_seconds_total counter
usher_policy_duration_seconds_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_duration_seconds_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 2
usher_policy_duration_seconds_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 0.5
usher_policy_duration_seconds_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 0
# HELP usher_policy_errors_total Rules of the policy that failed, including ignored failures.
# TYPE usher_policy_errors_total counter
usher_policy_errors_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_errors_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 1
usher_policy_errors_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 0
usher_policy_errors_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 1
# HELP usher_policy_evaluations_total Rules of the policy that ran.
# TYPE usher_policy_evaluations_total counter
usher_policy_evaluations_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_evaluations_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 4
usher_policy_evaluations_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 3
usher_policy_evaluations_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 1
# HELP usher_policy_exempted_total Rules of the policy that were not applied, or only in part, because of a policy exemption.
# TYPE usher_policy_exempted_total counter
usher_policy_exempted_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_exempted_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 0
usher_policy_exempted_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 1
usher_policy_exempted_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 0
# HELP usher_policy_would_deny_total Rules of the policy that would deny a request, but are in Audit mode or match a protected user.
# TYPE usher_policy_would_deny_total counter
usher_policy_would_deny_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_would_deny_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 1
usher_policy_would_deny_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 0
usher_policy_would_deny_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 0
# HELP usher_policy_patches_total Rules of the policy that changed an object.
# TYPE usher_policy_patches_total counter
usher_policy_patches_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_patches_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 0
usher_policy_patches_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 1
usher_policy_patches_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 0
# HELP usher_policy_warnings_total Rules of the policy with a check whose action is Warn that warned of a request.
# TYPE usher_policy_warnings_total counter
usher_policy_warnings_total{policy_kind="ClusterOverridePolicy",policy_name="fresh",policy_namespace=""} 0
usher_policy_warnings_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 1
usher_policy_warnings_total{policy_kind="OverridePolicy",policy_name="add-label",policy_namespace="shop"} 0
usher_policy_warnings_total{policy_kind="ValidatingAdmissionPolicy",policy_name="replicas",policy_namespace=""} 0
`, "usher_policy_evaluations_total", "usher_policy_denials_total", "usher_policy_warnings_total", "usher_policy_exempted_total", "usher_policy_would_deny_total", "usher_policy_patches_total",
		"usher_policy_errors_total", "usher_policy_duration_seconds_total")
}

func TestFactResolver(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	broken := errors.New("broken")
	facts := metrics.New(registry).FactResolver(fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		switch ref := ref.(type) {
		case *fact.HTTP:
			return nil, broken
		case fact.Question:
			return map[string]any{"decision": "noOpinion", "error": ref.Request.User.Name}, nil
		}
		return "value", nil
	}))
	for range 2 {
		if value, err := facts.Resolve(context.Background(), &fact.Object{}); value != "value" || err != nil {
			t.Errorf("got %v, %v", value, err)
		}
	}
	if _, err := facts.Resolve(context.Background(), &fact.HTTP{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	// An authorizer's error is part of its answer, and none of the resolver.
	if _, err := facts.Resolve(context.Background(), fact.Question{Request: &usher.Request{}}); err != nil {
		t.Errorf("got %v", err)
	}
	compare(t, registry, `
# HELP usher_fact_fetches_total Facts that rules requested, by kind (object, http, access) and result (ok, error).
# TYPE usher_fact_fetches_total counter
usher_fact_fetches_total{kind="access",result="error"} 1
usher_fact_fetches_total{kind="http",result="error"} 1
usher_fact_fetches_total{kind="object",result="ok"} 2
`, "usher_fact_fetches_total")
}

// everything makes every metric appear.
func everything(t *testing.T, m *metrics.Metrics) {
	t.Helper()
	m.Recent(func() (int, uint64) { return 2, 7 })
	m.Reports(func() *metrics.ReportsState { return &metrics.ReportsState{Reports: 1} })
	m.APIRequest("decisions", "list", http.StatusOK)
	m.Limits(func() metrics.LimitState {
		return metrics.LimitState{Connections: map[string]metrics.ConnectionState{"admission": {Pending: 1}}}
	})
	m.Requests("/authorize", http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/authorize", nil))
	decide(t, m, usher.Mutate, usher.Decision{Findings: []usher.Finding{{Policy: team}}}, nil)
	asked(t, m, "mutate-v1", true)
	writePolicy(t, m, usher.Allowed())
	m.Snapshot(usher.Snapshot{Policies: map[string]int{"OverridePolicy": 1}, Known: map[string]int{"ValidatingAdmissionPolicy": 1}, InForce: []usher.PolicyRef{team}})
	m.Audit(func() *metrics.AuditState {
		return &metrics.AuditState{Resources: map[string]metrics.AuditResource{"pods.v1": {}}, Results: map[string]int{"pass": 1}}
	})
	m.Cluster(metrics.ClusterState{
		Staleness: func() time.Duration { return 0 }, Registered: func() bool { return true },
		Called: func() (bool, bool) { return true, true }, Failing: func() int { return 1 },
		Kinds:         func() map[string]int { return map[string]int{"read": 9} },
		DroppedEvents: func() int64 { return 3 },
	})
	m.Workers(func() metrics.WorkerState {
		return metrics.WorkerState{Running: map[string]int{"low": 1}, Ended: map[string]int{"timeout": 1}, Stopped: map[string]int{"timeout": 1}}
	})
	m.Overruns(func() metrics.OverrunState { return metrics.OverrunState{Total: 1} })
	m.Exemptions(func() []metrics.Exemption {
		return []metrics.Exemption{{Ref: team, Expires: time.Now().Add(time.Hour)}}
	})
	m.Candidates(func() []metrics.Candidate {
		return []metrics.Candidate{{Ref: team, Counts: map[string]int64{"seen": 1}}}
	})
	m.Probed("called")
	m.Refused("admission", "no_token")("no_token")
	facts := m.FactResolver(fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return nil, nil }))
	if _, err := facts.Resolve(context.Background(), &fact.Object{}); err != nil {
		t.Fatal(err)
	}
}

// asked has an entry asked about a request.
func asked(t *testing.T, m *metrics.Metrics, entry string, again bool) {
	t.Helper()
	d := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{{Policy: team}}}, nil
	})
	entries := m.Entries(d, "admission", func(*usher.Request) (string, bool) { return entry, again })
	if got, err := entries.Decide(t.Context(), &usher.Request{Phase: usher.Mutate}); err != nil || got.Verdict != usher.Allow {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestOneRequestIsOneDecision counts a request that several entries are asked about once.
func TestOneRequestIsOneDecision(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	asked(t, m, "mutate", false)
	asked(t, m, "mutate-v1", true)
	asked(t, m, "mutate-v1", true)
	err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP usher_decisions_total Requests that were decided, by verdict: allow, deny, no_opinion, or error if there is no decision.
# TYPE usher_decisions_total counter
usher_decisions_total{door="admission",phase="mutate",verdict="allow"} 1
# HELP usher_entry_calls_total Calls of webhook entries: a request whose object is converted for some policies is sent to several.
# TYPE usher_entry_calls_total counter
usher_entry_calls_total{entry="mutate"} 1
usher_entry_calls_total{entry="mutate-v1"} 2
`), "usher_decisions_total", "usher_entry_calls_total")
	if err != nil {
		t.Error(err)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	m := metrics.New(nil)
	everything(t, m)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds ", "usher_build_info{go_version=\"go1."} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// Policies come and go while decisions are counted and metrics read.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				decide(t, m, usher.Mutate, usher.Decision{Findings: []usher.Finding{{Policy: team}, {Policy: label}}}, nil)
			}
		})
		all.Go(func() {
			for i := range 50 {
				m.Snapshot(usher.Snapshot{Generation: int64(i), InForce: []usher.PolicyRef{team}})
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	m.Snapshot(usher.Snapshot{InForce: []usher.PolicyRef{team}})
	compare(t, registry, `
# HELP usher_policy_evaluations_total Rules of the policy that ran.
# TYPE usher_policy_evaluations_total counter
usher_policy_evaluations_total{policy_kind="ClusterValidatePolicy",policy_name="require-team",policy_namespace=""} 800
`, "usher_policy_evaluations_total")
}

func BenchmarkWrap(b *testing.B) {
	m := metrics.New(nil)
	decision := usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{{Policy: team}, {Policy: label, Outcome: usher.Changed}}}
	d := m.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return decision, nil }), "admission")
	r := &usher.Request{Phase: usher.Mutate}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decide(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}
