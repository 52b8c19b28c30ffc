package live

import (
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/rule"
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
func (l *Live) Covers(r *usher.Request) bool {
	switch {
	case exemptResource(r), r.Phase != usher.Mutate && r.Phase != usher.Validate:
		return false
	case api.IsGroup(r.Resource.Group):
		return coversPolicy(r)
	case exemptUser(r):
		return false
	}
	current := l.current.Load()
	if current.status.Generation == 0 {
		return r.Resource.Group != "apiextensions.k8s.io"
	}
	return current.coverage.Covers(r)
}

// exemptResource reports whether a resource is never decided about.
func exemptResource(r *usher.Request) bool {
	switch r.Resource.Group {
	case "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "events.k8s.io":
		return true
	case "admissionregistration.k8s.io":
		// API servers send none of these to webhooks.
		name, _, _ := strings.Cut(r.Resource.Resource, "/")
		switch name {
		case "mutatingwebhookconfigurations", "validatingwebhookconfigurations",
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings":
			return true
		}
	case "":
		// The proxy of a node writes no node: it is a way into its kubelet.
		return r.Resource.Resource == "events" || r.Resource.Resource == "nodes" && r.Subresource != "proxy"
	}
	return false
}

// exemptUser reports whether the request is one of the cluster's own identities, about
// what only they look after.
func exemptUser(r *usher.Request) bool {
	user := r.User.Name
	if user == "system:apiserver" {
		return true
	}
	if r.Namespace != "kube-system" {
		return false
	}
	return user == "system:kube-controller-manager" || user == "system:kube-scheduler" ||
		strings.HasPrefix(user, "system:serviceaccount:kube-system:") || strings.HasPrefix(user, "system:node:")
}

// coversPolicy reports whether a write of a policy is decided: finalizers may be removed from one
// that is being deleted, unless its spec changes.
func coversPolicy(r *usher.Request) bool {
	if r.Subresource != "" {
		return false
	}
	switch partOf(r) {
	case rule.Rights:
		return true
	case rule.Deletions:
		return r.Phase == usher.Validate && deletesDenial(r)
	case rule.Objects, rule.Metadata, rule.Beside, rule.Once, rule.Reinvoked, rule.Policies:
		// As follows.
	}
	if exemptUser(r) || r.Operation != usher.Create && r.Operation != usher.Update {
		return false
	}
	object, err := r.Object.Tree()
	if err != nil {
		return true
	}
	metadata, _ := object["metadata"].(map[string]any)
	_, deleting := metadata["deletionTimestamp"]
	return r.Operation == usher.Create || !deleting
}
