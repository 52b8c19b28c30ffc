package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "usher.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterAuthorizationPolicy{}, &ClusterAuthorizationPolicyList{},
		&AuthorizationPolicy{}, &AuthorizationPolicyList{},
		&ClusterObjectPolicy{}, &ClusterObjectPolicyList{},
		&ObjectPolicy{}, &ObjectPolicyList{},
		&ClusterPolicyExemption{}, &ClusterPolicyExemptionList{},
		&PolicyExemption{}, &PolicyExemptionList{},
		&ClusterPolicyCandidate{}, &ClusterPolicyCandidateList{},
		&PolicyCandidate{}, &PolicyCandidateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
