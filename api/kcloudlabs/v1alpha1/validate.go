package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterValidatePolicy refuses objects, in every namespace and cluster-scoped ones, that
// do not meet its rules.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cvp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterValidatePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterValidatePolicySpec `json:"spec,omitempty"`
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// ClusterValidatePolicyList is a list of ClusterValidatePolicy.
//
// +kubebuilder:object:root=true
type ClusterValidatePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterValidatePolicy `json:"items"`
}

// ClusterValidatePolicySpec says which objects are looked at, and what is refused.
type ClusterValidatePolicySpec struct {
	// ResourceSelectors are alternatives: an object that one of them selects is looked
	// at. No selector selects every object of every kind.
	// +optional
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
	// ValidateRules are tried in order; the first that rejects gives the reason.
	ValidateRules []ValidateRule `json:"validateRules"`
}

// ValidateRule is what to refuse on some operations.
type ValidateRule struct {
	// TargetOperations are the operations that the rule is for: CREATE, UPDATE, DELETE,
	// CONNECT, or * for all. None means all.
	// +optional
	TargetOperations []string `json:"targetOperations,omitempty"`
	// Cue is a CUE program: it is given object, on UPDATE also oldObject, and defines
	// validate with valid and reason.
	// +optional
	Cue string `json:"cue"`
	// Template says the condition in fields instead of a program. It is tried before Cue.
	// +optional
	Template *ValidateRuleTemplate `json:"template,omitempty"`
	// RenderedCue is filled in by the webhook: Template as a CUE program.
	// +optional
	RenderedCue string `json:"renderedCue,omitempty"`
}

// ValidateTemplateType is the kind of a ValidateRuleTemplate.
//
// +kubebuilder:validation:Enum=condition;pab
type ValidateTemplateType string

// The types of validate templates.
const (
	// TemplateCondition compares two values.
	TemplateCondition ValidateTemplateType = "condition"
	// TemplatePodAvailableBadge keeps a number of pods of a workload running. It stems
	// from an early release of kinitiras.
	TemplatePodAvailableBadge ValidateTemplateType = "pab"
)

// ValidateRuleTemplate is a condition that is written in fields.
type ValidateRuleTemplate struct {
	// +optional
	Type ValidateTemplateType `json:"type,omitempty"`
	// +optional
	Condition *ValidateCondition `json:"condition,omitempty"`
	// +optional
	PodAvailableBadge *PodAvailableBadge `json:"podAvailableBadge,omitempty"`
}

// AffectMode is what a hit of a condition means.
//
// +kubebuilder:validation:Enum=reject;allow
type AffectMode string

// The affect modes.
const (
	// AffectReject: a hit rejects. It is the default.
	AffectReject AffectMode = "reject"
	// AffectAllow: only a hit is allowed.
	AffectAllow AffectMode = "allow"
)

// Cond is how a condition compares.
//
// +kubebuilder:validation:Enum=Equal;NotEqual;Exist;NotExist;In;NotIn;Gt;Gte;Lt;Lte
type Cond string

// The conditions.
const (
	CondEqual          Cond = "Equal"
	CondNotEqual       Cond = "NotEqual"
	CondExist          Cond = "Exist"
	CondNotExist       Cond = "NotExist"
	CondIn             Cond = "In"
	CondNotIn          Cond = "NotIn"
	CondGreater        Cond = "Gt"
	CondGreaterOrEqual Cond = "Gte"
	CondLess           Cond = "Lt"
	CondLessOrEqual    Cond = "Lte"
)

// ValidateCondition hits when the value of DataRef stands in the relation Cond to Value
// or ValueRef.
type ValidateCondition struct {
	// +optional
	AffectMode AffectMode `json:"affectMode,omitempty"`
	// +optional
	Cond Cond `json:"cond,omitempty"`
	// DataRef is the left-hand side.
	// +optional
	DataRef *ResourceRefer `json:"dataRef,omitempty"`
	// Message is the reason of a rejection.
	// +optional
	Message string `json:"message,omitempty"`
	// Value is the right-hand side as a constant.
	// +optional
	Value *ConstantValue `json:"value,omitempty"`
	// ValueRef is the right-hand side from somewhere else. It wins over Value.
	// +optional
	ValueRef *ResourceRefer `json:"valueRef,omitempty"`
	// ValueProcess computes with the right-hand side before it is compared.
	// +optional
	ValueProcess *ValueProcess `json:"valueProcess,omitempty"`
}

// ValueProcess is arithmetic on the right-hand side of a condition.
type ValueProcess struct {
	// Operation is +, -, * or /.
	// +optional
	Operation OperationType `json:"operation,omitempty"`
	// OperationWith is the operand: a number, a decimal in a string, or a percentage.
	// +optional
	OperationWith *intstr.IntOrString `json:"operationWith,omitempty"`
}

// OperationType is +, -, * or /.
type OperationType string

// PodAvailableBadge keeps a number of the pods of a workload running. MaxUnavailable wins
// over MinAvailable.
type PodAvailableBadge struct {
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// ReplicaReference tells where the replica counts are; by default they are those of
	// the owner.
	// +optional
	ReplicaReference *ReplicaResourceRefer `json:"replicaReference,omitempty"`
}

// ReplicaResourceRefer is where replica counts are found.
type ReplicaResourceRefer struct {
	// +optional
	From ValueRefFrom `json:"from,omitempty"`
	// +optional
	TargetReplicaPath string `json:"targetReplicaPath,omitempty"`
	// +optional
	CurrentReplicaPath string `json:"currentReplicaPath,omitempty"`
	// +optional
	K8s *ResourceSelector `json:"k8s,omitempty"`
	// +optional
	Http *HttpDataRef `json:"http,omitempty"`
}
