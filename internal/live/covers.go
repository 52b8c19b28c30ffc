package live

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// Covers reports whether the policies in force, or those that are written, want a request
// to be decided: whether an API server would send it to a webhook that is registered for
// them. Doors that see every request ask it first, so that all doors decide the same.
//
// Whatever policies say, it is not so for that without which a cluster cannot come up:
// Leases, Events, Nodes, certificates and reviews, what an API server itself writes, what
// the cluster's own identities write in kube-system, and the deletion of policies other than of what
// denies in the tier platform.
//
// As long as no policies have been loaded, everything else may be covered, but not the CRDs
// that policies need to be there at all.
func (f *inForce) Covers(r *usher.Request) bool {
	switch {
	case r.Phase != usher.Mutate && r.Phase != usher.Validate, webhookconfig.Unsent(r) != "":
		return false
	case api.IsGroup(r.Resource.Group):
		return true
	}
	current := f.current.Load()
	if current.status.Generation == 0 {
		return r.Resource.Group != "apiextensions.k8s.io"
	}
	return current.coverage.Covers(r) || current.coverage.Candidates.Covers(r)
}
