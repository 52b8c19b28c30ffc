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
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
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
	// ResourceSelectors say which objects are validated: those that one of the selectors
	// matches. Without selectors, every object of every kind is.
	// +optional
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
	// ValidateRules are alternatives: each can refuse the object. They are tried in order, and
	// the first that refuses gives the reason.
	ValidateRules []ValidateRule `json:"validateRules"`
}

// ValidateRule is what to refuse on some operations.
type ValidateRule struct {
	// TargetOperations are the operations that the rule is for: CREATE, UPDATE, DELETE,
	// CONNECT, or * for all. Without it, the rule is for all of them: objects that break it
	// can then not be deleted either.
	// +optional
	TargetOperations []string `json:"targetOperations,omitempty"`
	// Cue is a CUE program. It declares object and, in a rule for UPDATE only, oldObject, and
	// defines validate: {valid, reason}. A program that uses a missing field fails the request.
	// +optional
	Cue string `json:"cue"`
	// Template is a condition that is written in fields instead of a program. It is tried
	// before cue.
	// +optional
	Template *ValidateRuleTemplate `json:"template,omitempty"`
	// RenderedCue is written by the webhook, for readers: the template as a CUE program.
	// What is written here by hand is never run.
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
	// Type is condition, for condition, or pab, for podAvailableBadge.
	// +optional
	Type ValidateTemplateType `json:"type,omitempty"`
	// Condition describes what is refused.
	// +optional
	Condition *ValidateCondition `json:"condition,omitempty"`
	// PodAvailableBadge keeps a number of the pods of a workload running.
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
	// AffectMode is reject, the default, to refuse if the condition holds, or allow, to
	// refuse unless it holds. With allow, the message is not shown.
	// +optional
	AffectMode AffectMode `json:"affectMode,omitempty"`
	// Cond is how to compare: Equal, NotEqual, Exist, NotExist, In, NotIn, Gt, Gte, Lt or Lte.
	// For a value that is missing, none but NotExist holds. Values of different types fail the
	// request.
	// +optional
	Cond Cond `json:"cond,omitempty"`
	// DataRef is the left-hand side: where the value is that is compared. It is required.
	// +optional
	DataRef *ResourceRefer `json:"dataRef,omitempty"`
	// Message is what the user is told. \(object.metadata.name) in it is replaced by that field,
	// which has to exist.
	// +optional
	Message string `json:"message,omitempty"`
	// Value is the right-hand side as a constant: a list for In and NotIn.
	// +optional
	Value *ConstantValue `json:"value,omitempty"`
	// ValueRef is the right-hand side from somewhere else. It wins over value. In and NotIn
	// cannot have one.
	// +optional
	ValueRef *ResourceRefer `json:"valueRef,omitempty"`
	// ValueProcess changes the right-hand side before it is compared.
	// +optional
	ValueProcess *ValueProcess `json:"valueProcess,omitempty"`
}

// ValueProcess is arithmetic on the right-hand side of a condition.
type ValueProcess struct {
	// Operation is +, -, * or /.
	// +optional
	Operation OperationType `json:"operation,omitempty"`
	// OperationWith is the operand: a number, a decimal in quotes, or a percentage. 60% is 0.6.
	// +optional
	OperationWith *intstr.IntOrString `json:"operationWith,omitempty"`
}

// OperationType is +, -, * or /.
type OperationType string

// PodAvailableBadge keeps a number of the pods of a workload running. MaxUnavailable wins
// over MinAvailable.
type PodAvailableBadge struct {
	// MaxUnavailable is how many pods may be missing: a number, or a percentage of the target.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinAvailable is how many pods have to remain: a number, or a percentage of the target.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// ReplicaReference is where the numbers of pods are. Without it, they are /spec/replicas and
	// /status/replicas of the owner.
	// +optional
	ReplicaReference *ReplicaResourceRefer `json:"replicaReference,omitempty"`
}

// ReplicaResourceRefer is where replica counts are found.
type ReplicaResourceRefer struct {
	// From is where the numbers come from, as in a reference.
	// +optional
	From ValueRefFrom `json:"from,omitempty"`
	// TargetReplicaPath leads to how many pods there should be.
	// +optional
	TargetReplicaPath string `json:"targetReplicaPath,omitempty"`
	// CurrentReplicaPath leads to how many pods there are.
	// +optional
	CurrentReplicaPath string `json:"currentReplicaPath,omitempty"`
	// K8s is which object, if from is k8s.
	// +optional
	K8s *ResourceSelector `json:"k8s,omitempty"`
	// Http is which request to make, if from is http.
	// +optional
	Http *HttpDataRef `json:"http,omitempty"`
}
