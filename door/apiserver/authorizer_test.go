package apiserver_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
)

var jane = &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"team": {"shop"}}}

func deciding(d usher.Decision, err error) usher.Decider {
	return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, err })
}

func silently(o apiserver.AuthorizerOptions) apiserver.AuthorizerOptions {
	o.Log = slog.New(slog.DiscardHandler)
	return o
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	failed := usher.Finding{Policy: usher.PolicyRef{Kind: "P", Name: "p"}, Rule: "spec.rules[0]", Outcome: usher.Failed, Err: errors.New("boom")}
	for _, test := range []struct {
		reason   string
		decider  usher.Decider
		options  apiserver.AuthorizerOptions
		decision authorizer.Decision
		because  string
		err      string
	}{
		{
			reason: "allowed", decider: deciding(usher.Decision{Verdict: usher.Allow, Message: "by p"}, nil),
			decision: authorizer.DecisionAllow, because: "by p",
		},
		{reason: "denied", decider: deciding(usher.Denied("not you"), nil), decision: authorizer.DecisionDeny, because: "not you"},
		{reason: "no opinion", decider: deciding(usher.Decision{}, nil), decision: authorizer.DecisionNoOpinion},
		{
			reason: "no opinion without a rule", decider: deciding(usher.Decision{Findings: []usher.Finding{failed}}, nil),
			decision: authorizer.DecisionNoOpinion, err: "P p spec.rules[0]: boom",
		},
		{
			reason: "a denial is no error of the server", decider: deciding(usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{failed}}, nil),
			decision: authorizer.DecisionDeny,
		},
		{reason: "an error denies", decider: deciding(usher.Decision{}, errors.New("boom")), decision: authorizer.DecisionDeny, err: "no decision was reached: boom"},
		{
			reason: "an error is left to others", decider: deciding(usher.Allowed(), errors.New("boom")),
			options: apiserver.AuthorizerOptions{FailurePolicy: usher.Ignore}, decision: authorizer.DecisionNoOpinion, err: "boom",
		},
		{reason: "a verdict that is none", decider: deciding(usher.Decision{Verdict: "perhaps"}, nil), decision: authorizer.DecisionDeny, err: "perhaps"},
		{
			reason:   "a panic is told to the log only",
			decider:  usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic("unlucky") }),
			decision: authorizer.DecisionDeny, err: "the decider panicked",
		},
	} {
		z := apiserver.NewAuthorizer(test.decider, silently(test.options))
		decision, because, err := z.Authorize(t.Context(), authorizer.AttributesRecord{User: jane, Verb: "get", ResourceRequest: true})
		if decision != test.decision || because != test.because {
			t.Errorf("%s: %v %q, want %v %q", test.reason, decision, because, test.decision, test.because)
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.reason, err, test.err)
		}
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	who := usher.User{Name: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"team": {"shop"}}}
	byLabel, err := labels.Parse("a=b,c!=d,e in (f,g),h,!i,j>1")
	if err != nil {
		t.Fatal(err)
	}
	required, _ := byLabel.Requirements()
	byField, err := fields.ParseSelector("metadata.name=web,spec.nodeName!=n")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason     string
		attributes authorizer.AttributesRecord
		want       usher.Request
	}{
		{
			"a path", authorizer.AttributesRecord{User: jane, Verb: "get", Path: "/metrics"},
			usher.Request{Access: &usher.Access{Verb: "get", Path: "/metrics", NonResource: true}},
		},
		{
			"a subresource",
			authorizer.AttributesRecord{
				User: jane, Verb: "update", Namespace: "shop", APIGroup: "apps", APIVersion: "v1", Resource: "deployments",
				Subresource: "scale", Name: "web", ResourceRequest: true, Path: "/not/this",
			},
			usher.Request{
				Resource:    schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
				Subresource: "scale", Namespace: "shop", Name: "web", Access: &usher.Access{Verb: "update"},
			},
		},
		{
			"selectors; what cannot be read or said demands nothing",
			authorizer.AttributesRecord{
				User: jane, Verb: "list", APIVersion: "v1", Resource: "pods", ResourceRequest: true,
				LabelSelectorRequirements: required, LabelSelectorParsingErr: errors.New("one more could not be read"),
				FieldSelectorRequirements: byField.Requirements(),
			},
			usher.Request{
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Access: &usher.Access{
					Verb: "list",
					Labels: []usher.Requirement{
						{Key: "a", Operator: "In", Values: []string{"b"}}, {Key: "c", Operator: "NotIn", Values: []string{"d"}},
						{Key: "e", Operator: "In", Values: []string{"f", "g"}}, {Key: "h", Operator: "Exists"}, {Key: "i", Operator: "DoesNotExist"},
					},
					Fields: []usher.Requirement{
						{Key: "metadata.name", Operator: "In", Values: []string{"web"}}, {Key: "spec.nodeName", Operator: "NotIn", Values: []string{"n"}},
					},
				},
			},
		},
	} {
		var seen *usher.Request
		z := apiserver.NewAuthorizer(usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("there is no deadline")
			}
			seen = r
			return usher.Decision{}, nil
		}), silently(apiserver.AuthorizerOptions{}))
		if _, _, err := z.Authorize(t.Context(), test.attributes); err != nil {
			t.Fatal(err)
		}
		if seen.UID == "" {
			t.Errorf("%s: there is no UID", test.reason)
		}
		test.want.UID, test.want.Phase, test.want.User = seen.UID, usher.Authorize, who
		if diff := cmp.Diff(&test.want, seen, cmp.AllowUnexported(), cmp.Comparer(func(a, b *usher.Object) bool { return a == b }), sortedRequirements()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// sortedRequirements compares requirements without their order, which is that of a parser.
func sortedRequirements() cmp.Option {
	return cmp.Transformer("byKey", func(all []usher.Requirement) map[string]string {
		set := map[string]string{}
		for _, r := range all {
			values := strings.Join(r.Values, ",")
			set[r.Key] = r.Operator + " " + values
		}
		return set
	})
}

func TestRulesFor(t *testing.T) {
	t.Parallel()
	lister := apiserver.ListerFunc(func(_ context.Context, u usher.User, namespace string) (usher.Grants, error) {
		if u.Name != "jane" || namespace == "broken" {
			return usher.Grants{}, errors.New("boom")
		}
		return usher.Grants{Allowed: []usher.Grant{
			{Verbs: []string{"get"}, Groups: []string{""}, Resources: []string{"pods"}, Names: []string{"web"}},
			{Verbs: []string{"get"}, Paths: []string{"/healthz"}},
		}, Incomplete: true}, nil
	})
	z := apiserver.NewAuthorizer(deciding(usher.Decision{}, nil), silently(apiserver.AuthorizerOptions{Rules: lister}))
	// Servers ask all their authorizers at once.
	resources, paths, incomplete, err := union.NewRuleResolvers(z).RulesFor(t.Context(), jane, "shop")
	if err != nil || !incomplete {
		t.Errorf("incomplete %t, %v", incomplete, err)
	}
	if diff := cmp.Diff([]authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{
		Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"web"},
	}}, resources); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{
		Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"},
	}}, paths); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, _, incomplete, err := z.RulesFor(t.Context(), jane, "broken"); err == nil || !incomplete {
		t.Errorf("incomplete %t, %v; want an error", incomplete, err)
	}
	without := apiserver.NewAuthorizer(deciding(usher.Decision{}, nil), silently(apiserver.AuthorizerOptions{}))
	if _, _, incomplete, err := without.RulesFor(t.Context(), jane, "shop"); err != nil || !incomplete {
		t.Errorf("without a lister: incomplete %t, %v", incomplete, err)
	}
}

// TestMay: the authorizer of a server is asked what a request to authorize asks.
func TestMay(t *testing.T) {
	t.Parallel()
	who := usher.User{Name: "jane", UID: "1", Groups: []string{"a"}, Extra: map[string][]string{"k": {"v"}}}
	for _, row := range []struct {
		reason  string
		request usher.Request
		answer  usher.Decision
		want    bool
		err     string
	}{
		{"a resource", usher.Request{
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Subresource: "scale", Namespace: "shop", Name: "web",
			Access: &usher.Access{Verb: "update"},
		}, usher.Allowed(), true, ""},
		{"a path", usher.Request{Access: &usher.Access{Verb: "get", NonResource: true, Path: "/metrics"}}, usher.Allowed(), true, ""},
		{"no opinion", usher.Request{Access: &usher.Access{Verb: "get"}}, usher.Decision{}, false, ""},
		{"denied", usher.Request{Access: &usher.Access{Verb: "get"}}, usher.Denied("no"), false, ""},
		{"no answer", usher.Request{Access: &usher.Access{Verb: "get"}}, usher.Decision{Verdict: "maybe"}, false, "authorize jane: no decision was reached"},
	} {
		row.request.Phase, row.request.User = usher.Authorize, who
		var seen *usher.Request
		z := apiserver.NewAuthorizer(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			seen = r
			return row.answer, nil
		}), silently(apiserver.AuthorizerOptions{}))
		got, err := apiserver.May(z)(t.Context(), &row.request)
		if got != row.want || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v, %v, want %v", row.reason, got, err, row.want)
		}
		row.request.UID = seen.UID
		if diff := cmp.Diff(&row.request, seen, cmp.AllowUnexported(usher.Request{})); diff != "" {
			t.Errorf("%s: -asked +seen:\n%s", row.reason, diff)
		}
	}
}
