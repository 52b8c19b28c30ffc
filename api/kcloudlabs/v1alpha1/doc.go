// Package v1alpha1 holds the kinds of policy.kcloudlabs.io/v1alpha1: OverridePolicy,
// ClusterOverridePolicy and ClusterValidatePolicy, field for field as kinitiras
// defines them.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kcloudlabs.io
package v1alpha1
