package api

import (
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
)

const (
	// AnnotationSuspend has the value "true" on a policy of kinitiras that is suspended. Kinds of
	// Usher have the field spec.suspend.
	AnnotationSuspend = "usher.dev/suspend"
	// AnnotationSuspended says of a policy that is suspended who did it, and when. Usher writes it.
	AnnotationSuspended = "usher.dev/suspended"
)

// Suspended reports whether a policy decides nothing because its writer says so.
func Suspended(object Object) bool {
	switch spec := Spec(object).(type) {
	case *usherv1alpha1.ClusterObjectPolicySpec:
		return spec.Suspend
	case *usherv1alpha1.ObjectPolicySpec:
		return spec.Suspend
	case *usherv1alpha1.ClusterAuthorizationPolicySpec:
		return spec.Suspend
	case *usherv1alpha1.AuthorizationPolicySpec:
		return spec.Suspend
	case *usherv1alpha1.PolicyExemptionSpec:
		return spec.Suspend
	case *v1alpha1.ClusterValidatePolicySpec, *v1alpha1.OverridePolicySpec:
		return object.GetAnnotations()[AnnotationSuspend] == "true"
	}
	return false
}

// SuspendField returns the field that suspends policies of the kind of an object.
func SuspendField(object Object) string {
	if kind, ok := KindOf(object); ok && kind.Group == v1alpha1.GroupVersion.Group {
		return "metadata.annotations[" + AnnotationSuspend + "]"
	}
	return "spec.suspend"
}
