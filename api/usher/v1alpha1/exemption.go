package v1alpha1

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// ClusterPolicyExemption exempts requests of the whole cluster from policies, until it expires.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cpex,categories={usher,exemptions}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.uses`
// +kubebuilder:printcolumn:name="Last-Used",type=date,JSONPath=`.status.lastUsed`
// +kubebuilder:printcolumn:name="Policies",type=string,priority=1,JSONPath=`.spec.policyRefs`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterPolicyExemption struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PolicyExemptionSpec `json:"spec"`
	// +optional
	Status PolicyExemptionStatus `json:"status,omitempty"`
}

// ClusterPolicyExemptionList is a list of ClusterPolicyExemption.
//
// +kubebuilder:object:root=true
type ClusterPolicyExemptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPolicyExemption `json:"items"`
}

// PolicyExemption exempts requests of its own namespace from policies that permit it, until it
// expires.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pex,categories={usher,exemptions}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.uses`
// +kubebuilder:printcolumn:name="Last-Used",type=date,JSONPath=`.status.lastUsed`
// +kubebuilder:printcolumn:name="Policies",type=string,priority=1,JSONPath=`.spec.policyRefs`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PolicyExemption struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PolicyExemptionSpec `json:"spec"`
	// +optional
	Status PolicyExemptionStatus `json:"status,omitempty"`
}

// PolicyExemptionList is a list of PolicyExemption.
//
// +kubebuilder:object:root=true
type PolicyExemptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyExemption `json:"items"`
}

// PolicyExemptionSpec says which requests are exempt from which policies, why, and until when.
type PolicyExemptionSpec struct {
	// PolicyRefs are the policies from which requests are exempt.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	PolicyRefs []PolicyRef `json:"policyRefs"`
	// MatchConstraints are the requests that are exempt. The default is all requests.
	// +optional
	MatchConstraints *admissionv1.MatchResources `json:"matchConstraints,omitempty"`
	// MatchConditions are CEL expressions. A request is exempt only if all of them are true.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`
	// Subjects are the users whose requests are exempt. The default is all users.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Subjects []Subject `json:"subjects,omitempty"`
	// Images are patterns, with one * each, of images whose containers are exempt. The other
	// containers of the pod are still validated.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^[^*\s]+\*?[^*\s]*$|^\*[^*\s]*$`
	Images []string `json:"images,omitempty"`
	// Action is what follows when a request would have been denied: Skip, nothing; Warn, a warning;
	// Audit, an audit annotation. The default is Skip.
	// +optional
	Action ExemptionAction `json:"action,omitempty"`

	// Suspend is true to put the exemption out of force: it exempts nothing until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Reason is why the exemption is needed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`\S`
	Reason string `json:"reason"`
	// Owner is whom to ask about the exemption.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`\S`
	Owner string `json:"owner"`
	// ExpiresAt is when the exemption ends.
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// PolicyRef names policies, or validations of policies.
type PolicyRef struct {
	// Kind is the kind of the policies.
	// +kubebuilder:validation:Enum=ClusterObjectPolicy;ObjectPolicy;ClusterValidatePolicy;ClusterOverridePolicy;OverridePolicy;ValidatingAdmissionPolicy;MutatingAdmissionPolicy
	Kind string `json:"kind"`
	// Name is the name of the policy. It may contain one *.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^*]*\*?[^*]*$`
	Name string `json:"name"`
	// Validations are names of validations of the policy. The default is the whole policy.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Validations []string `json:"validations,omitempty"`
}

// ExemptionAction is what follows from an exemption.
//
// +kubebuilder:validation:Enum=Skip;Warn;Audit
type ExemptionAction string

// The actions of exemptions.
const (
	ExemptionActionSkip  ExemptionAction = "Skip"
	ExemptionActionWarn  ExemptionAction = "Warn"
	ExemptionActionAudit ExemptionAction = "Audit"
)

// PolicyExemptionStatus reports whether an exemption is in force, and how it is used. Usher writes
// it.
type PolicyExemptionStatus struct {
	// ObservedGeneration is the metadata.generation that the other fields describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Valid, Proven, and ExpiresSoon and Unused while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems lists what is wrong with the exemption, errors first.
	// +optional
	// +listType=atomic
	Problems []kcloudlabs.PolicyProblem `json:"problems,omitempty"`
	// LastUsed is when a request was last exempt, up to a few minutes ago.
	// +optional
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
	// Uses is how many requests have been exempt.
	// +optional
	Uses int64 `json:"uses,omitempty"`
	// LastError is one line about what is wrong with the exemption.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// The types of conditions of an exemption, besides Proven.
const (
	// ConditionValid: the exemption is in force at every replica.
	ConditionValid = "Valid"
	// ConditionExpiresSoon: the exemption is in force, and expires within a week if it is for more than two weeks, within
	// a day if it is for more than two days, or else after nine tenths of its time.
	ConditionExpiresSoon = "ExpiresSoon"
	// ConditionUnused: the exemption has been in force for 30 days without a use.
	ConditionUnused = "Unused"
)

// The reasons of conditions of an exemption, besides those of policies.
const (
	// ReasonValid: the exemption is in force at every replica.
	ReasonValid = "Valid"
	// ReasonExpired: spec.expiresAt is past.
	ReasonExpired = "Expired"
	// ReasonNotEffective: the exemption has no effect, since API servers enforce the policies that it
	// names themselves, or there are none.
	ReasonNotEffective = "NotEffective"
	// ReasonExpiresWithinAWeek and ReasonExpiresWithinADay: the exemption expires in less than that.
	ReasonExpiresWithinAWeek = "ExpiresWithinAWeek"
	ReasonExpiresWithinADay  = "ExpiresWithinADay"
	// ReasonNotUsed: no request has been exempt for 30 days.
	ReasonNotUsed = "NotUsed"
)
