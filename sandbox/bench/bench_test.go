package bench_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A grant lets a team do two things with one kind of objects, in every namespace.
type grant struct {
	team, resource string
	verbs          []string
}

// grants are n grants, ten for each team.
func grants(n int) []grant {
	verbs := []string{"get", "list", "create", "delete"}
	all := make([]grant, n)
	for i := range all {
		all[i] = grant{
			team: fmt.Sprintf("team-%d", i/10), resource: []string{"pods", "secrets", "services"}[i%3],
			verbs: []string{verbs[i%4], verbs[(i+1)%4]},
		}
	}
	return all
}

// kubernetes has a ClusterRole and a ClusterRoleBinding for each grant, in the caches that
// an API server has.
func kubernetes(tb testing.TB, all []grant) authorizer.Authorizer {
	tb.Helper()
	roles, bindings := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for i, g := range all {
		name := metav1.ObjectMeta{Name: fmt.Sprintf("g%06d", i)}
		role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{Verbs: g.verbs, APIGroups: []string{""}, Resources: []string{g.resource}}}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g.team}},
		}
		if err := roles.Add(role); err != nil {
			tb.Fatal(err)
		}
		if err := bindings.Add(binding); err != nil {
			tb.Fatal(err)
		}
	}
	return rbac.New(
		&rbac.RoleGetter{Lister: rbaclisters.NewRoleLister(none)}, &rbac.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(none)},
		&rbac.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(roles)}, &rbac.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(bindings)},
	)
}

// ours has a policy for each grant.
func ours(all []grant) *engine.Engine {
	rules := make([]*authz.Rule, len(all))
	literal := func(texts ...string) authz.Set {
		var s authz.Set
		for _, text := range texts {
			s.Patterns = append(s.Patterns, authz.Pattern{Prefix: text})
		}
		return s
	}
	for i, g := range all {
		rules[i] = &authz.Rule{
			Policy: &authz.Policy{
				Ref:  usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: fmt.Sprintf("g%06d", i)},
				Tier: authz.Cluster, Effect: authz.Allow,
				Subjects: []authz.Subject{{Groups: literal(g.team).Patterns}},
			},
			Name: "spec.rules[0]", Verbs: literal(g.verbs...), Groups: literal(""), Versions: authz.Set{Any: true},
			Resources: []authz.Resource{{Name: g.resource}}, Names: authz.Set{Any: true}, Namespaces: authz.Set{Any: true},
		}
	}
	return engine.New(index.New(rules), engine.Options{})
}

// A question is asked by somebody who is in three teams.
type question struct {
	name, verb, resource string
	teams                []string
}

// questions are one that is granted by one of the last grants of n, and one that is not.
func questions(n int) []question {
	last := n/10 - 1
	teams := []string{"system:authenticated", fmt.Sprintf("team-%d", last/2), fmt.Sprintf("team-%d", last)}
	return []question{{"allowed", "get", "pods", teams}, {"no opinion", "patch", "configmaps", teams}}
}

func (q question) attributes() authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "jane", Groups: q.teams}, Verb: q.verb, Namespace: "shop", APIVersion: "v1",
		Resource: q.resource, Name: "web", ResourceRequest: true,
	}
}

func (q question) request() *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: usher.User{Name: "jane", Groups: q.teams},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: q.resource}, Name: "web", Namespace: "shop",
		Access: &usher.Access{Verb: q.verb},
	}
}

// Both give the same answers.
func TestAnswersAreTheSame(t *testing.T) {
	t.Parallel()
	all := grants(1000)
	theirs, ours := kubernetes(t, all), ours(all)
	seen := map[usher.Verdict]int{}
	for team := range 100 {
		for _, verb := range []string{"get", "list", "create", "delete", "patch"} {
			for _, resource := range []string{"pods", "secrets", "services", "configmaps"} {
				q := question{verb: verb, resource: resource, teams: []string{fmt.Sprintf("team-%d", team)}}
				want, _, err := theirs.Authorize(t.Context(), q.attributes())
				if err != nil {
					t.Fatal(err)
				}
				got, err := ours.Decide(t.Context(), q.request())
				if err != nil || (got.Verdict == usher.Allow) != (want == authorizer.DecisionAllow) {
					t.Errorf("%+v: %s, %v, RBAC says %v", q, got.Verdict, err, want)
				}
				seen[got.Verdict]++
			}
		}
	}
	if seen[usher.Allow] == 0 || seen[usher.NoOpinion] == 0 {
		t.Errorf("answers are %v", seen)
	}
}

func Benchmark(b *testing.B) {
	for _, n := range []int{100, 1000, 10000, 100000} {
		all := grants(n)
		for _, side := range []struct {
			name string
			make func() func(context.Context, question) func() error
		}{
			{"rbac", func() func(context.Context, question) func() error {
				a := kubernetes(b, all)
				return func(ctx context.Context, q question) func() error {
					attributes := q.attributes()
					return func() error { _, _, err := a.Authorize(ctx, attributes); return err }
				}
			}},
			{"usher", func() func(context.Context, question) func() error {
				e := ours(all)
				return func(ctx context.Context, q question) func() error {
					request := q.request()
					return func() error { _, err := e.Decide(ctx, request); return err }
				}
			}},
		} {
			asking := side.make()
			for _, q := range questions(n) {
				b.Run(fmt.Sprintf("%d/%s/%s", n, q.name, side.name), func(b *testing.B) {
					ask := asking(b.Context(), q)
					b.ReportAllocs()
					for b.Loop() {
						if err := ask(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
