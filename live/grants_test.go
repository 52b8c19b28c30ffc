package live_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

const readers = `apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: readers}
spec:
  effect: Allow
  subjects: [{groups: [readers]}]
  rules:
  - {verbs: [get, list], apiGroups: [""], resources: [pods, pods/log], namespaces: [shop]}
  - {verbs: [get], nonResourceURLs: ["/metrics*"]}
`

// What an authorizer lists is what it allows.
func TestGrants(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(readers), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan struct{}, 1)
	l := live.New(live.Options{OnUpdate: func(usher.Snapshot) {
		select {
		case loaded <- struct{}{}:
		default:
		}
	}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, dir.New(folder)) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	select {
	case <-loaded:
	case <-time.After(30 * time.Second):
		t.Fatal("the policies are not loaded")
	}
	z := apiserver.NewAuthorizer(l, apiserver.AuthorizerOptions{Rules: l})
	resources, paths, incomplete, err := z.RulesFor(t.Context(), &user.DefaultInfo{Name: "jane", Groups: []string{"readers"}}, "shop")
	if err != nil || incomplete {
		t.Errorf("rules: %v, incomplete %t", err, incomplete)
	}
	wantResources := []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{
		Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/log"},
	}}
	wantPaths := []authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics*"}}}
	if diff := cmp.Diff(wantResources, resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantPaths, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	resources, _, _, err = z.RulesFor(t.Context(), &user.DefaultInfo{Name: "jane", Groups: []string{"readers"}}, "lab")
	if err != nil || len(resources) > 0 {
		t.Errorf("in another namespace: %v, %v", resources, err)
	}
}

// Servers ask before the policies are there, too.
func TestGrantsBeforeThereAreAny(t *testing.T) {
	t.Parallel()
	l := live.New(live.Options{})
	z := apiserver.NewAuthorizer(l, apiserver.AuthorizerOptions{Rules: l})
	_, _, incomplete, err := z.RulesFor(t.Context(), &user.DefaultInfo{Name: "jane"}, "shop")
	if !errors.Is(err, live.ErrNotLoaded) || !incomplete {
		t.Errorf("rules: %v, incomplete %t, want that they are not known", err, incomplete)
	}
}
