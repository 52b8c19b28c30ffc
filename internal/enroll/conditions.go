package enroll

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/rule"
)

// maxNamespaces bounds the list of namespaces in a condition. With more than that it is
// cheaper to ask.
const maxNamespaces = 100

// always are the conditions without which a server that is down could keep a cluster down:
// nodes could not report, leaders could not be elected, an API server could not start.
// They are CEL; namespace, subResource and username are absent rather than empty.
var always = []admissionv1.MatchCondition{
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
		// Who somebody is and what they may do, which API servers and webhooks ask.
		Name:       "not-reviews",
		Expression: `!(request.resource.group in ['authentication.k8s.io', 'authorization.k8s.io'])`,
	},
	{
		// Also what finalizers keep of a policy that is being deleted.
		Name: "not-deletion-of-policies",
		Expression: fmt.Sprintf(`!(request.resource.group in %s && (request.operation == 'DELETE' || `+
			`(request.operation == 'UPDATE' && has(object.metadata.deletionTimestamp))))`, policyGroups()),
	},
}

// kubeSystem lets the control plane and the nodes bring up what the network, names and
// storage of the cluster depend on, and with them Usher itself. What people write in
// kube-system is sent.
var kubeSystem = admissionv1.MatchCondition{
	Name: "not-kube-system-by-the-cluster",
	Expression: `!(has(request.namespace) && request.namespace == 'kube-system' && has(request.userInfo.username) && ` +
		`(request.userInfo.username.startsWith('system:serviceaccount:kube-system:') || ` +
		`request.userInfo.username.startsWith('system:node:') || ` +
		`request.userInfo.username in ['system:kube-controller-manager', 'system:kube-scheduler']))`,
}

// conditions are those that always hold, and one that leaves out the namespaces that no
// policy is for, if all policies are for a few. It cannot be the namespace selector:
// policies themselves are sent from every namespace.
func (e *Enroller) conditions(covered []rule.Covered) []admissionv1.MatchCondition {
	conditions := append([]admissionv1.MatchCondition{}, always...)
	if !e.o.Compat {
		conditions = append(conditions, kubeSystem)
	}
	namespaces, limited := namespacesOf(covered)
	if !limited {
		return conditions
	}
	return append(conditions, admissionv1.MatchCondition{
		Name: "namespaces-with-policies",
		Expression: fmt.Sprintf(`request.resource.group in %s || (has(request.namespace) && request.namespace in ['%s'])`,
			policyGroups(), strings.Join(namespaces, "', '")),
	})
}

// namespacesOf returns the namespaces of all that is covered, sorted; it is not limited to
// them if they are too many, or something is covered in all of them.
func namespacesOf(covered []rule.Covered) (namespaces []string, limited bool) {
	set := map[string]bool{}
	for _, c := range covered {
		if c.Namespaces == nil {
			return nil, false
		}
		for _, namespace := range c.Namespaces {
			// Others do not exist, and must not become part of an expression.
			if len(validation.IsDNS1123Label(namespace)) == 0 {
				set[namespace] = true
			}
		}
	}
	return sorted(set), len(set) > 0 && len(set) <= maxNamespaces
}
