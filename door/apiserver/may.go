package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
)

// May answers requests of the phase Authorize by the authorizer of the server itself, as a
// SubjectAccessReview would: no opinion is no permission. It must not be asked about requests that
// this authorizer would ask it about.
func May(a authorizer.Authorizer) func(context.Context, *usher.Request) (bool, error) {
	asked := Ask(a)
	return func(ctx context.Context, r *usher.Request) (bool, error) {
		d, err := asked.Decide(ctx, r)
		if d.Verdict == usher.Allow {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("authorize %s: %w", r.User.Name, err)
		}
		return false, nil
	}
}
