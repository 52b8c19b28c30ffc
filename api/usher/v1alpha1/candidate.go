package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// ClusterPolicyCandidate has policies of the whole cluster evaluated beside those in force. It changes
// nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cpcand,categories={usher,candidates}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Replaces",type=string,JSONPath=`.spec.replaces.name`
// +kubebuilder:printcolumn:name="Seen",type=integer,JSONPath=`.status.seen`
// +kubebuilder:printcolumn:name="Skipped",type=integer,JSONPath=`.status.skipped`
// +kubebuilder:printcolumn:name="Denied+",type=integer,JSONPath=`.status.newlyDenied`
// +kubebuilder:printcolumn:name="Allowed+",type=integer,JSONPath=`.status.newlyAllowed`
// +kubebuilder:printcolumn:name="Changed",type=integer,JSONPath=`.status.changed`
// +kubebuilder:printcolumn:name="NoOpinion",type=integer,priority=1,JSONPath=`.status.noOpinion`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.errors`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
// +kubebuilder:printcolumn:name="As-Of",type=date,JSONPath=`.status.countedAt`
// +kubebuilder:printcolumn:name="Evaluated",type=string,JSONPath=`.status.conditions[?(@.type=="Evaluated")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
type ClusterPolicyCandidate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PolicyCandidateSpec `json:"spec"`
	// +optional
	Status PolicyCandidateStatus `json:"status,omitempty"`
}

// ClusterPolicyCandidateList is a list of ClusterPolicyCandidate.
//
// +kubebuilder:object:root=true
type ClusterPolicyCandidateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPolicyCandidate `json:"items"`
}

// PolicyCandidate has policies of its own namespace evaluated beside those in force. It changes
// nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pcand,categories={usher,candidates}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Replaces",type=string,JSONPath=`.spec.replaces.name`
// +kubebuilder:printcolumn:name="Seen",type=integer,JSONPath=`.status.seen`
// +kubebuilder:printcolumn:name="Skipped",type=integer,JSONPath=`.status.skipped`
// +kubebuilder:printcolumn:name="Denied+",type=integer,JSONPath=`.status.newlyDenied`
// +kubebuilder:printcolumn:name="Allowed+",type=integer,JSONPath=`.status.newlyAllowed`
// +kubebuilder:printcolumn:name="Changed",type=integer,JSONPath=`.status.changed`
// +kubebuilder:printcolumn:name="NoOpinion",type=integer,priority=1,JSONPath=`.status.noOpinion`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.errors`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
// +kubebuilder:printcolumn:name="As-Of",type=date,JSONPath=`.status.countedAt`
// +kubebuilder:printcolumn:name="Evaluated",type=string,JSONPath=`.status.conditions[?(@.type=="Evaluated")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
type PolicyCandidate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PolicyCandidateSpec `json:"spec"`
	// +optional
	Status PolicyCandidateStatus `json:"status,omitempty"`
}

// PolicyCandidateList is a list of PolicyCandidate.
//
// +kubebuilder:object:root=true
type PolicyCandidateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyCandidate `json:"items"`
}

// PolicyCandidateSpec says which policies would be in force.
//
// +kubebuilder:validation:XValidation:rule="has(self.remove) && self.remove ? has(self.replaces) && !has(self.policies) : has(self.policies)",message="write policies, or remove: true with the policy that replaces names"
type PolicyCandidateSpec struct {
	// Replaces is the policy that would no longer be in force as it is. One of Policies has its kind
	// and name, unless Remove is true.
	// +optional
	Replaces *CandidateRef `json:"replaces,omitempty"`
	// Remove is true for a candidate without the policy that Replaces names.
	// +optional
	Remove bool `json:"remove,omitempty"`
	// Policies are the policies that would be in force, as they would be written: policies,
	// their bindings, and exemptions. Those in force with the same kind and name would not be.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:XEmbeddedResource
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Policies []runtime.RawExtension `json:"policies,omitempty"`
}

// CandidateRef names a policy in force.
type CandidateRef struct {
	// Kind is the kind of the policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name is the name of the policy. That of a PolicyCandidate is in its namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace is the namespace of the policy, if that of a ClusterPolicyCandidate has one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// PolicyCandidateStatus reports what would differ. Usher writes it, at most once a minute while only
// the numbers change. They count decisions: a candidate that changes and validates objects has two for
// one request. Dry runs are not counted.
type PolicyCandidateStatus struct {
	// ObservedGeneration is the metadata.generation that the other fields describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Evaluated and Proven.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems lists what is wrong with the candidate, errors first.
	// +optional
	// +listType=atomic
	Problems []kcloudlabs.PolicyProblem `json:"problems,omitempty"`
	// Since is when counting began: with this version of the candidate, and of the policies that it
	// affects.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Restarted is why counting began again then; empty if it has not.
	// +optional
	Restarted string `json:"restarted,omitempty"`
	// CountedAt is when the numbers were last written: when they change, at most once a minute.
	// +optional
	CountedAt *metav1.Time `json:"countedAt,omitempty"`
	// Compared identifies the versions of the policies in force with which the candidate is compared.
	// +optional
	// +listType=atomic
	Compared []ComparedPolicy `json:"compared,omitempty"`

	CandidateCounts `json:",inline"`

	// LastError is one line about what is wrong with the candidate.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// ComparedPolicy is a version of a policy in force.
type ComparedPolicy struct {
	CandidateRef `json:",inline"`

	// UID is that of the policy; empty if it comes from a file.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Generation is that of the version in force.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// CandidateCounts are what was counted since then.
type CandidateCounts struct {
	// Seen is how many decisions the candidate was evaluated for.
	// +optional
	Seen int64 `json:"seen"`
	// Skipped is how many decisions it may have concerned, but was not evaluated for, because a replica was
	// busy or the objects were too large.
	// +optional
	Skipped int64 `json:"skipped"`
	// NewlyDenied is how many requests would be denied that were not.
	// +optional
	NewlyDenied int64 `json:"newlyDenied"`
	// NewlyAllowed is how many requests would not be denied that were, by the policies in force that it
	// affects and by no others; and how many requests to authorize would be allowed that were not.
	// +optional
	NewlyAllowed int64 `json:"newlyAllowed"`
	// Warned is how many requests would be answered with another warning or another audit annotation.
	// +optional
	Warned int64 `json:"warned"`
	// Changed is how many objects would be changed otherwise. What that would lead to, in later
	// validations and at other webhooks, is not known.
	// +optional
	Changed int64 `json:"changed"`
	// Errors is how many evaluations have failed that do not fail in the policies in force.
	// +optional
	Errors int64 `json:"errors"`
	// NoOpinion is how many requests to authorize would be left to other authorizers, and were allowed
	// or denied.
	// +optional
	NoOpinion int64 `json:"noOpinion"`
}

// ConditionEvaluated is the condition that every replica evaluates the candidate.
const ConditionEvaluated = "Evaluated"

// The reasons of the condition Evaluated, besides those of policies and [ReasonNotEffective].
const (
	// ReasonEvaluated: every replica evaluates the candidate.
	ReasonEvaluated = "Evaluated"
)
