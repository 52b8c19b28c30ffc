package webhookconfig

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// Users of the control plane that delete what is no longer needed.
const (
	namespaceController = "system:serviceaccount:kube-system:namespace-controller"
	garbageCollector    = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// Unsent returns why a request is never sent, whatever policies say: it is one of those without which
// a cluster cannot come up. It is empty for other requests. It says of one request what the
// conditions of the webhook configurations say, without Compat.
func Unsent(r *usher.Request) string {
	switch {
	case isConfiguration(r):
		return "API servers do not send webhook configurations and admission policies to webhooks"
	case exemptGroup(r.Resource.Group) || isCore(r, "events"):
		return "the registration leaves out leases, events, reviews and certificate requests"
	case isCore(r, "nodes") && r.Subresource != "proxy":
		return "the registration leaves out nodes"
	case api.IsGroup(r.Resource.Group):
		return unsentPolicy(r)
	}
	return unsentUser(r)
}

func isCore(r *usher.Request, resource string) bool {
	return r.Resource.Group == "" && r.Resource.Resource == resource
}

func exemptGroup(group string) bool {
	switch group {
	case "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "events.k8s.io":
		return true
	}
	return false
}

func isConfiguration(r *usher.Request) bool {
	name, _, _ := strings.Cut(r.Resource.Resource, "/")
	return r.Resource.Group == "admissionregistration.k8s.io" && exemptResource(r.Resource.Group, name)
}

// unsentUser returns why a request is not sent if it is one of the cluster's own identities, about
// what only they look after.
func unsentUser(r *usher.Request) string {
	user := r.User.Name
	switch {
	case user == "system:apiserver":
		return "the registration leaves out what API servers write themselves"
	case r.Namespace != "kube-system":
		return ""
	case user == "system:kube-controller-manager", user == "system:kube-scheduler",
		strings.HasPrefix(user, "system:serviceaccount:kube-system:"), strings.HasPrefix(user, "system:node:"):
		return "the registration leaves out what the control plane and the nodes write in kube-system"
	}
	return ""
}

// unsentPolicy returns why the write of a policy is not sent. Finalizers may be removed from one
// that is being deleted, unless its spec changes.
func unsentPolicy(r *usher.Request) string {
	const deleted = "the registration leaves out deletions of policies"
	if r.Subresource != "" {
		return "the registration leaves out the status of policies"
	}
	switch PartOf(r) {
	case rule.Rights:
		return ""
	case rule.Deletions:
		if r.Phase == usher.Validate && deletesDenial(r) {
			return ""
		}
		return deleted
	case rule.Objects, rule.Metadata, rule.Beside, rule.Once, rule.Reinvoked, rule.Existing, rule.Policies, rule.Candidates, rule.TenantCandidates:
		// As follows.
	}
	if r.Operation != usher.Create && r.Operation != usher.Update {
		return deleted
	}
	if why := unsentUser(r); why != "" || r.Operation == usher.Create {
		return why
	}
	object, err := r.Object.Tree()
	if err != nil {
		return ""
	}
	metadata, _ := object["metadata"].(map[string]any)
	if _, deleting := metadata["deletionTimestamp"]; deleting {
		return deleted
	}
	return ""
}

// PartOf returns to which entries requests go that write policies.
func PartOf(r *usher.Request) rule.Part {
	kind, _ := api.KindServed(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource})
	switch {
	case r.Operation == usher.Delete:
		return rule.Deletions
	case kind.NeedsProof && (r.Operation == usher.Create || r.Operation == usher.Update && rule.Changes(r, []string{"spec"}, []string{"annotations"})):
		return rule.Rights
	}
	return rule.Policies
}

// WholeEntryOf returns the name of the entry at which a request is decided as it is: for doors
// that see every request, and convert no objects.
func WholeEntryOf(r *usher.Request) string {
	at := rule.CompleteEntryOf(r)
	if api.IsGroup(r.Resource.Group) {
		at.Part = PartOf(r)
	}
	return at.String()
}

// deletesDenial reports whether the request deletes a policy with denials in the tier platform, by
// a user other than those of the cluster and its last administrators.
func deletesDenial(r *usher.Request) bool {
	old, err := r.OldObject.Tree()
	if err != nil || r.Resource.Resource != "clusterauthorizationpolicies" {
		return false
	}
	spec, _ := old["spec"].(map[string]any)
	if r.User.Name == namespaceController || r.User.Name == garbageCollector {
		return false
	}
	return spec["tier"] == "platform" && spec["effect"] == "Deny" && !slices.Contains(r.User.Groups, "system:masters")
}

// Unsent returns why a request is never sent as Usher is registered; it is empty if rules decide that.
// Of namespaces it knows the label that API servers set.
func (o *Options) Unsent(r *usher.Request) string {
	switch why := Unsent(r); {
	case o.Compat && why == unsentUser(r) && r.User.Name != "system:apiserver":
		// Nothing in kube-system is exempt then.
	case why != "":
		return why
	}
	if api.IsGroup(r.Resource.Group) {
		return ""
	}
	namespace := r.Namespace
	if namespace != "" && namespace == o.Namespace {
		return "the registration leaves out the namespace of Usher"
	}
	if namespace != "" && !selected(o.NamespaceSelector, labels.Set{nameLabel: namespace}) {
		return "the namespaceSelector of the registration leaves out the namespace " + namespace
	}
	selector := o.objectSelector()
	if !selected(selector, labelsOf(r.Object)) && !selected(selector, labelsOf(r.OldObject)) {
		return "the objectSelector of the registration leaves out the object"
	}
	return ""
}

func selected(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || parsed.Matches(set)
}

func labelsOf(o *usher.Object) labels.Set {
	tree, err := o.Tree()
	if err != nil {
		return nil
	}
	metadata, _ := tree["metadata"].(map[string]any)
	values, _ := metadata["labels"].(map[string]any)
	set := labels.Set{}
	for key, value := range values {
		set[key], _ = value.(string)
	}
	return set
}
