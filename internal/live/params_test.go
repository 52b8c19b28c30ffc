package live_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/source"
)

// limit is an admission policy with params of a kind.
func limit(paramKind *admissionv1.ParamKind) api.Policy {
	return api.Policy{Object: &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "limit"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			ParamKind: paramKind,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{"*"},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "true"}},
		},
	}}
}

// bound is a binding of an admission policy.
func bound(policy string, ref *admissionv1.ParamRef) api.Policy {
	return api.Policy{Object: &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bound"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy, ParamRef: ref, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}}
}

func paramRef(namespace, name string, notFound admissionv1.ParameterNotFoundActionType) *admissionv1.ParamRef {
	return &admissionv1.ParamRef{Namespace: namespace, Name: name, ParameterNotFoundAction: &notFound}
}

// reading is an object policy that reads data.
func reading(source usherv1alpha1.DataSource) api.Policy {
	source.Name = "quota"
	return api.Policy{Object: &usherv1alpha1.ClusterObjectPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "reading"},
		Spec: usherv1alpha1.ClusterObjectPolicySpec{ObjectPolicySpec: usherv1alpha1.ObjectPolicySpec{
			MatchConstraints: *limit(nil).Object.(*admissionv1.ValidatingAdmissionPolicy).Spec.MatchConstraints,
			Data:             []usherv1alpha1.DataSource{source},
			Validations:      []usherv1alpha1.Validation{{Expression: "has(data.quota)"}},
		}},
	}}
}

// A policy that does nothing, or denies everything, never looks healthy.
func TestPoliciesThatDoNothingAreProblems(t *testing.T) {
	t.Parallel()
	configMap := &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	custom := &admissionv1.ParamKind{APIVersion: "example.com/v1", Kind: "Limit"}
	everything := &admissionv1.ParamRef{Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: new(admissionv1.AllowAction)}
	data := func(namespace, name string, missing usherv1alpha1.OnMissing) usherv1alpha1.DataSource {
		return usherv1alpha1.DataSource{
			Object: &usherv1alpha1.DataObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}, OnMissing: missing,
		}
	}
	const fails = ": the policy fails for every request that reads data.quota"
	const denies, nothing = ": every request that the binding is for is denied", ": the binding does nothing"
	for _, test := range []struct {
		reason   string
		policies []api.Policy
		value    any
		err      error
		want     string
	}{
		{"no binding", []api.Policy{limit(nil)}, nil, nil, "no binding puts the policy into force: it does nothing"},
		{"no policy", []api.Policy{bound("limits", nil)}, nil, nil, "there is no ValidatingAdmissionPolicy limits: the binding does nothing"},
		{"both", []api.Policy{limit(nil), bound("limit", nil)}, nil, nil, ""},
		{"params without a kind", []api.Policy{limit(nil), bound("limit", paramRef("shop", "few", "Deny"))}, nil, nil, "the policy limit has no paramKind: the binding has no params"},
		{"params that exist", []api.Policy{limit(configMap), bound("limit", paramRef("shop", "few", "Deny"))}, map[string]any{}, nil, ""},
		{"none, denied", []api.Policy{limit(configMap), bound("limit", paramRef("shop", "few", "Deny"))}, nil, &fact.NotFound{}, "there is no v1 ConfigMap shop/few" + denies},
		{"none, allowed", []api.Policy{limit(configMap), bound("limit", paramRef("shop", "few", "Allow"))}, nil, &fact.NotFound{}, "there is no v1 ConfigMap shop/few" + nothing},
		{"none selected", []api.Policy{limit(custom), bound("limit", everything)}, []any{}, nil, "there is no example.com/v1 Limit ()" + nothing},
		{"some selected", []api.Policy{limit(custom), bound("limit", everything)}, []any{map[string]any{}}, nil, ""},
		{"those of each namespace", []api.Policy{limit(configMap), bound("limit", paramRef("", "few", "Deny"))}, nil, &fact.NotFound{}, ""},
		{"those of each namespace, of a custom kind", []api.Policy{limit(custom), bound("limit", everything)}, nil, &fact.WrongScope{Namespaced: true}, ""},
		{"a namespace that is too much", []api.Policy{limit(custom), bound("limit", paramRef("shop", "few", "Allow"))}, nil, &fact.WrongScope{}, "objects of the kind Limit are in no namespace" + denies},
		{"no such kind", []api.Policy{limit(custom), bound("limit", everything)}, nil, &fact.NoKind{APIVersion: "example.com/v1", Kind: "Limit"}, "there is no kind Limit in example.com/v1" + denies},
		{"data that exists", []api.Policy{reading(data("shop", "few", ""))}, map[string]any{}, nil, ""},
		{"no data", []api.Policy{reading(data("shop", "few", ""))}, nil, &fact.NotFound{}, "there is no v1 ConfigMap shop/few" + fails},
		{"no data, or null", []api.Policy{reading(data("shop", "few", "Null"))}, nil, &fact.NotFound{}, ""},
		{"data of the namespace of each request", []api.Policy{reading(data("", "few", ""))}, nil, &fact.NotFound{}, ""},
		{"data in a namespace that is too much", []api.Policy{reading(data("shop", "few", ""))}, nil, &fact.WrongScope{}, "objects of the kind ConfigMap are in no namespace" + fails},
		{"data of no such kind", []api.Policy{reading(data("shop", "few", ""))}, nil, &fact.NoKind{APIVersion: "v1", Kind: "ConfigMap"}, "there is no kind ConfigMap in v1" + fails},
		{"no right to read data", []api.Policy{reading(data("", "few", "Null"))}, nil, errors.New("forbidden"), "data.quota cannot be read: forbidden" + fails},
		{"no right to read them", []api.Policy{limit(custom), bound("limit", everything)}, nil, errors.New("forbidden"), "the params cannot be read: forbidden" + denies},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
				if ref.(*fact.Object).Name == "marker" {
					return nil, &fact.NotFound{}
				}
				return test.value, test.err
			})
			want := []string{"there is no v1 ConfigMap shop/marker: the binding does nothing"}
			if test.want != "" {
				want = append(want, test.want)
			}
			// The marker tells that all params have been read.
			marker := named("marker", limit(&admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}), bound("marker", paramRef("shop", "marker", "Allow")))
			eventually(t, follow(t, facts, sourceOf(set(append(marker, test.policies...)...))), want)
		})
	}
}

// named are policies with another name.
func named(name string, policies ...api.Policy) []api.Policy {
	for _, p := range policies {
		p.Object.SetName(name)
	}
	return policies
}

// follow follows a source for the time of the test.
func follow(t *testing.T, facts fact.Resolver, s source.Source) *live.Live {
	t.Helper()
	l := live.New(live.Options{Facts: facts})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return l
}

// sourceOf is a source that does not change.
func sourceOf(set source.Set) source.Source {
	return sourceFunc(func(ctx context.Context, update func(source.Set)) error {
		update(set)
		<-ctx.Done()
		return nil
	})
}

// eventually waits until the problems are those of want, in any order.
func eventually(t *testing.T, l *live.Live, want []string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		got = nil
		for _, p := range l.Status().Problems {
			got = append(got, p.What)
		}
		slices.Sort(got)
		if l.Status().Generation > 0 && cmp.Equal(want, got) {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Errorf("the problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// Params that come and go are told when policies change, at the latest.
func TestParamsThatComeAreNoProblem(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	exists := false
	facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if exists {
			return map[string]any{}, nil
		}
		return nil, &fact.NotFound{}
	})
	a := newScript()
	l := follow(t, facts, a)
	policies := []api.Policy{limit(&admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}), bound("limit", paramRef("shop", "few", "Allow"))}
	a.update(set(policies...))
	eventually(t, l, []string{"there is no v1 ConfigMap shop/few: the binding does nothing"})
	mu.Lock()
	exists = true
	mu.Unlock()
	a.update(set(append(policies, label("a", "x", "1"))...))
	eventually(t, l, nil)
}
