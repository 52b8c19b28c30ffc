package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
)

// May answers requests of the phase Authorize by the authorizer of the server itself, as a
// SubjectAccessReview would: no opinion is no permission. It is the inverse of [NewAuthorizer], and
// must not be asked about requests that this authorizer would ask it about.
func May(a authorizer.Authorizer) func(context.Context, *usher.Request) (bool, error) {
	return func(ctx context.Context, r *usher.Request) (bool, error) {
		attributes := authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra},
			Verb: r.Access.Verb,
		}
		if r.Access.NonResource {
			attributes.Path = r.Access.Path
		} else {
			attributes.ResourceRequest = true
			attributes.APIGroup, attributes.APIVersion, attributes.Resource = r.Resource.Group, r.Resource.Version, r.Resource.Resource
			attributes.Subresource, attributes.Namespace, attributes.Name = r.Subresource, r.Namespace, r.Name
		}
		decision, _, err := a.Authorize(ctx, attributes)
		if decision == authorizer.DecisionAllow {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("authorize %s: %w", r.User.Name, err)
		}
		return false, nil
	}
}
