package authz_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule/authz"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// compare looks requests up in an index of n policies, and reports how many matches there were.
func compare(t *testing.T, g generator, n, requests int) int {
	t.Helper()
	ix := index.New(g.rules(n))
	found := 0
	for range requests {
		r := g.request()
		q := authz.QueryOf(r, nil)
		want, got := places(ix.Scan, &q), places(ix.Matching, &q)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d policies, user %+v, %+v %+v %q %q/%q (-scan +index):\n%s", n, r.User, r.Access, r.Resource, r.Subresource, r.Namespace, r.Name, diff)
		}
		found += len(got)
	}
	return found
}

func places(look func(*authz.Query, func(int32) bool), q *authz.Query) []int32 {
	var all []int32
	look(q, func(place int32) bool {
		all = append(all, place)
		return true
	})
	return all
}

func TestMatchingStops(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 1000} {
		ix := index.New(many(n, true))
		q := authz.QueryOf(member("team-4"), nil)
		all := places(ix.Matching, &q)
		var some []int32
		ix.Matching(&q, func(place int32) bool {
			some = append(some, place)
			return len(some) < 2
		})
		if want := all[:min(2, len(all))]; !cmp.Equal(want, some) {
			t.Errorf("%d rules: %v after stopping at the second of %v", n, some, all)
		}
	}
}

func TestMatchingIsScan(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(1, 2))}
	found := 0
	for _, n := range []int{0, 1, 2, 10, 50, 500, 3000} {
		found += compare(t, g, n, 200)
	}
	if found < 10000 {
		t.Errorf("%d matches: the words are too many to meet", found)
	}
}

func FuzzMatching(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint8(3))
	f.Add(uint64(7), uint64(7), uint8(200))
	f.Fuzz(func(t *testing.T, a, b uint64, n uint8) {
		compare(t, generator{rand.New(rand.NewPCG(a, b))}, int(n), 20)
	})
}

func TestMatchingIsInOrder(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(3, 4))}
	rules := index.New(g.rules(300)).Rules()
	for i := 1; i < len(rules); i++ {
		if rules[i-1].Policy.Compare(rules[i].Policy) > 0 {
			t.Fatalf("%v stands before %v", rules[i-1].Policy, rules[i].Policy)
		}
	}
}

// many are n rules, each for a team of its own in its own namespace, or, if they are dense,
// all for one of ten teams.
func many(n int, dense bool) []*authz.Rule {
	rules := make([]*authz.Rule, n)
	literal := func(text string) authz.Set { return authz.Set{Patterns: []authz.Pattern{{Prefix: text}}} }
	for i := range rules {
		team, namespace := fmt.Sprintf("team-%d", i), fmt.Sprintf("ns-%d", i)
		if dense {
			team, namespace = fmt.Sprintf("team-%d", i%10), fmt.Sprintf("ns-%d", i%100)
		}
		rules[i] = &authz.Rule{
			Policy: &authz.Policy{
				Ref:  usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: fmt.Sprintf("p%06d", i)},
				Tier: authz.Cluster, Effect: authz.Allow,
				Subjects: []authz.Subject{{Groups: []authz.Pattern{{Prefix: team}}}},
			},
			Name: "spec.rules[0]", Verbs: literal([]string{"get", "list", "create", "delete"}[i%4]), Groups: literal(""),
			Versions: authz.Set{Any: true}, Names: authz.Set{Any: true}, Namespaces: literal(namespace),
			Resources: []authz.Resource{{Name: []string{"pods", "secrets", "services"}[i%3]}},
		}
	}
	return rules
}

func member(team string) *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "jane", Groups: []string{team, "system:authenticated"}},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Namespace: "ns-24",
		Access: &usher.Access{Verb: "get"},
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	for _, dense := range []bool{false, true} {
		ix := index.New(many(10000, dense))
		r := member("team-24")
		if dense {
			r = member("team-4")
		}
		found := 0
		q := authz.QueryOf(r, nil)
		count := func(int32) bool {
			found++
			return true
		}
		if allocs := testing.AllocsPerRun(100, func() { ix.Matching(&q, count) }); allocs != 0 || found == 0 {
			t.Errorf("dense %t: %v allocations, %d matches", dense, allocs, found)
		}
	}
}

func BenchmarkMatching(b *testing.B) {
	for _, n := range []int{100, 1000, 10000, 100000} {
		for name, dense := range map[string]bool{"sparse": false, "dense": true} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				ix := index.New(many(n, dense))
				r := member("team-24")
				if dense {
					r = member("team-4")
				}
				q := authz.QueryOf(r, nil)
				first := func(int32) bool { return false }
				b.ReportAllocs()
				for b.Loop() {
					ix.Matching(&q, first)
				}
			})
		}
	}
}
