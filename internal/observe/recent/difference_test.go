package recent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/rule"
)

// difference is what a candidate would decide about an object in a namespace. It has secrets in all places but
// names.
func difference(namespace, name string, kinds ...string) *rule.CandidateDifference {
	const secret = "hunter2"
	return &rule.CandidateDifference{
		Candidate: usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, At: time.Unix(1, 0).UTC(), Kinds: kinds,
		Request: &usher.Request{Phase: usher.Validate, Operation: usher.Create, Namespace: namespace, Name: name, User: usher.User{Name: "ann", Groups: []string{secret}}, Object: usher.RawObject([]byte(`{"a":"` + secret + `"}`))},
		Decision: usher.Decision{Verdict: usher.Deny, Message: secret, Warnings: []string{secret}, Findings: []usher.Finding{{
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}, Rule: "spec.validations", Outcome: usher.Rejected, Message: secret, Err: errors.New(secret),
			Checks: []usher.Check{{Name: "spec.validations[0]", Message: secret, Field: secret}},
		}}},
	}
}

// TestDiffers: what is kept of a candidate are names, how it differs, and which candidate it is.
func TestDiffers(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	ring.Differs(difference("shop", "a", "denied", "failing"))
	got := last(t, ring)
	line, err := got.JSON()
	if err != nil || strings.Contains(string(line), "hunter2") {
		t.Errorf("it keeps a value: %v: %s", err, line)
	}
	want := &recent.Decision{
		Time: time.Unix(1, 0).UTC(), Request: recent.Request{Phase: "validate", Operation: "CREATE", Namespace: "shop", Name: "a", User: "ann"}, Verdict: "deny", Warned: true, Failed: got.Failed,
		Candidate: &usher.PolicyRef{Kind: "ClusterPolicyCandidate", Name: "c"}, Differences: []string{"failing", "denied"},
		Rules: []recent.Rule{{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}, Rule: "spec.validations", Outcome: usher.Rejected, Validations: []string{"spec.validations[0]"}}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(recent.Decision{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	ring.Differs(difference("shop", "a", "unknown"))
	access := difference("shop", "a", "noOpinion")
	access.Request.Access, access.Decision = &usher.Access{Verb: "get"}, usher.Decision{}
	ring.Differs(access)
	if d := last(t, ring); ring.Next() != 2 || d.Verdict != "noOpinion" || cmp.Diff([]string{"noOpinion"}, d.Differences) != "" {
		t.Errorf("of %d, the last one: %+v", ring.Next(), d)
	}
}

// TestFilterOfDifferences: outcomes select how decisions differ, and a policy is the candidate, or one of its
// policies.
func TestFilterOfDifferences(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	for _, d := range []*rule.CandidateDifference{
		difference("shop", "a", "denied"), difference("blog", "b", "changed"), difference("shop", "c", "allowed"), difference("shop", "d", "failing", "warned"),
	} {
		ring.Differs(d)
	}
	for _, row := range []struct {
		reason string
		filter recent.Filter
		want   []string
	}{
		{"all", recent.Filter{}, []string{"a", "b", "c", "d"}},
		{"a namespace", recent.Filter{Namespace: "shop"}, []string{"a", "c", "d"}},
		{"denied, not all that the verdict says so of", recent.Filter{Outcomes: []recent.Outcome{recent.Denied}}, []string{"a"}},
		{"changed", recent.Filter{Outcomes: []recent.Outcome{recent.Changed}}, []string{"b"}},
		{"warned", recent.Filter{Outcomes: []recent.Outcome{recent.Warned}}, []string{"d"}},
		{"failed", recent.Filter{Outcomes: []recent.Outcome{recent.Failed}}, []string{"d"}},
		{"the candidate", recent.Filter{Policy: "ClusterPolicyCandidate/c"}, []string{"a", "b", "c", "d"}},
		{"its policy", recent.Filter{Policy: "p"}, []string{"a", "b", "c", "d"}},
		{"another", recent.Filter{Policy: "q"}, nil},
	} {
		all, _ := ring.Last(10, &row.filter).Next(make([]*recent.Decision, 0, 10))
		if diff := cmp.Diff(row.want, namesOf(all)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
	}
}

// TestDifferencesAreBounded: the decisions of candidates of one namespace, with the longest names, do not push out those of
// another, and take a bounded number of bytes.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	ring.Differs(difference("blog", "kept", "denied"))
	long := strings.Repeat("x", 1<<12)
	for range recent.Size {
		d := difference("shop", long, "denied")
		d.Candidate.Name, d.Decision.Findings[0].Policy.Name = long, long
		ring.Differs(d)
	}
	all, _ := ring.Last(1, &recent.Filter{Namespace: "blog"}).Next(make([]*recent.Decision, 0, 1))
	if ring.Bytes() > recent.MaxBytes || len(all) != 1 {
		t.Errorf("%d bytes, and %d of another namespace", ring.Bytes(), len(all))
	}
}
