package convert_test

import (
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// TestSubjectsAreConditions compares the conditions on users, decided as a ValidatingAdmissionPolicy,
// with the subjects of authorization policies.
func TestSubjectsAreConditions(t *testing.T) {
	t.Parallel()
	texts := []string{"jane", "j", "je", "ja-ne", "janejane", "jané", "é", "", "it's", `a\b`, "a\"b"}
	patterns := []string{"jane", "*", "ja*", "*ne", "j*e", "jane*jane", "é*é", "*'s", `a\*`, "a\"*", ""}
	for _, p := range patterns {
		pattern := patternOf(p)
		asked := decider(t, v1alpha1.Subject{Users: []string{p, "nobody"}})
		groups := decider(t, v1alpha1.Subject{Groups: []string{"none", p}})
		for _, text := range texts {
			if got, want := asked(usher.User{Name: text}), pattern.Matches(text); got != want {
				t.Errorf("user %q is one of %q: %t, want %t", text, p, got, want)
			}
			if got, want := groups(usher.User{Name: "x", Groups: []string{"first", text}}), pattern.Matches(text) || pattern.Matches("first"); got != want {
				t.Errorf("group %q is one of %q: %t, want %t", text, p, got, want)
			}
		}
	}
	if decider(t, v1alpha1.Subject{Groups: []string{"*"}})(usher.User{Name: "x"}) {
		t.Error("a user without groups is in one")
	}
}

func TestServiceAccountsAreConditions(t *testing.T) {
	t.Parallel()
	names := []string{
		"system:serviceaccount:shop:web", "system:serviceaccount:shop:web-1", "system:serviceaccount:shop-1:web", "system:serviceaccount:shop:", "system:serviceaccount::web",
		"system:serviceaccount:shop:web:x", "system:serviceaccount:shop", "jane", "shop/web", "System:serviceaccount:shop:web",
	}
	for _, p := range []string{"shop/web", "shop/*", "*/web", "*/*", "sh*p/w*b", "shop*/web-*"} {
		namespace, name, _ := strings.Cut(p, "/")
		subject := authz.Subject{ServiceAccounts: []authz.ServiceAccount{{Namespace: patternOf(namespace), Name: patternOf(name)}}}
		asked := decider(t, v1alpha1.Subject{ServiceAccounts: []string{p}})
		for _, user := range names {
			q := authz.QueryOf(&usher.Request{User: usher.User{Name: user}}, nil)
			if got, want := asked(usher.User{Name: user}), subject.Has(&q); got != want {
				t.Errorf("%s is one of %s: %t, want %t", user, p, got, want)
			}
		}
	}
}

func patternOf(text string) authz.Pattern {
	prefix, suffix, star := strings.Cut(text, "*")
	return authz.Pattern{Prefix: prefix, Suffix: suffix, Star: star}
}

// decider exports a policy that denies everything of some users, and returns who is denied.
func decider(t *testing.T, s v1alpha1.Subject) func(usher.User) bool {
	t.Helper()
	p := policy(t, `{validations: [{expression: "false"}]}`)
	p.Spec.Subjects = []v1alpha1.Subject{s}
	excluded := p.DeepCopy()
	excluded.Spec.Subjects, excluded.Spec.ExcludeSubjects = nil, p.Spec.Subjects
	denies := func(p *v1alpha1.ClusterObjectPolicy) func(usher.User) bool {
		c, err := convert.To(&api.Policy{Object: p}, []convert.Target{convert.Validating}, nil)
		if err != nil || len(c.Lost) > 0 {
			t.Fatal(err, c.Lost)
		}
		var read []api.Policy
		for _, o := range c.To {
			read = append(read, api.Policy{Object: o})
		}
		rules, problems := compile.Policies(read)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		e := engine.New(index.New(rules), nil, engine.Options{})
		return func(user usher.User) bool {
			object := usher.TreeObject(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "x"}})
			r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "x", Namespace: "x", User: user, Object: object}
			r.Kind.Version, r.Kind.Kind = "v1", "ConfigMap"
			r.Resource.Version, r.Resource.Resource = "v1", "configmaps"
			d, err := e.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(d.Message, "error") {
				t.Errorf("the condition fails: %s", d.Message)
			}
			return d.Verdict == usher.Deny
		}
	}
	some, others := denies(p), denies(excluded)
	return func(user usher.User) bool {
		if some(user) == others(user) {
			t.Errorf("%s is both subject and excluded, or neither", fmt.Sprint(user))
		}
		return some(user)
	}
}
