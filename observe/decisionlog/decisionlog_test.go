package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/decisionlog"
)

// canary is what must never be logged.
const canary = "hunter2"

func request(kind string) *usher.Request {
	return &usher.Request{
		UID: "u1", Phase: usher.Mutate, Operation: usher.Create,
		Kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Name: "web", Namespace: "shop",
		User:   usher.User{Name: "jane"},
		Object: usher.TreeObject(map[string]any{"data": canary}),
	}
}

// logged returns what is logged about a decision, as JSON values.
func logged(t *testing.T, r *usher.Request, d usher.Decision, err error) []map[string]any {
	t.Helper()
	var buffer bytes.Buffer
	handler := slog.NewJSONHandler(&buffer, &slog.HandlerOptions{Level: slog.LevelDebug})
	wrapped := decisionlog.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return d, err
	}), slog.New(handler))
	got, gotErr := wrapped.Decide(context.Background(), r)
	if diff := cmp.Diff(d.Verdict, got.Verdict); diff != "" || !errors.Is(gotErr, err) {
		t.Errorf("the decision has changed: %v, %s", gotErr, diff)
	}
	if strings.Contains(buffer.String(), canary) {
		t.Errorf("contents of the object are logged: %s", &buffer)
	}
	var lines []map[string]any
	for decoder := json.NewDecoder(&buffer); decoder.More(); {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if took, ok := line["took"].(float64); !ok || took < 0 || took > float64(time.Minute) {
			t.Errorf("took %v", line["took"])
		}
		delete(line, "time")
		delete(line, "took")
		lines = append(lines, line)
	}
	return lines
}

func TestWrap(t *testing.T) {
	t.Parallel()
	team := usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "require-team"}
	label := usher.PolicyRef{Kind: "OverridePolicy", Namespace: "shop", Name: "add-label"}
	failure := func(ignored bool) usher.Finding {
		return usher.Finding{Policy: team, Rule: "spec.validateRules[0]", Outcome: usher.Failed, Ignored: ignored,
			Err: errors.New(`conflicting values "` + canary + ` \"` + canary + `" and '` + canary + "' and int")}
	}
	failed := func(ignored bool) map[string]any {
		return map[string]any{"policy": "ClusterValidatePolicy require-team", "rule": "spec.validateRules[0]", "ignored": ignored,
			"error": "conflicting values (…) and (…) and int"}
	}
	tests := []struct {
		reason   string
		decision usher.Decision
		err      error
		want     map[string]any
	}{
		{"what passes is for those who look closely", usher.Allowed(), nil, map[string]any{"level": "DEBUG", "verdict": "allow"}},
		{"no opinion passes", usher.Decision{}, nil, map[string]any{"level": "DEBUG", "verdict": "no opinion"}},
		{
			"policies that change something are named, those that look on are not",
			usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{
				{Policy: team, Outcome: usher.Passed}, {Policy: label, Outcome: usher.Changed}, {Policy: label, Outcome: usher.Changed},
			}},
			nil,
			map[string]any{"level": "DEBUG", "verdict": "allow", "policies": []any{"OverridePolicy shop/add-label"}},
		},
		{
			"a denial is worth knowing, with its reason",
			usher.Decision{Verdict: usher.Deny, Message: "no", Findings: []usher.Finding{{Policy: team, Rule: "spec.validateRules[0]", Outcome: usher.Rejected, Message: "label team is missing"}}},
			nil,
			map[string]any{
				"level": "INFO", "verdict": "deny", "policies": []any{"ClusterValidatePolicy require-team"},
				"refused": []any{map[string]any{"policy": "ClusterValidatePolicy require-team", "rule": "spec.validateRules[0]", "message": "label team is missing"}},
			},
		},
		{
			"an exemption is worth knowing, with the policy that it is from",
			usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{
				{Policy: team, Outcome: usher.Exempted, Message: canary, Exemptions: []usher.Exemption{{PolicyRef: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "x"}, Reason: canary}}},
			}},
			nil,
			map[string]any{"level": "INFO", "verdict": "allow", "exemptions": []any{"ClusterPolicyExemption x: ClusterValidatePolicy require-team"}},
		},
		{
			"a rule that fails names itself",
			usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{failure(false)}},
			nil,
			map[string]any{"level": "ERROR", "verdict": "deny", "policies": []any{"ClusterValidatePolicy require-team"}, "failed": []any{failed(false)}, "refused": []any{map[string]any{
				"policy": "ClusterValidatePolicy require-team", "rule": "spec.validateRules[0]", "message": "conflicting values (…) and (…) and int", "failed": true,
			}}},
		},
		{
			"a failure that is ignored is a warning",
			usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{failure(true)}},
			nil,
			map[string]any{"level": "WARN", "verdict": "allow", "policies": []any{"ClusterValidatePolicy require-team"}, "failed": []any{failed(true)}},
		},
		{
			"a part that fails names its rule; a policy that turns out not to be for the request is not named",
			usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{
				{Policy: label, Outcome: usher.Skipped},
				{Policy: team, Rule: "binding b", Outcome: usher.Rejected, Checks: []usher.Check{{Name: "spec.validations[0]", Message: "at most 3"}, {Message: "no such key: x", Failed: true, Actions: []usher.Action{usher.ActDeny}}}},
			}},
			nil,
			map[string]any{
				"level": "ERROR", "verdict": "deny", "policies": []any{"ClusterValidatePolicy require-team"},
				"refused": []any{map[string]any{"policy": "ClusterValidatePolicy require-team", "rule": "spec.validations[0]", "message": "at most 3"}, map[string]any{"policy": "ClusterValidatePolicy require-team", "rule": "binding b", "message": "no such key: x", "failed": true}},
				"failed":  []any{map[string]any{"policy": "ClusterValidatePolicy require-team", "rule": "binding b", "error": "no such key: x", "ignored": false}},
			},
		},
		{"without a decision there is an error", usher.Allowed(), errors.New("broken"), map[string]any{"level": "ERROR", "verdict": "error", "error": "broken"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			want := map[string]any{
				"msg": "decision", "uid": "u1", "phase": "mutate", "operation": "CREATE", "kind": "ConfigMap",
				"namespace": "shop", "name": "web", "user": "jane",
			}
			maps.Copy(want, test.want)
			if diff := cmp.Diff([]map[string]any{want}, logged(t, request("ConfigMap"), test.decision, test.err)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Secret", "TokenRequest", "TokenReview"} {
		d := usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{{Outcome: usher.Failed, Err: errors.New("value " + canary)}}}
		got := logged(t, request(kind), d, errors.New(canary))
		if len(got) != 1 || got[0]["error"] != "not shown: it may repeat a secret" {
			t.Errorf("%s: got %v", kind, got)
		}
	}
}

// A rule that has read a Secret may put it into the object, on which later rules fail.
func TestErrorsAfterASecretWasReadAreNotLogged(t *testing.T) {
	t.Parallel()
	d := usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{
		{Outcome: usher.Failed, Err: errors.New("before")},
		{Outcome: usher.Failed, Err: errors.New("value " + canary), Confidential: true},
		{Outcome: usher.Failed, Err: errors.New("label " + canary)},
	}}
	got := logged(t, request("Pod"), d, errors.New(canary))
	if text := fmt.Sprint(got); strings.Contains(text, canary) || !strings.Contains(text, "before") {
		t.Errorf("got %v", got)
	}
}

// A policy that is refused has decided nothing, and a built-in rule is none.
func TestPolicyAdmission(t *testing.T) {
	t.Parallel()
	policy := usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: "require-team"}
	r := request(policy.Kind)
	r.Kind = schema.GroupVersionKind{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Kind: policy.Kind}
	got := logged(t, r, usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{
		{Policy: policy, Written: true, Outcome: usher.Rejected}, {Rule: "namespace", Outcome: usher.Changed},
	}}, nil)
	if got[0]["policyAdmission"] != true || got[0]["policies"] != nil {
		t.Errorf("got %v, want policy admission without policies", got[0])
	}
}

func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	got := logged(t, request("Pod"), usher.Decision{}, errors.New(strings.Repeat("x", 5000)+`"`+canary))
	if text, _ := got[0]["error"].(string); len(text) > 510 {
		t.Errorf("error has %d bytes", len(text))
	}
}

// TestGroups: who decides a request again needs the groups of its user. Providers of identities may name any number.
func TestGroups(t *testing.T) {
	t.Parallel()
	r := request("Pod")
	for i := range 40 {
		r.User.Groups = append(r.User.Groups, fmt.Sprint("g", i))
	}
	groups, _ := logged(t, r, usher.Denied("no"), nil)[0]["groups"].([]any)
	if len(groups) != 33 || groups[0] != "g0" || groups[32] != "and 8 more" {
		t.Errorf("groups: %v", groups)
	}
}

func TestSubresourceAndDryRun(t *testing.T) {
	t.Parallel()
	r := request("PodExecOptions")
	r.Subresource, r.DryRun = "exec", true
	got := logged(t, r, usher.Allowed(), nil)
	if got[0]["kind"] != "PodExecOptions/exec" || got[0]["dryRun"] != true {
		t.Errorf("got %v", got)
	}
}

// TestCollections logs which objects of a collection are deleted: requests do not name them.
func TestCollections(t *testing.T) {
	t.Parallel()
	r := request("ConfigMap")
	r.Operation, r.Name, r.Object, r.OldObject = usher.Delete, "", nil, usher.RawObject([]byte(`{"metadata":{"name":"one"}}`))
	if got := logged(t, r, usher.Denied("kept"), nil); got[0]["name"] != "one" {
		t.Errorf("got %v", got)
	}
}

func BenchmarkWrap(b *testing.B) {
	d := decisionlog.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Allowed(), nil
	}), slog.New(slog.NewJSONHandler(&bytes.Buffer{}, nil)))
	r := request("Pod")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decide(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}
