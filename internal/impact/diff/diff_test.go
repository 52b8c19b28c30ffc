package diff_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/impact/diff"
)

// said returns a decision that follows from findings.
func said(verdict usher.Verdict, findings ...usher.Finding) *usher.Decision {
	d := usher.Decision{Verdict: verdict, Message: "no", Findings: findings}
	for i := range findings {
		d.Patch = append(d.Patch, findings[i].Patch...)
	}
	return &d
}

func rejects(name string) usher.Finding {
	return usher.Finding{Policy: usher.PolicyRef{Name: name}, Outcome: usher.Rejected, Message: "no " + name}
}

func fails(name string, ignored bool) usher.Finding {
	return usher.Finding{Policy: usher.PolicyRef{Name: name}, Outcome: usher.Failed, Err: errors.New("broken"), Ignored: ignored}
}

func warns(name string) usher.Finding {
	return usher.Finding{Policy: usher.PolicyRef{Name: name}, Outcome: usher.Passed, Checks: []usher.Check{{Message: "mind", Actions: []usher.Action{usher.ActWarn}}}}
}

// checks is a finding with checks of the validations of a policy, each a place and a message.
func checks(outcome usher.Outcome, action usher.Action, said ...string) usher.Finding {
	f := usher.Finding{Policy: usher.PolicyRef{Name: "a"}, Outcome: outcome}
	for i := 0; i < len(said); i += 2 {
		f.Checks = append(f.Checks, usher.Check{Name: said[i], Message: said[i+1], Actions: []usher.Action{action}})
	}
	return f
}

// podsDenied is a warning that the pods of a workload would be denied.
func podsDenied(name string) usher.Finding {
	f := warns(name)
	f.Checks[0].PodsDenied = true
	return f
}

func sets(name, path string) usher.Finding {
	return usher.Finding{Policy: usher.PolicyRef{Name: name}, Outcome: usher.Passed, Patch: usher.Patch{{Op: "add", Path: path, Value: "x"}}}
}

// TestBetween compares decisions of one phase, which have no object that comes out.
func TestBetween(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		was, is *usher.Decision
		want    string
	}{
		{"nothing", said(usher.Allow), said(usher.Allow), ""},
		{"denied", said(usher.Allow), said(usher.Deny, rejects("a"), rejects("b")), "denied a: no a; denied b: no b"},
		{"the pods of a workload denied", said(usher.Allow), said(usher.Allow, podsDenied("a")), "podsDenied a: mind"},
		{"its pods denied, which were warned of", said(usher.Allow, warns("a")), said(usher.Allow, podsDenied("a")), "podsDenied a: mind"},
		{"its pods warned of, which were denied", said(usher.Allow, podsDenied("a")), said(usher.Allow, warns("a")), ""},
		{"its pods denied as before", said(usher.Allow, podsDenied("a")), said(usher.Allow, podsDenied("a")), ""},
		{"denied by another policy", said(usher.Deny, rejects("a")), said(usher.Deny, rejects("b")), "reason b: no b"},
		{"denied by another policy, too", said(usher.Deny, rejects("a")), said(usher.Deny, rejects("a"), rejects("b")), "reason b: no b"},
		{
			"denied by another validation, too", said(usher.Deny, checks(usher.Rejected, usher.ActDeny, "v[0]", "no tag")),
			said(usher.Deny, checks(usher.Rejected, usher.ActDeny, "v[0]", "no tag", "v[1]", "no team")), "reason a: no team",
		},
		{
			"warned by another validation, too", said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag")),
			said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag", "v[1]", "no team")), "warned a: no team",
		},
		{
			"denied by two other validations", said(usher.Deny, checks(usher.Rejected, usher.ActDeny, "v[0]", "no tag")),
			said(usher.Deny, checks(usher.Rejected, usher.ActDeny, "v[0]", "no tag", "v[1]", "no team", "v[2]", "no owner")), "reason a: no team, and 1 more",
		},
		{
			"warned of three things, two of them the same", said(usher.Allow),
			said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag", "v[1]", "no tag", "v[2]", "no team")), "warned a: no tag, and 1 more",
		},
		{
			"warned by a validation before the other", said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag")),
			said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no team", "v[1]", "no tag")), "warned a: no team",
		},
		{
			"warned in other words", said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag", "v[1]", "no team")),
			said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "tag it", "v[1]", "no team")), "",
		},
		{
			"warned by a validation at another place", said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag")),
			said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[1]", "no tag")), "",
		},
		{
			"warned of less", said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag", "v[1]", "no team")),
			said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[1]", "no team")), "noLongerWarned a: no tag",
		},
		{"no longer warned", said(usher.Allow, warns("a"), warns("b")), said(usher.Allow, warns("b")), "noLongerWarned a: mind"},
		{"no longer warned of what is denied", said(usher.Allow, warns("a")), said(usher.Deny, rejects("b")), "denied b: no b"},
		{"no longer warned, and was denied", said(usher.Deny, rejects("b"), warns("a")), said(usher.Allow), "allowed b: no b"},
		{"no longer warned, by an exemption", said(usher.Allow, warns("a")), said(usher.Allow, checks(usher.Exempted, usher.ActWarn, "", "mind")), "noLongerWarned a: mind"},
		{"no longer audited", said(usher.Allow, checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), said(usher.Allow), "noLongerAudited a: no tag"},
		{"denied by no policy", said(usher.Allow), said(usher.Deny), "denied : no"},
		{"allowed", said(usher.Deny, rejects("a")), said(usher.Allow), "allowed a: no a"},
		{"a failure that denies is both", said(usher.Allow), said(usher.Deny, fails("a", false)), "failing a: broken; denied a: broken"},
		{"a failure that is ignored", said(usher.Allow), said(usher.Allow, fails("a", true)), "failing a: broken"},
		{"a failure as before", said(usher.Allow, fails("a", true)), said(usher.Allow, fails("a", true)), ""},
		{"a failure that denies now", said(usher.Allow, fails("a", true)), said(usher.Deny, fails("a", false)), "denied a: broken"},
		{"warned", said(usher.Allow), said(usher.Allow, warns("a")), "warned a: mind"},
		{"audited", said(usher.Allow), said(usher.Allow, checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), "audited a: no tag"},
		{"audited as before", said(usher.Allow, checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), said(usher.Allow, checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), ""},
		{"audited, and warned of before", said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag")), said(usher.Allow, checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), "noLongerWarned a: no tag"},
		{"warned of, and audited before", said(usher.Allow, checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), said(usher.Allow, checks(usher.Passed, usher.ActWarn, "v[0]", "no tag")), "warned a: no tag"},
		{"a rule that would deny", said(usher.Allow), said(usher.Allow, usher.Finding{Policy: usher.PolicyRef{Name: "a"}, Outcome: usher.WouldDeny, Message: "no a"}), "audited a: no a"},
		{"audited of what another one denies", said(usher.Deny, rejects("b")), said(usher.Deny, rejects("b"), checks(usher.Passed, usher.ActAudit, "v[0]", "no tag")), ""},
		{"warned of what is denied", said(usher.Deny, rejects("b")), said(usher.Deny, rejects("b"), warns("a")), ""},
		{"changed", said(usher.Allow, sets("a", "/x")), said(usher.Allow, sets("a", "/y")), "changed a: changes /y"},
		{"no longer changed", said(usher.Allow, sets("a", "/x")), said(usher.Allow), "changed a: no longer changes the object"},
		{"changed as before", said(usher.Allow, sets("a", "/x")), said(usher.Allow, sets("a", "/x")), ""},
		{"changed by another policy", said(usher.Allow, sets("a", "/x")), said(usher.Allow, sets("b", "/x")), ""},
		{"changed in another order", said(usher.Allow, sets("a", "/x"), sets("b", "/y")), said(usher.Allow, sets("b", "/y"), sets("a", "/x")), "changed : policies change the object in another order"},
		{"what is denied comes out in no way", said(usher.Deny, rejects("b")), said(usher.Deny, rejects("b"), sets("a", "/x")), ""},
	} {
		var all []string
		for _, d := range diff.Between(diff.Of(test.was), diff.Of(test.is)) {
			all = append(all, fmt.Sprintf("%s %s: %s", d.Kind, d.Policy.Name, d.Message))
		}
		if got := strings.Join(all, "; "); got != test.want {
			t.Errorf("%s: got %q, expected %q", test.reason, got, test.want)
		}
	}
}
