package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// A server obeys what a program decides. With policies instead, see package plugin.
func ExampleNew() {
	decider := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Phase == usher.Validate && r.Namespace == "vault" && !slices.Contains(r.User.Groups, "bankers") {
			return usher.Denied("%s is no banker", r.User.Name), nil
		}
		return usher.Allowed(), nil
	})
	// In a server: options.NewRecommendedOptions(…).Admission.
	var plugins admission.Plugins
	var order []string
	apiserver.Register(&plugins, func(io.Reader) (admission.Interface, error) {
		return apiserver.New(decider, apiserver.Options{}), nil
	})
	order = apiserver.Order(order)
	_ = order
}

// A server config of k8s.io/apiserver has these fields.
type serverConfig struct {
	Authorization struct{ Authorizer authorizer.Authorizer }
	RuleResolver  authorizer.RuleResolver
}

// Policies in a folder, which may change while the server runs, deny what the authorizer that it has would allow.
func ExampleNewAuthorizer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var config serverConfig
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	if err := authorize(ctx, &config, "testdata/authorization"); err != nil {
		fmt.Println(err)
		return
	}
	for _, namespace := range []string{"shop", "vault"} {
		decision, why, err := config.Authorization.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "jane", Groups: []string{"system:authenticated"}}, Verb: "get", Resource: "pods", APIVersion: "v1", Namespace: namespace, ResourceRequest: true,
		})
		fmt.Println(namespace, decision == authorizer.DecisionAllow, why, err)
	}
	rules, _, incomplete, err := config.RuleResolver.RulesFor(ctx, &user.DefaultInfo{Name: "joe", Groups: []string{"bankers"}}, "vault")
	for _, rule := range rules {
		fmt.Println(rule.GetVerbs(), rule.GetResources(), incomplete, err)
	}
	// Output:
	// shop true  <nil>
	// vault false denied by policy vault (cluster): ask the bankers <nil>
	// [get list] [pods] false <nil>
}

// authorize has the policies in a folder decide before the authorizer that a server had, and behind the one for
// system:masters, which can repair it.
func authorize(ctx context.Context, config *serverConfig, folder string) error {
	policies := live.New(live.Options{})
	go func() { _ = policies.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error
	if err := policies.WaitLoaded(ctx); err != nil {
		return err
	}
	access := apiserver.NewAuthorizer(policies, apiserver.AuthorizerOptions{Rules: policies})
	config.Authorization.Authorizer = union.New(
		authorizerfactory.NewPrivilegedGroups("system:masters"),
		access,
		config.Authorization.Authorizer,
	)
	config.RuleResolver = union.NewRuleResolvers(access) // and the resolvers of the other authorizers
	return nil
}
