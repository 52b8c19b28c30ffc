package serve_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/serve"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestProtectionFollowsItsFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, kill := filepath.Join(folder, "protected.yaml"), filepath.Join(folder, "off")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(file, "- groups: [breakglass]\n")
	h := &harness{t: t, log: &lockedBuffer{}}
	m, err := serve.NewProtection(serve.Protection{UsersFile: file, KillSwitchFile: kill}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	has := func(group string) bool {
		q := authz.QueryOf(&usher.Request{User: usher.User{Groups: []string{group}}}, nil)
		for _, s := range m.Users() {
			if s.Has(&q) {
				return true
			}
		}
		return false
	}
	if !has("breakglass") || has("firefighters") || m.KillSwitchOn() {
		t.Fatalf("protected users %v, kill switch %t", m.Users(), m.KillSwitchOn())
	}
	put(file, "- users: [a, 'b*']\n- groups: [firefighters]\n")
	h.eventually("the new file", func() bool { return has("firefighters") && !has("breakglass") })
	put(file, "- groups: {}\n")
	put(kill, "")
	h.eventually("the switch", m.KillSwitchOn)
	if !has("firefighters") {
		t.Error("a file that cannot be read has taken away immunity")
	}
	if err := os.Remove(kill); err != nil {
		t.Fatal(err)
	}
	h.eventually("no switch", func() bool { return !m.KillSwitchOn() })
}

// What stands in a folder is in force at the webhook, and the switch takes it out of force.
func TestServeAuthorizesByPoliciesInFiles(t *testing.T) {
	t.Parallel()
	folder, kill := t.TempDir(), filepath.Join(t.TempDir(), "off")
	write(t, filepath.Join(folder, "policy.yaml"), `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: no-exec}
spec:
  effect: Deny
  subjects: [{groups: [devs]}]
  rules: [{verbs: [get, create], apiGroups: [""], resources: [pods/exec]}]
`)
	h := start(t, serve.Config{
		Policies: []string{folder}, Authorization: &serve.Authorization{Address: "127.0.0.1:0"},
		Protection: serve.Protection{KillSwitchFile: kill},
	})
	answer := func() string {
		body, _ := h.answer(h.client.Post(h.server.AuthorizationURL()+"/authorize", "application/json", strings.NewReader(
			`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "jane", "groups": ["devs"],
				"resourceAttributes": {"verb": "create", "version": "v1", "resource": "pods", "subresource": "exec", "name": "web", "namespace": "shop"}}}`)))
		return body
	}
	h.eventually("policies are loaded", func() bool { return strings.Contains(answer(), `"denied":true`) })
	if got := answer(); !strings.Contains(got, "denied by policy no-exec (cluster)") {
		t.Errorf("answer %s", got)
	}
	h.eventually("the policy is counted", func() bool {
		return strings.Contains(h.metrics(), `usher_snapshot_policies{kind="ClusterAuthorizationPolicy"} 1`)
	})
	write(t, kill, "")
	h.eventually("denials are switched off", func() bool { return !strings.Contains(answer(), `"denied":true`) })
	if ready := h.get("/readyz?verbose"); !strings.HasPrefix(ready, "failing: denials of authorization policies\n") ||
		!strings.Contains(ready, "\ndenials of authorization policies are switched off\n  "+kill+" exists: remove it, and they deny again\n") {
		t.Errorf("/readyz?verbose: %s", ready)
	}
}

func TestProtectionErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for text, want := range map[string]string{
		"":                          "no such file",
		"groups: [a]":               "cannot unmarshal object",
		"- group: [a]":              `unknown field "group"`,
		"- {}":                      "nobody is named",
		"- serviceAccounts: [a]":    "is no service account",
		"- users: ['a*b*']\n":       "more than one *",
		"- users: [x]\n- users: []": "nobody is named",
	} {
		file := filepath.Join(folder, "none.yaml")
		if text != "" {
			file = filepath.Join(folder, "some.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := serve.NewProtection(serve.Protection{UsersFile: file}, quiet()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestMayAsksTheAPIServer(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	var asked []authorizationv1.SubjectAccessReviewSpec
	f.kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		asked = append(asked, review.Spec)
		review.Status.Allowed = review.Spec.ResourceAttributes != nil && review.Spec.ResourceAttributes.Verb == "use"
		return true, review, nil
	})
	user := usher.User{Name: "jane", UID: "1", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}
	for _, test := range []struct {
		request *usher.Request
		want    bool
	}{
		{&usher.Request{User: user, Access: &usher.Access{Verb: "use"}, Name: "cluster",
			Resource: schema.GroupVersionResource{Group: "usher.dev", Version: "*", Resource: "authorizationtiers"}}, true},
		{&usher.Request{User: user, Access: &usher.Access{Verb: "get", Path: "/metrics", NonResource: true}}, false},
	} {
		may, err := serve.May(t.Context(), *f.config, test.request)
		if err != nil || may != test.want {
			t.Errorf("%+v: %t, %v, want %t", test.request.Access, may, err, test.want)
		}
	}
	if len(asked) != 2 || asked[0].User != "jane" || asked[0].Extra["k"][0] != "v" || asked[0].ResourceAttributes.Name != "cluster" ||
		asked[1].NonResourceAttributes == nil || asked[1].NonResourceAttributes.Path != "/metrics" || asked[1].ResourceAttributes != nil {
		t.Errorf("asked %+v", asked)
	}
}
