package decisionlog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
)

// TestRefusals: the line of a denial says why, so that somebody who was not there can tell.
func TestRefusals(t *testing.T) {
	t.Parallel()
	team := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "require-team"}
	rejected := func(change func(*usher.Finding)) usher.Finding {
		f := usher.Finding{Policy: team, Rule: "binding default", Outcome: usher.Rejected, Message: canary}
		change(&f)
		return f
	}
	checked := rejected(func(f *usher.Finding) {
		f.PodOf = "Deployment shop/web"
		f.Checks = []usher.Check{
			{Name: "spec.validations[0]", Validation: "team", Field: "metadata.labels.team", Message: "label team is missing", Actions: []usher.Action{usher.ActDeny, usher.ActAudit}},
			{Name: "spec.validations[1]", Message: "only a warning", Actions: []usher.Action{usher.ActWarn}},
			{Name: "spec.validations[2]", Message: "no such key", Failed: true},
		}
	})
	parts := map[string]any{
		"policy": "ClusterObjectPolicy require-team", "rule": "spec.validations[0]", "validation": "team",
		"field": "metadata.labels.team", "podOf": "Deployment shop/web", "message": "label team is missing",
	}
	broken := rejected(func(f *usher.Finding) {
		f.Checks = []usher.Check{{
			Name: "spec.validations[1]", Validation: "owner", Field: "metadata.labels", Message: `no such key: "` + canary + `"`,
			Actions: []usher.Action{usher.ActDeny}, Failed: true,
		}}
	})
	failedPart := map[string]any{
		"policy": "ClusterObjectPolicy require-team", "rule": "spec.validations[1]", "validation": "owner",
		"field": "metadata.labels", "message": "no such key: (…)", "failed": true,
	}
	const secret = "not shown: it may repeat a secret"
	plain := func(message string) map[string]any {
		return map[string]any{"policy": "ClusterObjectPolicy require-team", "rule": "binding default", "message": message}
	}
	for _, test := range []struct {
		reason   string
		kind     string
		verdict  usher.Verdict
		findings []usher.Finding
		want     any
	}{
		{"parts that deny, with the field", "Pod", usher.Deny, []usher.Finding{checked}, []any{parts}},
		{"a part that fails, with its name and field", "Pod", usher.Deny, []usher.Finding{broken}, []any{failedPart}},
		{"a rule that fails", "Pod", usher.Deny, []usher.Finding{rejected(func(f *usher.Finding) {
			f.Outcome, f.Message, f.Err = usher.Failed, "", errors.New("timeout")
		})}, []any{map[string]any{"policy": "ClusterObjectPolicy require-team", "rule": "binding default", "message": "timeout", "failed": true}}},
		{"not if that is ignored", "Pod", usher.Deny, []usher.Finding{rejected(func(f *usher.Finding) {
			f.Outcome, f.Message, f.Err, f.Ignored = usher.Failed, "", errors.New("timeout"), true
		})}, nil},
		{"a rule without parts", "Pod", usher.Deny, []usher.Finding{rejected(func(f *usher.Finding) { f.Message = "no" })}, []any{plain("no")}},
		{"nothing of what does not deny", "Pod", usher.Allow, []usher.Finding{rejected(func(f *usher.Finding) { f.Outcome = usher.WouldDeny })}, nil},
		{"what is said about a Secret is withheld", "Secret", usher.Deny, []usher.Finding{rejected(func(*usher.Finding) {})}, []any{plain(secret)}},
		{
			"and after a Secret was read, by this rule or one before it", "Pod", usher.Deny,
			[]usher.Finding{
				{Policy: team, Outcome: usher.Changed, Confidential: true}, rejected(func(*usher.Finding) {}),
			},
			[]any{plain(secret)},
		},
		{
			"a long message is cut", "Pod", usher.Deny,
			[]usher.Finding{rejected(func(f *usher.Finding) { f.Message = strings.Repeat("x", 600) })},
			[]any{plain(strings.Repeat("x", 497) + "…")},
		},
		{"a policy that is being written, as no policy has denied it", "ClusterObjectPolicy", usher.Deny, []usher.Finding{
			rejected(func(f *usher.Finding) {
				f.Written, f.Rule, f.Message = true, "spec.validations[0]", "it does not compile"
			}),
		}, []any{map[string]any{"policy": "ClusterObjectPolicy require-team", "rule": "spec.validations[0]", "message": "it does not compile"}}},
	} {
		got := logged(t, request(test.kind), usher.Decision{Verdict: test.verdict, Findings: test.findings}, nil)
		if diff := cmp.Diff(test.want, got[0]["refused"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
	many := make([]usher.Finding, 100)
	for i := range many {
		many[i] = rejected(func(f *usher.Finding) { f.Message = "no" })
	}
	got, _ := logged(t, request("Pod"), usher.Decision{Verdict: usher.Deny, Findings: many}, nil)[0]["refused"].([]any)
	if len(got) != 10 {
		t.Errorf("%d reasons, want the first 10", len(got))
	}
}

// TestOwnDenial: a decider that is no policy has no findings, and its denial has a reason nevertheless.
func TestOwnDenial(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"Pod": "no pods today", "Secret": "not shown: it may repeat a secret"} {
		got := logged(t, request(kind), usher.Denied("no pods today"), nil)[0]["refused"]
		if diff := cmp.Diff([]any{map[string]any{"message": want}}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kind, diff)
		}
	}
}

// TestWarnings: what users are warned of is in the log, withheld as what they are denied for.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const secret = "not shown: it may repeat a secret"
	for _, test := range []struct {
		reason, kind string
		findings     []usher.Finding
		warnings     []string
		want         []any
	}{
		{"a warning", "Pod", nil, []string{"label team is missing"}, []any{"label team is missing"}},
		{"about a Secret", "Secret", nil, []string{canary}, []any{secret}},
		{"after a Secret was read", "Pod", []usher.Finding{{Outcome: usher.Passed, Confidential: true}}, []string{canary}, []any{secret}},
		{"a long one", "Pod", nil, []string{strings.Repeat("x", 600)}, []any{strings.Repeat("x", 497) + "…"}},
		{"the first ten", "Pod", nil, slices.Repeat([]string{"no"}, 100), slices.Repeat([]any{"no"}, 10)},
	} {
		got := logged(t, request(test.kind), usher.Decision{Verdict: usher.Allow, Warnings: test.warnings, Findings: test.findings}, nil)[0]
		if diff := cmp.Diff(test.want, got["warnings"]); diff != "" || got["level"] != "INFO" {
			t.Errorf("%s: level %v (-want +got):\n%s", test.reason, got["level"], diff)
		}
	}
}
