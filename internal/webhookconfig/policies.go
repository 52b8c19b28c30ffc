package webhookconfig

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// writingTimeout is how long API servers wait at least before they store a policy without an answer,
	// or reject it: it is compiled and tried first, in processes that yield to everything else.
	writingTimeout = 20
	// deletionTimeout is how long API servers wait before they delete a policy without an answer.
	deletionTimeout = 2
)

// policies are the resources of all kinds of policy, which are always sent when they are
// created or changed: guard decides on them.
func policies() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, kind := range api.Kinds() {
		all = append(all, kind.GroupVersionResource())
	}
	return all
}

// withRights are the resources of the policies whose writers need rights.
func withRights() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, kind := range api.Kinds() {
		if kind.NeedsProof {
			all = append(all, kind.GroupVersionResource())
		}
	}
	return all
}

// changesPolicy is a condition that holds unless an update leaves the spec and the annotations
// as they are: controllers remove finalizers and owners, and namespaces are deleted, without an
// answer.
const changesPolicy = `(request.operation != 'UPDATE' || object.?spec != oldObject.?spec || ` +
	`object.metadata.?annotations != oldObject.metadata.?annotations)`

// notDeletion also exempts changes of finalizers of a policy that is being deleted.
var notDeletion = admissionv1.MatchCondition{
	Name:       "not-deletion-of-policies",
	Expression: `!(request.operation == 'UPDATE' && has(object.metadata.deletionTimestamp))`,
}

// policies is the entry for writes of policies that need no rights, which no selector excludes.
// Without a response the policy is stored, and rejected or compiled when it is loaded.
func (e *Applier) policies(phase usher.Phase) Entry {
	var names []string
	for _, r := range withRights() {
		names = append(names, "'"+r.Resource+"'")
	}
	others := admissionv1.MatchCondition{
		Name:       "not-policies-with-rights",
		Expression: fmt.Sprintf(`!(request.resource.resource in [%s] && %s)`, strings.Join(names, ", "), changesPolicy),
	}
	return Entry{
		Entry: rule.Entry{Phase: phase, Part: rule.Policies}, Rules: join(writesOf(policies())),
		Conditions: append(e.always(), notDeletion, others), FailurePolicy: admissionv1.Ignore, TimeoutSeconds: max(e.o.TimeoutSeconds, writingTimeout),
	}
}

// rights is the entry for writes of policies whose writers need rights. Without a response the
// rights are unknown, so nothing is stored. No identity is exempt: the control plane writes no such
// policies.
func (e *Applier) rights(phase usher.Phase) Entry {
	return Entry{
		Entry: rule.Entry{Phase: phase, Part: rule.Rights}, Rules: join(writesOf(withRights())),
		Conditions:    []admissionv1.MatchCondition{{Name: "changes-policies", Expression: changesPolicy}},
		FailurePolicy: admissionv1.Fail, TimeoutSeconds: max(e.o.TimeoutSeconds, writingTimeout),
	}
}

func writesOf(resources []schema.GroupVersionResource) map[spot][]usher.Operation {
	spots := map[spot][]usher.Operation{}
	for _, r := range resources {
		spots[spot{r.Group, r.Version, r.Resource, admissionv1.AllScopes}] = []usher.Operation{usher.Create, usher.Update}
	}
	return spots
}

// deletions is the entry for deletions of denials in the tier platform. All other deletions are not
// sent, and these pass without a response in time: a policy can always be deleted.
func (e *Applier) deletions() Entry {
	kind, _ := api.KindOf(&v1alpha1.ClusterAuthorizationPolicy{})
	r := kind.GroupVersionResource()
	return Entry{
		Entry: rule.Entry{Phase: usher.Validate, Part: rule.Deletions},
		Rules: join(map[spot][]usher.Operation{
			{r.Group, r.Version, r.Resource, admissionv1.AllScopes}: only(usher.Delete),
		}),
		Conditions: []admissionv1.MatchCondition{
			{
				Name: "denials-of-the-platform",
				Expression: `oldObject != null && oldObject.?spec.?tier.orValue('') == 'platform' && ` +
					`oldObject.?spec.?effect.orValue('') == 'Deny'`,
			},
			{
				Name: "not-by-the-cluster",
				Expression: `!(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups) && ` +
					`!(has(request.userInfo.username) && request.userInfo.username in [` +
					`'system:serviceaccount:kube-system:namespace-controller', 'system:serviceaccount:kube-system:generic-garbage-collector'])`,
			},
		},
		FailurePolicy: admissionv1.Ignore, TimeoutSeconds: min(e.o.TimeoutSeconds, deletionTimeout),
	}
}
