package recent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/observe/recent"
)

func fixed(d usher.Decision, err error) usher.Decider {
	return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, err })
}

// last returns the last decision of a ring.
func last(t *testing.T, ring *recent.Ring) *recent.Decision {
	t.Helper()
	all, _ := ring.Last(1, nil).Next(make([]*recent.Decision, 0, 1))
	if len(all) != 1 {
		t.Fatal("nothing is kept")
	}
	return all[0]
}

// TestWrap: what is kept are names, and the decision stays what it is.
func TestWrap(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	policy := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}
	d := usher.Decision{
		Verdict: usher.Deny, Code: 403, Message: secret, Reason: secret, Warnings: []string{secret}, Audit: map[string]string{"a": secret},
		Patch: usher.Patch{{Op: "add", Path: "/data/" + secret, Value: secret}},
		Findings: []usher.Finding{
			{Policy: policy, Rule: "spec.validations", Outcome: usher.Rejected, Message: secret, PodOf: secret,
				Err: errors.New(secret), Checks: []usher.Check{
					{Name: "spec.validations[0]", Validation: "owner", Message: secret, Field: secret}, {Name: "spec.validations[0]", Message: secret}, {Name: "spec.validations[2]", Failed: true, Message: secret},
				}},
			{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "q"}, Rule: "spec.validations", Outcome: usher.Passed},
			{Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "r"}, Rule: "spec.mutations", Outcome: usher.Exempted, Exemptions: []usher.Exemption{
				{PolicyRef: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "shop", Name: "x"}, Reason: secret, Owner: secret},
			}, NotExempt: []usher.NotExempt{{Why: []string{secret}}}},
			{Policy: policy, Written: true, Rule: "spec", Outcome: usher.Rejected, Message: secret},
		},
	}
	r := &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, UID: "u", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "web", User: usher.User{Name: "ann", Groups: []string{secret}, Extra: map[string][]string{secret: {secret}}}, DryRun: true,
		Object: usher.RawObject([]byte(`{"` + secret + `":"` + secret + `"}`)), Options: usher.RawObject([]byte(`{"a":"` + secret + `"}`)),
	}
	ring := &recent.Ring{}
	got, err := recent.Wrap(fixed(d, errors.New(secret)), ring).Decide(t.Context(), r)
	if diff := cmp.Diff(d, got, cmpopts.EquateErrors(), cmpopts.IgnoreFields(usher.Finding{}, "Err")); diff != "" || err == nil {
		t.Errorf("the decision has changed: %v: -want +got:\n%s", err, diff)
	}
	kept := last(t, ring)
	line, err := kept.JSON()
	if err != nil || strings.Contains(string(line), secret) {
		t.Errorf("it keeps a value: %v: %s", err, line)
	}
	want := &recent.Decision{
		Time: kept.Time, TookSeconds: kept.TookSeconds,
		Request: recent.Request{
			UID: "u", Phase: "validate", Operation: "CREATE", APIVersion: "apps/v1", Kind: "Deployment",
			Resource: "deployments", Namespace: "shop", Name: "web", User: "ann", DryRun: true,
		},
		Verdict: "error", Code: 403, Changed: true, Warned: true, Failed: true,
		Rules: []recent.Rule{
			{Policy: policy, Rule: "spec.validations", Outcome: usher.Rejected, Validations: []string{"spec.validations[0] (owner)", "spec.validations[2]"}, FailedAt: []string{"spec.validations[2]"}},
			{Policy: policy, Written: true, Rule: "spec", Outcome: usher.Rejected},
			{Policy: d.Findings[2].Policy, Rule: "spec.mutations", Outcome: usher.Exempted, Exemptions: []string{"PolicyExemption shop/x"}},
		},
	}
	if diff := cmp.Diff(want, kept, cmpopts.IgnoreUnexported(recent.Decision{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	back := &recent.Decision{}
	if err := json.Unmarshal(line, back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back, cmpopts.IgnoreUnexported(recent.Decision{})); diff != "" {
		t.Errorf("as JSON: -want +got:\n%s", diff)
	}
}

// TestSlowest: of a decision that was slow, the rule is named that took the longest, also one that passed.
func TestSlowest(t *testing.T) {
	t.Parallel()
	finding := func(name string, took time.Duration) usher.Finding {
		return usher.Finding{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}, Rule: "spec.validations", Outcome: usher.Passed, Took: took}
	}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create}
	for _, row := range []struct {
		reason   string
		ago      time.Duration
		findings []usher.Finding
		want     string
	}{
		{"a decision that was not slow", 0, []usher.Finding{finding("a", time.Second)}, ""},
		{"no rule was slow", time.Hour, []usher.Finding{finding("a", recent.SlowRule-1), {Took: time.Hour}}, ""},
		{"several", time.Hour, []usher.Finding{finding("a", recent.SlowRule), finding("b", time.Minute), finding("c", time.Second)}, "ClusterObjectPolicy b spec.validations 60"},
	} {
		ring := &recent.Ring{}
		ring.Add(r, &usher.Decision{Findings: row.findings}, nil, time.Now().Add(-row.ago))
		got := ""
		if s := last(t, ring).Slowest; s != nil {
			got = fmt.Sprint(s.Policy, " ", s.Rule, " ", s.TookSeconds)
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

// TestFilterOfSlowest: with a time, a policy also selects decisions that it let pass and of which it took the longest.
func TestFilterOfSlowest(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	finding := usher.Finding{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}, Rule: "spec.validations", Outcome: usher.Passed, Took: time.Minute}
	ring.Add(&usher.Request{Phase: usher.Validate}, &usher.Decision{Findings: []usher.Finding{finding}}, nil, time.Now().Add(-time.Hour))
	for _, row := range []struct {
		filter recent.Filter
		want   int
	}{
		{recent.Filter{Policy: "p", Slower: time.Second}, 1},
		{recent.Filter{Policy: "q", Slower: time.Second}, 0},
		{recent.Filter{Policy: "p"}, 0},
	} {
		if all, _ := ring.Last(1, &row.filter).Next(make([]*recent.Decision, 0, 1)); len(all) != row.want {
			t.Errorf("%+v selects %d, want %d", row.filter, len(all), row.want)
		}
	}
}

// TestFilterOfPolicyAndOutcome: with a policy, outcomes are those of the policy, not of others that met the same request.
func TestFilterOfPolicyAndOutcome(t *testing.T) {
	t.Parallel()
	of := func(name string, outcome usher.Outcome, checks ...usher.Check) usher.Finding {
		return usher.Finding{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}, Rule: "spec.validations", Outcome: outcome, Checks: checks}
	}
	ignored := of("whole", usher.Failed)
	ignored.Ignored = true
	exempted := of("exempted", usher.Exempted)
	exempted.Exemptions = []usher.Exemption{{PolicyRef: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "x"}}}
	d := usher.Decision{Verdict: usher.Deny, Warnings: []string{"w"}, Patch: usher.Patch{{Op: "add"}}, Findings: []usher.Finding{
		of("audits", usher.Passed, usher.Check{Name: "spec.validations[0]", Actions: []usher.Action{usher.ActAudit}}),
		of("warns", usher.Passed, usher.Check{Name: "spec.validations[0]", Actions: []usher.Action{usher.ActWarn}}),
		of("part", usher.Passed, usher.Check{Name: "spec.validations[0]", Actions: []usher.Action{usher.ActWarn}}, usher.Check{Name: "spec.validations[1]", Failed: true}),
		ignored, exempted, of("changes", usher.Changed), of("denies", usher.Rejected),
	}}
	ring := &recent.Ring{}
	ring.Add(&usher.Request{Phase: usher.Validate}, &d, nil, time.Now())
	for outcome, want := range map[recent.Outcome]string{
		recent.Denied: "denies", recent.Changed: "changes", recent.Failed: "part whole", recent.Exempted: "exempted",
		// Requests have warnings, not rules.
		recent.Warned: "audits warns part whole exempted changes denies",
	} {
		var got []string
		for _, f := range d.Findings {
			if all, _ := ring.Last(1, &recent.Filter{Policy: f.Policy.Name, Outcomes: []recent.Outcome{outcome}}).Next(make([]*recent.Decision, 0, 1)); len(all) == 1 {
				got = append(got, f.Policy.Name)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", outcome, got, want)
		}
	}
	var said []string
	for _, r := range last(t, ring).Rules {
		said = append(said, fmt.Sprint(r.Policy.Name, " ", r.Warned, r.Audited, r.FailedAt))
	}
	want := []string{
		"part true false [spec.validations[1]]", "whole false false [spec.validations]", "denies false false []",
		"audits false true []", "warns true false []", "exempted false false []", "changes false false []",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAccess: of requests to authorize those are kept about which a policy says something.
func TestAccess(t *testing.T) {
	t.Parallel()
	r := &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "ann"}, Access: &usher.Access{Verb: "get", Path: "/metrics", NonResource: true},
	}
	finding := usher.Finding{Policy: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "hide"}, Outcome: usher.WouldDeny}
	for _, row := range []struct {
		reason   string
		decision usher.Decision
		err      error
		kept     bool
	}{
		{"no opinion, as of most requests", usher.Decision{}, nil, false},
		{"an opinion", usher.Allowed(), nil, true},
		{"a denial", usher.Denied("no"), nil, true},
		{"what would be one", usher.Decision{Findings: []usher.Finding{finding}}, nil, true},
		{"no decision", usher.Decision{}, errors.New("too late"), true},
	} {
		ring := &recent.Ring{}
		if _, err := recent.Wrap(fixed(row.decision, row.err), ring).Decide(t.Context(), r); !errors.Is(err, row.err) {
			t.Fatal(err)
		}
		if got := ring.Next() == 1; got != row.kept {
			t.Errorf("%s: kept: %v", row.reason, got)
			continue
		}
		if row.kept {
			if d := last(t, ring); d.Operation != "get" || d.Path != "/metrics" || d.User != "ann" {
				t.Errorf("%s: %+v", row.reason, d)
			}
		}
	}
}

// TestNoValues plants secrets everywhere in objects of random shapes, and in all that findings and
// decisions say about them.
func TestNoValues(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	planted := 0
	secret := func() string {
		planted++
		return fmt.Sprintf("s3cr3t-%d", planted)
	}
	for range 500 {
		findings := make([]usher.Finding, random.IntN(5))
		for i := range findings {
			findings[i] = usher.Finding{
				Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: fmt.Sprint("p", random.IntN(9))}, Rule: fmt.Sprintf("spec.rules[%d]", i),
				Outcome: []usher.Outcome{usher.Passed, usher.Rejected, usher.Failed, usher.WouldDeny, usher.Changed, usher.Exempted}[random.IntN(6)],
				Message: secret(), Err: errors.New(secret()), PodOf: secret(), Confidential: random.IntN(2) == 0,
				Patch:      usher.Patch{{Op: "add", Path: "/" + secret(), From: "/" + secret(), Value: shape(random, secret, 3)}},
				Checks:     []usher.Check{{Name: "spec.validations[0]", Validation: "v", Message: secret(), Field: "metadata.labels[" + secret() + "]", Failed: random.IntN(2) == 0}},
				Exemptions: []usher.Exemption{{PolicyRef: usher.PolicyRef{Kind: "PolicyExemption", Name: "e"}, Reason: secret(), Owner: secret()}},
				NotExempt:  []usher.NotExempt{{PolicyRef: usher.PolicyRef{Kind: "PolicyExemption", Name: "n"}, Why: []string{secret()}}},
			}
		}
		d := usher.Decision{
			Verdict: usher.Deny, Reason: secret(), Message: secret(), Warnings: []string{secret()}, Audit: map[string]string{secret(): secret()},
			Patch: usher.Patch{{Op: "replace", Path: "/" + secret(), Value: shape(random, secret, 3)}}, Findings: findings,
		}
		r := &usher.Request{
			Phase: usher.Validate, Operation: usher.Update, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "shop", Name: "db",
			User:   usher.User{Name: "ann", UID: secret(), Groups: []string{secret()}, Extra: map[string][]string{secret(): {secret()}}},
			Object: usher.TreeObject(shape(random, secret, 4).(map[string]any)), OldObject: usher.TreeObject(shape(random, secret, 4).(map[string]any)),
			Options: usher.TreeObject(map[string]any{"fieldManager": secret()}),
		}
		ring := &recent.Ring{}
		_, _ = recent.Wrap(fixed(d, errors.New(secret())), ring).Decide(t.Context(), r)
		line, err := last(t, ring).JSON()
		if err != nil || strings.Contains(string(line), "s3cr3t") {
			t.Fatalf("a value is kept: %v: %s", err, line)
		}
	}
	if planted < 10000 {
		t.Errorf("only %d secrets were planted", planted)
	}
}

// shape returns a value with secrets as keys and values.
func shape(random *rand.Rand, secret func() string, depth int) any {
	tree := map[string]any{"metadata": map[string]any{"annotations": map[string]any{secret(): secret()}, "labels": map[string]any{"app": secret()}}}
	for range random.IntN(4) {
		switch random.IntN(3) {
		case 0:
			tree[secret()] = secret()
		case 1:
			tree["data"] = []any{secret(), map[string]any{"name": secret()}}
		default:
			if depth > 0 {
				tree[secret()] = shape(random, secret, depth-1)
			}
		}
	}
	return tree
}

// TestHostile: whatever senders of requests and authors of policies choose, what is kept is bounded.
func TestHostile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 5<<20)
	findings := make([]usher.Finding, 1000)
	for i := range findings {
		findings[i] = usher.Finding{
			Policy: usher.PolicyRef{Kind: long, Namespace: long, Name: long}, Rule: long, Outcome: usher.Rejected,
			Checks: []usher.Check{{Name: long}, {Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}, Exemptions: make([]usher.Exemption, 1000),
		}
	}
	r := &usher.Request{
		UID: long, Phase: usher.Phase(long), Operation: usher.Operation(long), Kind: schema.GroupVersionKind{Group: long, Version: long, Kind: long},
		Resource: schema.GroupVersionResource{Resource: long}, Subresource: long, Namespace: long, Name: long + "\x00\xff", User: usher.User{Name: long, Groups: findingsNames(long)},
	}
	ring := &recent.Ring{}
	decider := recent.Wrap(fixed(usher.Decision{Verdict: usher.Verdict(long), Findings: findings}, nil), ring)
	const added = recent.Size / 2
	for range added {
		if _, err := decider.Decide(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if got := ring.Bytes(); got > recent.MaxBytes || got < recent.MaxBytes/2 {
		t.Errorf("decisions take %d bytes, want at most %d", got, recent.MaxBytes)
	}
	d := last(t, ring)
	line, err := d.JSON()
	if err != nil || len(line) > 32<<10 || len(d.Rules) != 16 || d.Omitted != len(findings)-16 {
		t.Errorf("%d rules and %d omitted, in %d bytes: %v", len(d.Rules), d.Omitted, len(line), err)
	}
	if !strings.HasSuffix(d.Name, "…") || len(d.Name) > 253 {
		t.Errorf("the name has %d bytes", len(d.Name))
	}
	all, lost := ring.Read(0, nil).Next(make([]*recent.Decision, 0, recent.Size))
	if uint64(len(all))+lost != added || len(all) == 0 {
		t.Errorf("%d are kept and %d lost", len(all), lost)
	}
}

func findingsNames(name string) []string {
	all := make([]string, 10000)
	for i := range all {
		all[i] = name
	}
	return all
}

// typical is a request, and the decision of three rules that made a difference among some that did
// not.
func typical() (*usher.Request, usher.Decision) {
	d := usher.Decision{Verdict: usher.Deny}
	for i := range 8 {
		f := usher.Finding{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: fmt.Sprint("pod-security-restricted-", i)}, Rule: "spec.validations", Outcome: usher.Passed}
		if i%3 == 0 {
			f.Outcome, f.Checks = usher.Rejected, []usher.Check{{Name: fmt.Sprintf("spec.validations[%d]", i)}}
		}
		d.Findings = append(d.Findings, f)
	}
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, UID: "0f3c1b52-6a3e-4d5e-9a52-6c4dbb0f4f8e", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "team-shop-production", Name: "checkout-frontend-7d9c6b5f4d",
		User: usher.User{Name: "system:serviceaccount:kube-system:deployment-controller"},
	}, d
}

// TestDenialsComeFirst: who asks why a request was denied finds the rule, however many only warn.
func TestDenialsComeFirst(t *testing.T) {
	t.Parallel()
	r, d := typical()
	d.Findings = nil
	for i := range 100 {
		d.Findings = append(d.Findings, usher.Finding{
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: fmt.Sprint("warns-", i)}, Rule: "spec.validations",
			Outcome: usher.Passed, Checks: []usher.Check{{Name: "spec.validations[0]"}},
		})
	}
	d.Findings = append(d.Findings, usher.Finding{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "denies"}, Rule: "spec.validations", Outcome: usher.Rejected})
	ring := &recent.Ring{}
	ring.Add(r, &d, nil, time.Now())
	all, _ := ring.Last(1, nil).Next(make([]*recent.Decision, 0, 1))
	if len(all) != 1 || all[0].Rules[0].Policy.Name != "denies" || len(all[0].Rules)+all[0].Omitted != 101 {
		t.Errorf("kept are %+v", all)
	}
}

// TestMemory: the ring holds as many decisions as it promises, if they are as usual, of enough
// namespaces.
func TestMemory(t *testing.T) {
	t.Parallel()
	r, d := typical()
	ring := &recent.Ring{}
	for i := range 8 * recent.Size {
		r.Namespace = fmt.Sprintf("team-shop-production-%d", i%16384)
		ring.Add(r, &d, nil, time.Now())
	}
	all, lost := ring.Last(recent.Size, nil).Next(make([]*recent.Decision, 0, recent.Size))
	if len(all) != recent.Size || lost != 0 {
		t.Errorf("%d are kept and %d lost, in %d bytes", len(all), lost, ring.Bytes())
	}
}

func BenchmarkWrap(b *testing.B) {
	r, denied := typical()
	passed := denied
	passed.Verdict, passed.Findings = usher.Allow, nil
	for i := range 8 {
		passed.Findings = append(passed.Findings, usher.Finding{Policy: denied.Findings[i].Policy, Rule: "spec.validations", Outcome: usher.Passed})
	}
	for name, d := range map[string]usher.Decision{"passed": passed, "denied": denied} {
		for kind, decider := range map[string]usher.Decider{"bare": fixed(d, nil), "kept": recent.Wrap(fixed(d, nil), &recent.Ring{})} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decider.Decide(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
