package serve

import (
	"context"

	usher "github.com/usher-dev/usher"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
)

// may asks the API server whether all of its authorizers together allow the request r.
func (m *clusterRuntime) may(ctx context.Context, r *usher.Request) (bool, error) {
	d, err := clusterfact.Authorizer(m.Clients.Kube.AuthorizationV1().SubjectAccessReviews()).Decide(ctx, r)
	if d.Verdict == usher.Allow {
		return true, nil
	}
	return false, err
}
