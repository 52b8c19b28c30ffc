// Package v1alpha1 holds the kinds of usher.dev/v1alpha1: ClusterAuthorizationPolicy and
// AuthorizationPolicy.
//
// +kubebuilder:object:generate=true
// +groupName=usher.dev
package v1alpha1
