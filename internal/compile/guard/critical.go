package guard

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// An identity is a user, and the actions that a cluster needs this user for.
type identity struct {
	user   string
	groups string
	// asks holds lines with verbs, their target, and the name and namespace of an object if known:
	// "get,list nodes", "get configmaps kubeadm-config@kube-system", "get /livez". Resources are
	// written as leases.coordination.k8s.io or pods/binding.
	asks string
}

// identities returns the users of clusters that kubeadm and other tools create, protected or not.
var identities = []identity{
	{"system:apiserver", "system:masters", `
		list,watch namespaces,secrets,services,nodes
		list,watch clusterroles.rbac.authorization.k8s.io,roles.rbac.authorization.k8s.io
		create,update,get leases.coordination.k8s.io apiserver-a@kube-system
		list,watch validatingwebhookconfigurations.admissionregistration.k8s.io,mutatingwebhookconfigurations.admissionregistration.k8s.io
		create,update endpointslices.discovery.k8s.io kubernetes@default`},
	{"system:kube-controller-manager", "system:authenticated", `
		get,list,watch pods,nodes,namespaces,serviceaccounts,secrets,replicasets.apps,deployments.apps
		create,get,update leases.coordination.k8s.io kube-controller-manager@kube-system
		create tokenreviews.authentication.k8s.io,subjectaccessreviews.authorization.k8s.io
		create serviceaccounts/token
		create,patch,update events
		get /apis,/api`},
	{"system:kube-scheduler", "system:authenticated", `
		get,list,watch pods,nodes,namespaces,services,persistentvolumes,persistentvolumeclaims,replicationcontrollers
		get,list,watch replicasets.apps,statefulsets.apps,poddisruptionbudgets.policy,storageclasses.storage.k8s.io,csinodes.storage.k8s.io
		create pods/binding,bindings
		patch,update pods/status
		create,get,update leases.coordination.k8s.io kube-scheduler@kube-system
		create,patch,update events.events.k8s.io`},
	{"system:node:node-1", "system:nodes,system:authenticated", `
		get,list,watch services,nodes,pods
		get,list,watch secrets,configmaps
		get,create,update,patch nodes node-1
		patch,update nodes/status node-1
		patch,update pods/status
		create,delete pods
		create pods/eviction
		get,create,update leases.coordination.k8s.io node-1@kube-node-lease
		create,get,list,watch certificatesigningrequests.certificates.k8s.io
		create serviceaccounts/token
		create tokenreviews.authentication.k8s.io,subjectaccessreviews.authorization.k8s.io
		get,list,watch csidrivers.storage.k8s.io,runtimeclasses.node.k8s.io
		get,create,update csinodes.storage.k8s.io node-1`},
	{"system:serviceaccount:kube-system:coredns", "system:serviceaccounts,system:serviceaccounts:kube-system,system:authenticated", `
		list,watch services,pods,namespaces,endpointslices.discovery.k8s.io`},
	{"system:serviceaccount:kube-system:kube-proxy", "system:serviceaccounts,system:serviceaccounts:kube-system,system:authenticated", `
		get,list,watch nodes
		list,watch services,endpointslices.discovery.k8s.io`},
	{"system:serviceaccount:kube-system:node-controller", "system:serviceaccounts,system:serviceaccounts:kube-system,system:authenticated", `
		get,list,update,delete,patch nodes
		patch,update nodes/status
		list,get,delete pods`},
	{"system:serviceaccount:kube-system:namespace-controller", "system:serviceaccounts,system:serviceaccounts:kube-system,system:authenticated", `
		get,list,watch,delete namespaces
		update namespaces/finalize,namespaces/status
		list,delete,deletecollection,get *.*`},
	{"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts,system:serviceaccounts:kube-system,system:authenticated", `
		get,list,watch,patch,update,delete *.*`},

	{"system:kube-proxy", "system:authenticated", `
		get,list,watch nodes
		list,watch services,endpointslices.discovery.k8s.io
		create,patch,update events.events.k8s.io`},
	{"system:bootstrap:abcdef", "system:bootstrappers,system:bootstrappers:kubeadm:default-node-token,system:authenticated", `
		get nodes node-1
		create,get,list,watch certificatesigningrequests.certificates.k8s.io
		get configmaps kubeadm-config@kube-system
		get configmaps kubelet-config@kube-system
		get configmaps kube-proxy@kube-system`},
	{"kube-apiserver-kubelet-client", "kubeadm:cluster-admins,system:authenticated", `
		get,create nodes/proxy node-1
		get nodes/metrics,nodes/stats,nodes/log,nodes/healthz,nodes/pods node-1`},
	{"kubernetes-admin", "kubeadm:cluster-admins,system:authenticated", `
		list,watch nodes,namespaces
		get,patch,update nodes node-1
		get namespaces default
		list pods @kube-system
		get,delete pods coredns-1@kube-system
		get pods/log coredns-1@kube-system
		get,update,patch deployments.apps coredns@kube-system
		get,update,patch daemonsets.apps kube-proxy@kube-system
		get,update,patch configmaps coredns@kube-system
		list,create clusterauthorizationpolicies.usher.dev
		get,update,patch,delete clusterauthorizationpolicies.usher.dev another-policy
		list,create validatingwebhookconfigurations.admissionregistration.k8s.io,mutatingwebhookconfigurations.admissionregistration.k8s.io
		get,patch,delete validatingwebhookconfigurations.admissionregistration.k8s.io,mutatingwebhookconfigurations.admissionregistration.k8s.io some-webhook
		list clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io
		get,update,patch clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io some-role
		list customresourcedefinitions.apiextensions.k8s.io
		list apiservices.apiregistration.k8s.io
		update certificatesigningrequests/approval.certificates.k8s.io csr-1
		get /,/version,/healthz,/livez,/readyz`},
	{"system:cloud-controller-manager", "system:authenticated", `
		get,list,watch,patch,update nodes
		patch nodes/status
		get,create,update leases.coordination.k8s.io cloud-controller-manager@kube-system`},
	{"system:konnectivity-server", "system:authenticated", `
		create tokenreviews.authentication.k8s.io,subjectaccessreviews.authorization.k8s.io`},
	{"prober", "system:monitoring,system:authenticated", `
		get /metrics,/healthz,/livez,/readyz`},
	{"system:anonymous", "system:unauthenticated", `
		get /healthz,/livez,/readyz,/version
		get configmaps cluster-info@kube-public`},
	{"somebody", "system:authenticated", `
		get /api,/apis,/version,/openapi/v2,/openapi/v3
		create selfsubjectaccessreviews.authorization.k8s.io,selfsubjectrulesreviews.authorization.k8s.io
		create selfsubjectreviews.authentication.k8s.io`},
}

// critical returns the requests without which a cluster cannot be operated.
func critical() []*usher.Request {
	var all []*usher.Request
	for _, i := range identities {
		user := usher.User{Name: i.user, Groups: strings.Split(i.groups, ",")}
		for line := range strings.Lines(i.asks) {
			fields := strings.Fields(line)
			if len(fields) < 2 {
				continue
			}
			for verb := range strings.SplitSeq(fields[0], ",") {
				for target := range strings.SplitSeq(fields[1], ",") {
					all = append(all, criticalRequest(user, verb, target, fields[2:]))
				}
			}
		}
	}
	return all
}

func criticalRequest(user usher.User, verb, target string, object []string) *usher.Request {
	r := &usher.Request{Phase: usher.Authorize, User: user, Access: &usher.Access{Verb: verb}}
	if strings.HasPrefix(target, "/") {
		r.Access.Path, r.Access.NonResource = target, true
		return r
	}
	resource, group, _ := strings.Cut(target, ".")
	resource, r.Subresource, _ = strings.Cut(resource, "/")
	r.Resource = schema.GroupVersionResource{Group: group, Version: "*", Resource: resource}
	if len(object) > 0 {
		r.Name, r.Namespace, _ = strings.Cut(object[0], "@")
	}
	return r
}
