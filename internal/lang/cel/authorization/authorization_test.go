package authorization_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/authorization"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
	"github.com/usher-dev/usher/internal/rule/authz"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func podRequest() *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize,
		User: usher.User{
			Name: "system:serviceaccount:ci:builder", UID: "u1", Groups: []string{"devs", "system:authenticated"},
			Extra: map[string][]string{"amr": {"pwd", "mfa"}},
		},
		Resource:    schema.GroupVersionResource{Group: "", Version: "v1", Resource: "pods"},
		Subresource: "log", Name: "web-1", Namespace: "ci",
		Access: &usher.Access{
			Verb:   "list",
			Labels: []usher.Requirement{{Key: "owner", Operator: "In", Values: []string{"builder"}}},
			Fields: []usher.Requirement{{Key: "spec.nodeName", Operator: "In", Values: []string{"n1"}}},
		},
	}
}

func pathRequest() *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "jane"},
		Access: &usher.Access{Verb: "get", Path: "/metrics", NonResource: true},
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		source string
		pod    string
		path   string
	}{
		{"true", "true", "true"},
		{"request.user == 'jane'", "false", "true"},
		{"request.namespace == 'ci' && request.name.startsWith('web-')", "true", "false"},
		{"request.verb == 'list' && request.resource == 'pods' && request.subresource == 'log' && request.group == '' && request.version == 'v1'", "true", "false"},
		{"'devs' in request.groups", "true", "false"},
		{"request.uid == 'u1'", "true", "false"},
		{"'mfa' in request.extra['amr']", "true", "no such key: amr"},
		{"has(request.extra) && request.extra['amr'].exists(m, m == 'mfa')", "true", "false"},
		{"request.extra.?amr.orValue([]).size() == 2", "true", "false"},
		{"request.serviceAccount.namespace == request.namespace", "true", "the user is no service account"},
		{"has(request.serviceAccount) && request.serviceAccount.name == 'builder'", "true", "false"},
		{"request.resourceAttributes.namespace == 'ci'", "true", "the request is not for a resource"},
		{"has(request.resourceAttributes)", "true", "false"},
		{"has(request.nonResourceAttributes) && request.nonResourceAttributes.path == '/metrics'", "false", "true"},
		{"request.path == '/metrics'", "false", "true"},
		{"request.selects('owner', request.serviceAccount.name)", "true", "the user is no service account"},
		{"request.selects('owner', 'joe') || request.selects('team', 'a')", "false", "false"},
		{"request.selectsField('spec.nodeName', 'n1')", "true", "false"},
		{"request.isWildcard", "false", "false"},
		{"request.name.matches('^web-[0-9]$')", "true", "false"},
		{"ip('10.0.0.1').family() == 4 && quantity('1Ki').isInteger() && 'a,b'.split(',').size() == 2", "true", "true"},
		{"sets.contains(request.groups, ['devs'])", "true", "false"},
		{"false && request.extra['none'][0] == 'x'", "false", "false"},
	} {
		t.Run(test.source, func(t *testing.T) {
			t.Parallel()
			predicate, problems := authorization.Compile(test.source)
			if problems != nil {
				t.Fatal(problems)
			}
			for name, want := range map[string]string{"pod": test.pod, "path": test.path} {
				q := authz.QueryOf(map[string]*usher.Request{"pod": podRequest(), "path": pathRequest()}[name], nil)
				holds, err := predicate.Holds(t.Context(), &q)
				switch {
				case err != nil && !strings.Contains(err.Error(), want):
					t.Errorf("%s: error %v, want %s", name, err, want)
				case err == nil && want != map[bool]string{true: "true", false: "false"}[holds]:
					t.Errorf("%s: %t, want %s", name, holds, want)
				}
			}
		})
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	list, chain := "["+strings.Repeat("1,", 200)+"1]", strings.Repeat(".map(a, [a, a])", 24)
	few, many := pathRequest(), pathRequest()
	few.User.Groups = []string{"devs", "system:authenticated"}
	for i := range 1000 {
		many.User.Groups = append(many.User.Groups, fmt.Sprintf("group-%d", i))
	}
	for _, row := range []struct {
		reason, source string
		request        *usher.Request
		exceeded       bool
	}{
		{"loops in loops over constants", list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b + c > 0)))", few, true},
		{"a loop in a loop over few groups", "request.groups.all(a, request.groups.exists(b, a == b))", few, false},
		{"the same over many groups", "request.groups.all(a, request.groups.exists(b, a == b))", many, true},
		{"a loop over many groups, which costs less than its bound", "request.groups.all(a, a.startsWith('group-'))", many, false},
		{"counted, and cheap", "request.groups.distinct().size() > 1", few, false},
		{"many groups compared with each other", "request.groups.distinct().size() > 1", many, true},
		{"lists of lists, each twice", "[request.user]" + chain + " == [request.user]" + chain, few, true},
		{"an exponent", "isQuantity('1e-999999999') || request.user == 'x'", few, true},
		{"a list too long to be made", "lists.range(1000000000).size() > 0", few, true},
	} {
		predicate, problems := authorization.Compile(row.source)
		if problems != nil {
			t.Fatal(problems)
		}
		// The second time a program that counts is there.
		for range 2 {
			q := authz.QueryOf(row.request, nil)
			holds, err := predicate.Holds(t.Context(), &q)
			if exceeded := err != nil && (strings.Contains(err.Error(), "cost limit exceeded") || strings.Contains(err.Error(), "takes too")); exceeded != row.exceeded || holds == row.exceeded {
				t.Errorf("%s: got %t, %v; expected the cost to exceed the limit: %t", row.reason, holds, err, row.exceeded)
			}
		}
	}
}

// TestConditionsTakeLittle: API servers wait for conditions with every request.
func TestConditionsTakeLittle(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, source, says string }{
		{"lists in lists", "[request.user]" + strings.Repeat(".map(a, [a, a])", 24) + " == [request.user]" + strings.Repeat(".map(a, [a, a])", 24), "cost limit exceeded"},
		{"texts that double", "[request.user]" + strings.Repeat(".map(a, a + a)", 30) + "[0] == ''", "may use 32 MiB"},
	} {
		predicate, problems := authorization.Compile(row.source)
		if problems != nil {
			t.Fatal(problems)
		}
		q := authz.QueryOf(pathRequest(), nil)
		if _, err := predicate.Holds(t.Context(), &q); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, expected that it %s", row.reason, err, row.says)
		}
	}
}

// TestConditionsHeedTheirContext: one that is not short ends when its request does.
func TestConditionsHeedTheirContext(t *testing.T) {
	t.Parallel()
	predicate, problems := authorization.Compile("lists.range(5000).map(i, string(i)).size() > 1")
	if problems != nil {
		t.Fatal(problems)
	}
	ctx, cancel := context.WithCancel(t.Context())
	q := authz.QueryOf(pathRequest(), nil)
	q.Allowance = allowance.Namespace(nil)
	if holds, err := predicate.Holds(ctx, &q); err != nil || !holds {
		t.Fatalf("before: %t, %v", holds, err)
	}
	cancel()
	if _, err := predicate.Holds(ctx, &q); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ source, what, do string }{
		{"", "the expression is missing", "write one"},
		{"request.user = 'jane'", "Syntax error", "write == to compare"},
		{"request.user", "yields string, not bool", "compare it"},
		{"'x' in request.user.groups", "does not support field selection", "groups, uid and extra are fields of request"},
		{"user == 'jane'", "undeclared reference to 'user'", "write request.user"},
		{"object.spec.x == 1", "undeclared reference to 'object'", "docs/authorization.md"},
		{"request.namespce == 'a'", "undefined field 'namespce'", "docs/authorization.md"},
		{"[?dyn(request.user)] == []", "the compiler panicked", "write it in another way"},
		{"request.name.matches('(')", "invalid matches argument: missing closing ) in (", "correct the regular expression"},
	} {
		t.Run(test.source, func(t *testing.T) {
			t.Parallel()
			predicate, problems := authorization.Compile(test.source)
			if predicate != nil || len(problems) != 1 {
				t.Fatalf("compiled, or problems are not one: %v", problems)
			}
			if p := problems[0]; p.Severity != rule.Error || !strings.Contains(p.What, test.what) || !strings.Contains(p.Do, test.do) {
				t.Errorf("problem %+v, want %q, %q", p, test.what, test.do)
			}
		})
	}
}

func BenchmarkHolds(b *testing.B) {
	for name, source := range map[string]string{
		"comparison": "request.verb == 'list'",
		"clauses":    "request.namespace == 'ci' && request.name.startsWith('web-') && 'devs' in request.groups",
		"extra":      "'mfa' in request.extra['amr']",
		"counted":    "request.groups.exists(g, g == 'system:authenticated')",
	} {
		b.Run(name, func(b *testing.B) {
			predicate, problems := authorization.Compile(source)
			if problems != nil {
				b.Fatal(problems)
			}
			q := authz.QueryOf(podRequest(), nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := predicate.Holds(b.Context(), &q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, problems := authorization.Compile("request.namespace == 'ci' && 'devs' in request.groups"); problems != nil {
			b.Fatal(problems)
		}
	}
}

// TestPatternsThatMatchNothing: a condition with such a pattern compiles, with a warning.
func TestPatternsThatMatchNothing(t *testing.T) {
	t.Parallel()
	predicate, problems := authorization.Compile("request.user.matches('^a$b')")
	if predicate == nil || len(problems) != 1 || problems[0].Severity != rule.Warning || problems[0].At.Column != 22 {
		t.Errorf("%v, %v", predicate, problems)
	}
}
