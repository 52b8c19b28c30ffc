package authorization_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
)

// quiet are options that do not log into the output of the tests.
func quiet() authorization.Options {
	return authorization.Options{Log: slog.New(slog.DiscardHandler)}
}

func always(d usher.Decision) usher.Decider {
	return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, nil })
}

// doors are the three handlers, by path.
func doors(d usher.Decider, o authorization.Options) map[string]http.Handler {
	return map[string]http.Handler{
		"/authorize":       authorization.Authorize(d, o),
		"/authorize/deny":  authorization.Deny(d, o),
		"/authorize/allow": authorization.Allow(d, o),
	}
}

// post posts a body as an API server does.
func post(h http.Handler, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/authorize?timeout=3s", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answer decodes an answer as an API server does: with the codec of the API types, whose
// version must be the one that was asked in.
func answer(t *testing.T, version string, w *httptest.ResponseRecorder) authorizationv1.SubjectAccessReviewStatus {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(authorizationv1.AddToScheme(scheme), authorizationv1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	object, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(w.Body.Bytes(), nil, nil)
	if err != nil {
		t.Fatalf("decode answer: %v: %s", err, w.Body)
	}
	switch review := object.(type) {
	case *authorizationv1.SubjectAccessReview:
		if version == "v1" && cmp.Equal(review.Spec, authorizationv1.SubjectAccessReviewSpec{}) {
			return review.Status
		}
	case *authorizationv1beta1.SubjectAccessReview:
		if version == "v1beta1" && cmp.Equal(review.Spec, authorizationv1beta1.SubjectAccessReviewSpec{}) {
			return authorizationv1.SubjectAccessReviewStatus(review.Status)
		}
	}
	t.Fatalf("asked in %s, answered %s", version, w.Body)
	return authorizationv1.SubjectAccessReviewStatus{}
}

// review is one as API servers send them. %s is a version.
func review(version string) string {
	groups := "groups"
	if version == "v1beta1" {
		groups = "group"
	}
	return fmt.Sprintf(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/%s","metadata":{},"spec":{"resourceAttributes":`+
		`{"namespace":"shop","verb":"list","group":"apps","version":"v1","resource":"deployments","subresource":"scale","name":"cart",`+
		`"fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["cart"]}]},`+
		`"labelSelector":{"requirements":[{"key":"app","operator":"NotIn","values":["b","a"]},{"key":"team","operator":"Exists"},{"key":"x","operator":"Gt","values":["5"]}]}},`+
		`"user":"jane","%s":["devs","system:authenticated"],"extra":{"example.com/a":["b","c"],"authentication.kubernetes.io/pod-name":["p"]},"uid":"u-1"},"status":{"allowed":false}}`, version, groups)
}

func TestRequestIsThatOfTheReview(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v1beta1"} {
		var seen *usher.Request
		w := post(authorization.Authorize(usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
			seen = r
			return usher.Allowed(), nil
		}), quiet()), review(version))
		if !answer(t, version, w).Allowed {
			t.Errorf("%s: not allowed: %s", version, w.Body)
		}
		want := &usher.Request{
			UID: seen.UID, Phase: usher.Authorize,
			Resource:    schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Subresource: "scale", Namespace: "shop", Name: "cart",
			User: usher.User{
				Name: "jane", UID: "u-1", Groups: []string{"devs", "system:authenticated"},
				Extra: map[string][]string{"example.com/a": {"b", "c"}, "authentication.kubernetes.io/pod-name": {"p"}},
			},
			Access: &usher.Access{
				Verb:   "list",
				Fields: []usher.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"cart"}}},
				Labels: []usher.Requirement{
					{Key: "app", Operator: "NotIn", Values: []string{"b", "a"}},
					{Key: "team", Operator: "Exists"},
					{Key: "x", Operator: "Gt", Values: []string{"5"}},
				},
			},
		}
		if diff := cmp.Diff(want, seen); diff != "" || seen.UID == "" {
			t.Errorf("%s: UID %q, -want +got:\n%s", version, seen.UID, diff)
		}
	}
}

func TestPathsAreNotResources(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, spec, verb, path string }{
		{"a path", `{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"jane"}`, "get", "/metrics"},
		{"what is sent for attributes without anything", `{"nonResourceAttributes":{}}`, "", ""},
		{"the other attributes are null", `{"nonResourceAttributes":{"path":null,"verb":"get"},"resourceAttributes":null}`, "get", ""},
	} {
		r, _, err := authorization.Decode([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":` + row.spec + `}`))
		if err != nil {
			t.Errorf("%s: %v", row.reason, err)
			continue
		}
		if a := r.Access; !a.NonResource || a.Verb != row.verb || a.Path != row.path {
			t.Errorf("%s: got %+v", row.reason, a)
		}
	}
}

// What each door makes of each decision. A door that only denies never allows, and the
// other way round.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type status = authorizationv1.SubjectAccessReviewStatus
	failed := []usher.Finding{
		{Policy: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "odd"}, Rule: "spec.when[0]", Outcome: usher.Failed, Err: errors.New("no such key: \"a\"\n")},
		{Policy: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "fine"}, Outcome: usher.Passed, Err: errors.New("not this")},
		{Policy: usher.PolicyRef{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "other"}, Rule: "spec.unless[1]", Outcome: usher.Failed, Message: "text"},
	}
	const why = `ClusterAuthorizationPolicy odd spec.when[0]: no such key: "a" ; AuthorizationPolicy shop/other spec.unless[1]: text`
	for _, row := range []struct {
		reason         string
		d              usher.Decision
		both, no, only status
	}{
		{"allow", usher.Decision{Verdict: usher.Allow, Message: "policy a"}, status{Allowed: true, Reason: "policy a"}, status{}, status{Allowed: true, Reason: "policy a"}},
		{"deny", usher.Denied("policy b"), status{Denied: true, Reason: "policy b"}, status{Denied: true, Reason: "policy b"}, status{}},
		{"no opinion", usher.Decision{}, status{}, status{}, status{}},
		{"no opinion with a reason", usher.Decision{Message: "who knows"}, status{Reason: "who knows"}, status{Reason: "who knows"}, status{Reason: "who knows"}},
		{"an allow that failed", usher.Decision{Findings: failed}, status{EvaluationError: why}, status{EvaluationError: why}, status{EvaluationError: why}},
		{"a deny that failed", usher.Decision{Verdict: usher.Deny, Findings: failed}, status{Denied: true, EvaluationError: why}, status{Denied: true, EvaluationError: why}, status{EvaluationError: why}},
	} {
		for path, want := range map[string]status{"/authorize": row.both, "/authorize/deny": row.no, "/authorize/allow": row.only} {
			for _, version := range []string{"v1", "v1beta1"} {
				got := answer(t, version, post(doors(always(row.d), quiet())[path], review(version)))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s at %s in %s (-want +got):\n%s", row.reason, path, version, diff)
				}
			}
		}
	}
}

func TestReasonsAreShortAndInOneLine(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, said, want string }{
		{"plain", "denied by policy a", "denied by policy a"},
		{"control characters", "a\x00b\nc\u0085d\u2028e\u202ef", "a b c d e f"},
		{"quotes and tags", `<a href="x">&\`, `<a href="x">&\`},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
		{"space around", "\n a \t", "a"},
		{"as long as may be", strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{"too long", strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "…"},
		{"too long, cut in a character", "x" + strings.Repeat("é", 1024), "x" + strings.Repeat("é", 510) + "…"},
	} {
		d := usher.Decision{Verdict: usher.Deny, Message: row.said, Findings: []usher.Finding{{Outcome: usher.Failed, Err: errors.New(row.said)}}}
		got := answer(t, "v1", post(authorization.Authorize(always(d), quiet()), review("v1")))
		if got.Reason != row.want || len(got.Reason) > 1024 {
			t.Errorf("%s: got %q, want %q", row.reason, got.Reason, row.want)
		}
		if len(got.EvaluationError) > 1024 || strings.ContainsAny(got.EvaluationError, "\n\x00") {
			t.Errorf("%s: error is %q", row.reason, got.EvaluationError)
		}
	}
}

// Whatever keeps a decision from being reached is a 503, once, at every door, and never
// an answer that would be remembered.
func TestNoDecisionIsNoAnswer(t *testing.T) {
	t.Parallel()
	for reason, d := range map[string]usher.Decider{
		"an error": usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return usher.Allowed(), errors.New("secret detail")
		}),
		"a panic": usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic("secret detail") }),
		"aborted": usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { panic(http.ErrAbortHandler) }),
		"too slow": usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
			<-ctx.Done()
			return usher.Decision{}, ctx.Err()
		}),
		"a verdict of its own": always(usher.Decision{Verdict: "maybe"}),
	} {
		for path, h := range doors(d, quiet()) {
			w := post(h, review("v1"))
			if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Retry-After") != "" {
				t.Errorf("%s at %s: got %d %s, %v", reason, path, w.Code, w.Body, w.Header())
			}
		}
		shadow := quiet()
		shadow.Shadow = true
		for path, h := range doors(d, shadow) {
			if got := answer(t, "v1", post(h, review("v1"))); got.Allowed || got.Denied || got.EvaluationError == "" {
				t.Errorf("%s at %s, as a shadow: got %+v", reason, path, got)
			}
		}
	}
}

func TestShadowHasNoOpinion(t *testing.T) {
	t.Parallel()
	options := quiet()
	options.Shadow = true
	for _, d := range []usher.Decision{{Verdict: usher.Allow, Message: "a"}, usher.Denied("b"), {}} {
		asked := 0
		counting := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			asked++
			return d, nil
		})
		for path, h := range doors(counting, options) {
			if got := answer(t, "v1beta1", post(h, review("v1beta1"))); !cmp.Equal(got, authorizationv1.SubjectAccessReviewStatus{}) {
				t.Errorf("%s: %q is answered %+v", path, d.Verdict, got)
			}
		}
		if asked != 3 {
			t.Errorf("the decider was asked %d times", asked)
		}
	}
}

// The process itself reads policies without asking them, and does nothing else so.
func TestSelf(t *testing.T) {
	t.Parallel()
	const self = "system:serviceaccount:policy-system:authz"
	ask := func(user, verb, group, resource, subresource string) string {
		r := authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Subresource: subresource,
			}},
		}
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, row := range []struct {
		reason, body string
		reads        bool
	}{
		{"watch", ask(self, "watch", "usher.dev", "authorizationpolicies", ""), true},
		{"list", ask(self, "list", "policy.kcloudlabs.io", "overridepolicies", ""), true},
		{"write", ask(self, "update", "usher.dev", "authorizationpolicies", ""), false},
		{"everything", ask(self, "*", "*", "*", ""), false},
		{"status", ask(self, "get", "usher.dev", "authorizationpolicies", "status"), false},
		{"something else", ask(self, "get", "", "secrets", ""), false},
		{"somebody else", ask("system:serviceaccount:policy-system:authz2", "get", "usher.dev", "authorizationpolicies", ""), false},
		{"a path", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"` + self + `","nonResourceAttributes":{"path":"/","verb":"get"}}}`, false},
	} {
		options := quiet()
		options.Self = self
		for path, h := range doors(always(usher.Denied("no")), options) {
			got := answer(t, "v1", post(h, row.body))
			if row.reads && (got.Denied || got.Allowed != (path != "/authorize/deny")) {
				t.Errorf("%s at %s: got %+v", row.reason, path, got)
			}
			if !row.reads && (got.Allowed || got.Denied != (path != "/authorize/allow")) {
				t.Errorf("%s at %s: got %+v", row.reason, path, got)
			}
		}
	}
	// Nobody is nobody.
	if got := answer(t, "v1", post(authorization.Authorize(always(usher.Decision{}), quiet()), ask("", "get", "usher.dev", "authorizationpolicies", ""))); got.Allowed {
		t.Error("without Self, a request without user reads policies")
	}
}
