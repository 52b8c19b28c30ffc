package live

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/rule"
)

// EntryOf returns the name of the entry at which a request is decided as it is: for doors
// that see every request, and convert no objects.
func EntryOf(r *usher.Request) string {
	at := rule.CompleteEntryOf(r)
	if api.IsGroup(r.Resource.Group) {
		at.Part = partOf(r)
	}
	return at.String()
}

// partOf returns to which entries requests go that write policies.
func partOf(r *usher.Request) rule.Part {
	kind, _ := api.KindServed(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource})
	switch {
	case r.Operation == usher.Delete:
		return rule.Deletions
	case kind.NeedsProof && (r.Operation == usher.Create || r.Operation == usher.Update && changesPolicy(r)):
		return rule.Rights
	}
	return rule.Policies
}

// changesPolicy reports whether an update changes the spec or the annotations of a policy.
func changesPolicy(r *usher.Request) bool {
	return rule.Changes(r, []string{"spec"}, []string{"annotations"})
}

// deletesDenial reports whether the request deletes a policy with denials in the tier platform, by
// a user other than those of the cluster and its last administrators.
func deletesDenial(r *usher.Request) bool {
	old, err := r.OldObject.Tree()
	if err != nil || r.Resource.Resource != "clusterauthorizationpolicies" {
		return false
	}
	spec, _ := old["spec"].(map[string]any)
	switch r.User.Name {
	case "system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector":
		return false
	}
	return spec["tier"] == "platform" && spec["effect"] == "Deny" && !slices.Contains(r.User.Groups, "system:masters")
}
