package webhookconfig

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// recovery are the conditions without which a server that is down could keep a cluster down:
// nodes could not report, leaders could not be elected, an API server could not start.
// They are CEL; namespace, subResource and username are absent rather than empty.
var recovery = []admissionv1.MatchCondition{
	{
		// It brings its own objects up to date before it serves, and ends if it cannot.
		Name:       "not-by-the-api-server",
		Expression: `!(has(request.userInfo.username) && request.userInfo.username == 'system:apiserver')`,
	},
	{
		Name: "not-leases-or-events",
		Expression: `!(request.resource.group in ['coordination.k8s.io', 'events.k8s.io'] || ` +
			`(request.resource.group == '' && request.resource.resource == 'events'))`,
	},
	{
		// The proxy of a node writes no node: it is a way into its kubelet.
		Name: "not-nodes-or-certificates",
		Expression: `!(request.resource.group == 'certificates.k8s.io' || ` +
			`(request.resource.group == '' && request.resource.resource == 'nodes' && ` +
			`!(has(request.subResource) && request.subResource == 'proxy')))`,
	},
	{
		// Authentication and authorization requests of API servers and webhooks.
		Name:       "not-reviews",
		Expression: `!(request.resource.group in ['authentication.k8s.io', 'authorization.k8s.io'])`,
	},
}

// notPolicies leaves policies to their own entry.
var notPolicies = admissionv1.MatchCondition{
	Name:       "not-policies",
	Expression: fmt.Sprintf(`!(request.resource.group in %s)`, policyGroups()),
}

// changesMetadata leaves out what controllers and kubelets report: a status alone.
var changesMetadata = admissionv1.MatchCondition{
	Name: "changes-metadata",
	Expression: `object.metadata.?labels != oldObject.metadata.?labels || ` +
		`object.metadata.?annotations != oldObject.metadata.?annotations || ` +
		`object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences || ` +
		`object.metadata.?finalizers != oldObject.metadata.?finalizers`,
}

// kubeSystem exempts what the control plane and the nodes need to start the network, names and
// storage of the cluster, and with them Usher itself. Writes of people in kube-system are sent.
var kubeSystem = admissionv1.MatchCondition{
	Name: "not-kube-system-by-the-cluster",
	Expression: `!(has(request.namespace) && request.namespace == 'kube-system' && has(request.userInfo.username) && ` +
		`(request.userInfo.username.startsWith('system:serviceaccount:kube-system:') || ` +
		`request.userInfo.username.startsWith('system:node:') || ` +
		`request.userInfo.username in ['system:kube-controller-manager', 'system:kube-scheduler']))`,
}

// always are the conditions of every entry.
func (e *Applier) always() []admissionv1.MatchCondition {
	conditions := slices.Clone(recovery)
	if !e.o.Compat {
		conditions = append(conditions, kubeSystem)
	}
	return conditions
}

// conditions are those of every entry for other objects than policies, and one that excludes
// namespaces, if no policy is for what is found in them.
func (e *Applier) conditions(found []*located) []admissionv1.MatchCondition {
	return append(append(e.always(), notPolicies), within(found)...)
}

// own are the conditions of an entry besides those of every entry.
func (e *Applier) own(n *Entry) []admissionv1.MatchCondition { return n.Conditions[len(e.always())+1:] }
