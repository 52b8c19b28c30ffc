package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/usher-dev/usher/examples/apiserver/shop"
	"github.com/usher-dev/usher/live"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

// TestAuthorize: policies decide who may do what, and list it.
func TestAuthorize(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(`
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: orders}
spec:
  effect: Allow
  subjects: [{groups: [sellers]}]
  rules: [{verbs: [get], apiGroups: [shop.example.com], resources: [orders], namespaces: [tea]}]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	config := genericapiserver.NewRecommendedConfig(shop.Codecs)
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysDenyAuthorizer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := authorize(ctx, config, folder); err != nil {
		t.Fatal(err)
	}
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{"sellers"}}
	decision, _, err := config.Authorization.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: jane, Verb: "get", APIGroup: shop.Group, APIVersion: "v1", Resource: "orders", Namespace: "tea", ResourceRequest: true,
	})
	if decision != authorizer.DecisionAllow || err != nil {
		t.Errorf("decision %v, %v", decision, err)
	}
	if config.RuleResolver == nil {
		t.Fatal("no resolver of rules")
	}
	rules, _, incomplete, err := config.RuleResolver.RulesFor(ctx, jane, "tea")
	if err != nil || !incomplete || len(rules) != 1 || rules[0].GetResources()[0] != "orders" {
		t.Errorf("rules %v, incomplete %t, %v", rules, incomplete, err)
	}
}
