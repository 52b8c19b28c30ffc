package authz_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A scan is a matcher that tries every rule.
type scan []*authz.Rule

func (s scan) Rules() []*authz.Rule { return s }

func (s scan) Matching(q *authz.Query, yield func(int32) bool) {
	for i, r := range s {
		if r.Matches(q) && !yield(int32(i)) {
			return
		}
	}
}

// matching returns the matcher for policies, each with one rule for everything.
func matching(policies ...*authz.Policy) scan {
	var rules scan
	for _, p := range policies {
		rules = append(rules, everything(p, "spec.rules[0]"))
	}
	authz.Sort(rules)
	return rules
}

func everything(p *authz.Policy, name string) *authz.Rule {
	every := authz.Set{Any: true}
	return &authz.Rule{
		Policy: p, Name: name, Verbs: every, Groups: every, Versions: every, Names: every, Namespaces: every,
		Resources: []authz.Resource{{Every: true}},
	}
}

func policy(name string, tier authz.Tier, effect authz.Effect, changes ...func(*authz.Policy)) *authz.Policy {
	p := &authz.Policy{
		Ref: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: name}, Tier: tier, Effect: effect,
		Subjects:   []authz.Subject{{Users: []authz.Pattern{{Star: true}}}},
		SkipErrors: effect == authz.Allow,
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// A says is a predicate that always says the same, and counts.
type says struct {
	holds bool
	err   error
	panic bool
	asked *int
}

func (s says) Holds(context.Context, *authz.Query) (bool, error) {
	if s.asked != nil {
		*s.asked++
	}
	if s.panic {
		panic("oops")
	}
	return s.holds, s.err
}

var errBroken = errors.New("broken")

func when(source string, s says) func(*authz.Policy) {
	return func(p *authz.Policy) {
		p.When = append(p.When, authz.Condition{Name: source, Source: source, Predicate: s})
	}
}

func unless(source string, s says) func(*authz.Policy) {
	return func(p *authz.Policy) {
		p.Unless = append(p.Unless, authz.Condition{Name: source, Source: source, Predicate: s})
	}
}

func audit(p *authz.Policy) { p.Audit = true }

func skipping(p *authz.Policy) { p.SkipErrors = true }

func request(user string, groups ...string) *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: user, Groups: groups},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Namespace: "shop",
		Access: &usher.Access{Verb: "get"},
	}
}

// outcome is a decision in one line: the verdict, and each finding as outcome, policy and
// whether it is ignored.
func outcome(d usher.Decision) string {
	verdict := string(d.Verdict)
	if verdict == "" {
		verdict = "none"
	}
	words := []string{verdict}
	for _, f := range d.Findings {
		word := fmt.Sprintf("%s %s", f.Outcome, f.Policy.Name)
		if f.Ignored {
			word += " (ignored)"
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	yes, no, fails := says{holds: true}, says{}, says{err: errBroken}
	const deny, abstain, allow = authz.Deny, authz.Abstain, authz.Allow
	for _, test := range []struct {
		reason   string
		policies []*authz.Policy
		want     string
	}{
		{"no policy", nil, "none"},
		{"an allow", []*authz.Policy{policy("a", authz.Cluster, allow)}, "allow; passed a"},
		{"one allow of two suffices", []*authz.Policy{policy("b", authz.Cluster, allow), policy("a", authz.Cluster, allow)}, "allow; passed a"},
		{"a deny", []*authz.Policy{policy("a", authz.Cluster, deny)}, "deny; rejected a"},
		{"every deny is told", []*authz.Policy{policy("a", authz.Cluster, deny), policy("b", authz.Cluster, deny)}, "deny; rejected a; rejected b"},
		{"deny wins in a tier", []*authz.Policy{policy("a", authz.Cluster, allow), policy("b", authz.Cluster, deny), policy("c", authz.Cluster, abstain)}, "deny; rejected b"},
		{"abstain wins over allow", []*authz.Policy{policy("a", authz.Cluster, allow), policy("b", authz.Cluster, abstain)}, "none; passed b"},
		{"an earlier tier wins", []*authz.Policy{policy("a", authz.Platform, allow), policy("b", authz.Cluster, deny)}, "allow; passed a"},
		{"abstain ends later tiers", []*authz.Policy{policy("a", authz.Platform, abstain), policy("b", authz.Cluster, deny), policy("c", authz.Namespace, allow)}, "none; passed a"},
		{"the first tier is safeguard", []*authz.Policy{policy("a", authz.Platform, allow), policy("b", authz.Safeguard, deny)}, "deny; rejected b"},

		{"a deny on trial", []*authz.Policy{policy("a", authz.Platform, deny, audit), policy("b", authz.Cluster, allow)}, "allow; wouldDeny a (ignored); passed b"},
		{"an allow on trial", []*authz.Policy{policy("a", authz.Cluster, allow, audit)}, "none; passed a (ignored)"},
		{"an abstain on trial", []*authz.Policy{policy("a", authz.Cluster, abstain, audit), policy("b", authz.Cluster, allow)}, "allow; passed a (ignored); passed b"},

		{"a condition that holds", []*authz.Policy{policy("a", authz.Cluster, allow, when("x", yes))}, "allow; passed a"},
		{"a condition that does not hold", []*authz.Policy{policy("a", authz.Cluster, allow, when("x", yes), when("y", no))}, "none"},
		{"an unless that holds", []*authz.Policy{policy("a", authz.Cluster, deny, unless("x", yes))}, "none"},
		{"an unless that does not", []*authz.Policy{policy("a", authz.Cluster, deny, unless("x", no))}, "deny; rejected a"},
		{"a deny whose condition fails", []*authz.Policy{policy("a", authz.Cluster, deny, when("x", fails))}, "deny; failed a"},
		{"a deny whose unless fails", []*authz.Policy{policy("a", authz.Cluster, deny, unless("x", fails))}, "deny; failed a"},
		{"an abstain whose condition fails", []*authz.Policy{policy("a", authz.Cluster, abstain, when("x", fails)), policy("b", authz.Cluster, allow)}, "none; failed a"},
		{"a deny that skips errors", []*authz.Policy{policy("a", authz.Cluster, deny, skipping, when("x", fails)), policy("b", authz.Cluster, allow)}, "allow; failed a (ignored); passed b"},
		{"an allow whose condition fails", []*authz.Policy{policy("a", authz.Cluster, allow, when("x", fails))}, "none; failed a (ignored)"},
		{"an allow whose unless fails", []*authz.Policy{policy("a", authz.Cluster, allow, unless("x", fails))}, "none; failed a (ignored)"},
		{"what is known to be false wins over what fails", []*authz.Policy{policy("a", authz.Cluster, deny, when("x", fails), when("y", no))}, "none"},
		{"and so does an unless that holds", []*authz.Policy{policy("a", authz.Cluster, deny, unless("x", fails), unless("y", yes))}, "none"},
		{"a condition that panics fails", []*authz.Policy{policy("a", authz.Cluster, deny, when("x", says{panic: true}))}, "deny; failed a"},
		{"a failed deny beside another", []*authz.Policy{policy("a", authz.Cluster, deny), policy("b", authz.Cluster, deny, when("x", fails))}, "deny; rejected a; failed b"},
		{"a deny on trial whose condition fails", []*authz.Policy{policy("a", authz.Cluster, deny, audit, when("x", fails))}, "none; wouldDeny a (ignored)"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			e := engine.New(matching(test.policies...), engine.Options{})
			d, err := e.Decide(t.Context(), request("jane"))
			if err != nil || outcome(d) != test.want {
				t.Errorf("got %s, %v, want %s", outcome(d), err, test.want)
			}
			x, err := e.Explain(t.Context(), request("jane"))
			if err != nil || x.Decision.Verdict != d.Verdict || x.Decision.Message != d.Message {
				t.Errorf("explained as %s %q, %v, decided %s %q", x.Decision.Verdict, x.Decision.Message, err, d.Verdict, d.Message)
			}
			if len(x.Steps) != len(test.policies) {
				t.Errorf("%d of %d rules are explained", len(x.Steps), len(test.policies))
			}
		})
	}
}

func TestProtectedUsers(t *testing.T) {
	t.Parallel()
	subject := authz.Subject{Groups: []authz.Pattern{{Prefix: "breakglass"}}}
	more := func() []authz.Subject { return []authz.Subject{subject} }
	for _, test := range []struct {
		reason  string
		options engine.Options
		request *usher.Request
		want    string
	}{
		{"somebody", engine.Options{}, request("jane"), "deny; rejected a"},
		{"the scheduler", engine.Options{}, request("system:kube-scheduler"), "allow; wouldDeny a (ignored); passed b"},
		{"a node", engine.Options{}, request("system:node:n", "system:nodes"), "allow; wouldDeny a (ignored); passed b"},
		{"who calls himself a node", engine.Options{}, request("system:node:n"), "deny; rejected a"},
		{"a controller", engine.Options{}, request("system:serviceaccount:kube-system:x"), "allow; wouldDeny a (ignored); passed b"},
		{"a service account elsewhere", engine.Options{}, request("system:serviceaccount:kube-system-2:x"), "deny; rejected a"},
		{"one of the file", engine.Options{ProtectedUsers: more}, request("jane", "breakglass"), "allow; wouldDeny a (ignored); passed b"},
		{"the built-in ones besides", engine.Options{ProtectedUsers: more}, request("system:apiserver"), "allow; wouldDeny a (ignored); passed b"},
		{"the built-in ones left out", engine.Options{ProtectedUsers: more, WithoutBuiltin: true}, request("system:apiserver"), "deny; rejected a"},
		{"the switch", engine.Options{KillSwitch: func() bool { return true }}, request("jane"), "allow; wouldDeny a (ignored); passed b"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			e := engine.New(matching(policy("a", authz.Cluster, authz.Deny), policy("b", authz.Cluster, authz.Allow)), test.options)
			if d, err := e.Decide(t.Context(), test.request); err != nil || outcome(d) != test.want {
				t.Errorf("got %s, %v, want %s", outcome(d), err, test.want)
			}
		})
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	limited := policy("a", authz.Cluster, authz.Deny, func(p *authz.Policy) { p.Until = noon })
	unconfirmed := policy("b", authz.Platform, authz.Deny, func(p *authz.Policy) { p.Confirm = noon.Add(-time.Hour) })
	for after, want := range map[time.Duration]string{
		-2 * time.Hour:   "deny; rejected b",
		-time.Hour:       "deny; wouldDeny b (ignored); rejected a",
		-time.Nanosecond: "deny; wouldDeny b (ignored); rejected a",
		0:                "none; wouldDeny b (ignored)",
	} {
		e := engine.New(matching(limited, unconfirmed), engine.Options{Now: func() time.Time { return noon.Add(after) }})
		if d, err := e.Decide(t.Context(), request("jane")); err != nil || outcome(d) != want {
			t.Errorf("%s from noon: got %s, %v, want %s", after, outcome(d), err, want)
		}
	}
}

func TestConditionsAreEvaluatedOnceARequest(t *testing.T) {
	t.Parallel()
	asked := 0
	same := says{asked: &asked}
	e := engine.New(matching(
		policy("a", authz.Platform, authz.Allow, when("x", same)), policy("b", authz.Cluster, authz.Allow, when("x", same)),
		policy("c", authz.Cluster, authz.Deny, when("x", same)),
	), engine.Options{})
	for n := 1; n <= 3; n++ {
		if d, err := e.Decide(t.Context(), request("jane")); err != nil || outcome(d) != "none" || asked != n {
			t.Errorf("request %d: %s, %v, asked %d times", n, outcome(d), err, asked)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	say := func(text string) func(*authz.Policy) { return func(p *authz.Policy) { p.Message = text } }
	for _, test := range []struct {
		policy *authz.Policy
		want   string
	}{
		{policy("a", authz.Cluster, authz.Deny), "denied by policy a (cluster)"},
		{policy("a", authz.Platform, authz.Deny, say("use the console")), "denied by policy a (platform): use the console"},
		{policy("a", authz.Cluster, authz.Deny, say("<b>\x1b[31m\nno")), "denied by policy a (cluster): 'b' [31m no"},
		{policy("a", authz.Cluster, authz.Allow, say("unused")), "allowed by policy a (cluster)"},
		{policy("a", authz.Cluster, authz.Abstain, say("ask RBAC")), "left to other authorizers by policy a (cluster): ask RBAC"},
	} {
		d, err := engine.New(matching(test.policy), engine.Options{}).Decide(t.Context(), request("jane"))
		if err != nil || d.Message != test.want {
			t.Errorf("got %q, %v, want %q", d.Message, err, test.want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	e := engine.New(matching(), engine.Options{})
	if _, err := e.Decide(t.Context(), &usher.Request{Phase: usher.Mutate}); err == nil {
		t.Error("a request of another phase is decided")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	if _, err := e.Decide(ctx, request("jane")); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := e.Explain(ctx, request("jane")); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// A request that runs out of time while conditions are evaluated is decided by what
// failing means to each policy.
func TestDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ending := authz.Condition{Name: "x", Source: "x", Predicate: predicate(func() (bool, error) { cancel(); return false, nil })}
	e := engine.New(matching(
		policy("a", authz.Platform, authz.Allow, func(p *authz.Policy) { p.When = []authz.Condition{ending} }),
		policy("b", authz.Cluster, authz.Deny, when("y", says{})),
	), engine.Options{})
	d, err := e.Decide(ctx, request("jane"))
	if err != nil || outcome(d) != "deny; failed b" || !errors.Is(d.Findings[0].Err, context.Canceled) {
		t.Errorf("got %s, %v", outcome(d), err)
	}
}

type predicate func() (bool, error)

func (p predicate) Holds(context.Context, *authz.Query) (bool, error) { return p() }

func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	var policies []*authz.Policy
	for i := range 100 {
		policies = append(policies, policy(fmt.Sprintf("p%03d", i), authz.Cluster, authz.Deny))
	}
	d, err := engine.New(matching(policies...), engine.Options{}).Decide(t.Context(), request("jane"))
	if err != nil || d.Verdict != usher.Deny || len(d.Findings) != 32 {
		t.Errorf("%s with %d findings, %v", d.Verdict, len(d.Findings), err)
	}
}

func TestOnePolicyHasOneFinding(t *testing.T) {
	t.Parallel()
	p := policy("a", authz.Cluster, authz.Deny)
	e := engine.New(scan{everything(p, "spec.rules[0]"), everything(p, "spec.rules[1]")}, engine.Options{})
	if d, err := e.Decide(t.Context(), request("jane")); err != nil || outcome(d) != "deny; rejected a" {
		t.Errorf("got %s, %v", outcome(d), err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	named := everything(policy("hide", authz.Cluster, authz.Deny), "spec.rules[0]")
	named.Names = authz.Set{Patterns: []authz.Pattern{{Prefix: "db-root"}}}
	near := everything(policy("near", authz.Cluster, authz.Allow), "spec.rules[0]")
	near.Namespaces = authz.Set{Patterns: []authz.Pattern{{Prefix: "bank"}}}
	far := everything(policy("far", authz.Cluster, authz.Allow), "spec.rules[0]")
	far.Namespaces, far.Verbs = near.Namespaces, authz.Set{Patterns: []authz.Pattern{{Prefix: "delete"}}}
	unmet := everything(policy("unmet", authz.Cluster, authz.Allow, when("hours", says{})), "spec.rules[0]")
	late := everything(policy("late", authz.Namespace, authz.Allow), "spec.rules[0]")
	rules := scan{named, near, far, unmet, late}
	authz.Sort(rules)
	list := request("jane")
	list.Name, list.Access = "", &usher.Access{Verb: "list"}
	x, err := engine.New(rules, engine.Options{}).Explain(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range x.Steps {
		got = append(got, fmt.Sprintf("%s %s %s", step.Rule.Policy.Ref.Name, step.Outcome, step.Why))
	}
	for _, n := range x.NearMatches {
		got = append(got, fmt.Sprintf("%s nearly: %s", n.Rule.Policy.Ref.Name, n.Mismatch))
	}
	want := []string{
		"hide decides names [db-root] are part of an unnamed list",
		"unmet unmet when hours",
		"late overruled by hide (cluster)",
		`near nearly: namespace "shop" is not bank`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if i := slices.IndexFunc(x.Steps, func(s engine.Step) bool { return len(s.Evaluated) == 1 }); i < 0 || x.Steps[i].Evaluated[0].Holds {
		t.Errorf("the condition is not told: %+v", x.Steps)
	}
}
