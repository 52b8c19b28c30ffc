package authz_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/lang/cel/authorization"
	"github.com/usher-dev/usher/internal/rule/authz"
)

var verbs = []string{"get", "list", "create", "delete"}

// many are the rules of n policies of a company: ten for each team, on three kinds of
// objects in its namespace, and every tenth of them a Deny.
func many(n int) []*authz.Rule {
	rules := make([]*authz.Rule, n)
	literal := func(text ...string) authz.Set {
		var s authz.Set
		for _, t := range text {
			s.Patterns = append(s.Patterns, authz.Pattern{Prefix: t})
		}
		return s
	}
	for i := range rules {
		team := i / 10
		p := policy(fmt.Sprintf("p%06d", i), authz.Cluster, authz.Allow)
		if i%10 == 9 {
			p.Effect = authz.Deny
		}
		p.Subjects = []authz.Subject{{Groups: []authz.Pattern{{Prefix: fmt.Sprintf("team-%d", team)}}}}
		rules[i] = &authz.Rule{
			Policy: p, Name: "spec.rules[0]", Verbs: literal(verbs[i%4], verbs[(i+1)%4]), Groups: literal(""),
			Versions: authz.Set{Any: true}, Names: authz.Set{Any: true}, Namespaces: literal(fmt.Sprintf("ns-%d", team)),
			Resources: []authz.Resource{{Name: []string{"pods", "secrets", "services"}[i%3]}},
		}
	}
	return rules
}

// requests are one that a policy allows, one that a policy denies and one that no policy is
// for, by members of three teams.
func requests() []*usher.Request {
	var all []*usher.Request
	for _, want := range []struct{ verb, resource, namespace string }{
		{"get", "pods", "ns-4"}, {"list", "secrets", "ns-4"}, {"get", "pods", "ns-1000000"},
	} {
		all = append(all, &usher.Request{
			Phase:    usher.Authorize,
			User:     usher.User{Name: "jane", Groups: []string{"team-4", "team-5", "team-6", "system:authenticated"}},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: want.resource},
			Name:     "web", Namespace: want.namespace,
			Access: &usher.Access{Verb: want.verb},
		})
	}
	return all
}

func TestDecideAllocatesNothing(t *testing.T) {
	if racing {
		t.Skip("under the race detector pools forget what they hold now and then")
	}
	e := engine.New(index.New(many(10000)), engine.Options{})
	want := []usher.Verdict{usher.Allow, usher.Deny, usher.NoOpinion}
	for i, r := range requests() {
		ctx := t.Context()
		allocs := testing.AllocsPerRun(1000, func() {
			if d, err := e.Decide(ctx, r); err != nil || d.Verdict != want[i] {
				t.Fatalf("got %s, %v, want %s", d.Verdict, err, want[i])
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", want[i], allocs)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := engine.New(index.New(many(n)), engine.Options{})
			all := requests()
			ctx := b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := e.Decide(ctx, all[i%len(all)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkDecideConditions is with three conditions in the policies that match.
func BenchmarkDecideConditions(b *testing.B) {
	var conditions []authz.Condition
	for _, source := range []string{
		"request.namespace != 'prod'", "'system:authenticated' in request.groups", "!request.isWildcard || request.verb == 'list'",
	} {
		predicate, problems := authorization.Compile(source)
		if problems != nil {
			b.Fatal(problems)
		}
		conditions = append(conditions, authz.Condition{Name: source, Source: source, Predicate: predicate})
	}
	rules := many(10000)
	for _, r := range rules {
		r.Policy.When = conditions
	}
	e := engine.New(index.New(rules), engine.Options{})
	r := requests()[0]
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := e.Decide(ctx, r); err != nil || d.Verdict != usher.Allow {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	rules := many(10000)
	for b.Loop() {
		engine.New(index.New(rules), engine.Options{})
	}
}
