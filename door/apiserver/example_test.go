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

// The authorizer stands behind the one for system:masters, which can repair it, and before
// the one that a server had. It denies what policies deny, and has no opinion otherwise.
func ExampleNewAuthorizer() {
	// In a server: server.Config of k8s.io/apiserver.
	var config struct {
		Authorization struct{ Authorizer authorizer.Authorizer }
	}
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	decider := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Phase == usher.Authorize && r.Namespace == "vault" {
			return usher.Denied("%s is no banker", r.User.Name), nil
		}
		return usher.Decision{Verdict: usher.NoOpinion}, nil
	})

	config.Authorization.Authorizer = union.New(
		authorizerfactory.NewPrivilegedGroups("system:masters"),
		apiserver.NewAuthorizer(decider, apiserver.AuthorizerOptions{}),
		config.Authorization.Authorizer,
	)

	for _, namespace := range []string{"shop", "vault"} {
		decision, why, err := config.Authorization.Authorizer.Authorize(context.Background(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "jane"}, Verb: "get", Resource: "pods", APIVersion: "v1", Namespace: namespace, ResourceRequest: true,
		})
		fmt.Println(namespace, decision == authorizer.DecisionAllow, why, err)
	}
	// Output:
	// shop true  <nil>
	// vault false jane is no banker <nil>
}
