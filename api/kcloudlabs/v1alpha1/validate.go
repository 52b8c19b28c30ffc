package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterValidatePolicy rejects objects that violate its rules, in all namespaces and
// cluster-scoped.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cvp,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.status.action`
// +kubebuilder:printcolumn:name="Kinds",type=string,JSONPath=`.status.kinds`
// +kubebuilder:printcolumn:name="Suspended",type=string,JSONPath=`.metadata.annotations.usher\.dev/suspend`
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

// ClusterValidatePolicySpec defines which objects to validate, and which to reject.
type ClusterValidatePolicySpec struct {
	// ResourceSelectors select the objects to validate. An object must match one of the selectors.
	// Without selectors, the policy applies to all objects of all kinds.
	// +optional
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
	// ValidateRules are evaluated in order. Each can reject the object; the first that rejects it
	// gives the reason.
	ValidateRules []ValidateRule `json:"validateRules"`
}

// ValidateRule defines what to reject on some operations.
type ValidateRule struct {
	// TargetOperations are the operations to which the rule applies: CREATE, UPDATE, DELETE,
	// CONNECT, or * for all. The default is all operations: objects that violate the rule cannot be
	// deleted then.
	// +optional
	TargetOperations []string `json:"targetOperations,omitempty"`
	// Cue is a CUE program. It declares object and, in a rule for UPDATE only, oldObject, and
	// defines validate: {valid, reason}. If it uses a missing field, the rule fails.
	// +optional
	Cue string `json:"cue"`
	// Template is a condition, defined by fields instead of a program. It is evaluated before cue.
	// +optional
	Template *ValidateRuleTemplate `json:"template,omitempty"`
	// RenderedCue is the template as a CUE program, for information. The webhook writes it. It is
	// never run.
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
	// TemplatePodAvailableBadge keeps a number of pods of a workload running. It comes from an
	// early release of kinitiras.
	TemplatePodAvailableBadge ValidateTemplateType = "pab"
)

// ValidateRuleTemplate is a condition, defined by fields.
type ValidateRuleTemplate struct {
	// Type is condition, to use the field condition, or pab, to use podAvailableBadge.
	// +optional
	Type ValidateTemplateType `json:"type,omitempty"`
	// Condition defines what to reject.
	// +optional
	Condition *ValidateCondition `json:"condition,omitempty"`
	// PodAvailableBadge keeps a number of the pods of a workload running.
	// +optional
	PodAvailableBadge *PodAvailableBadge `json:"podAvailableBadge,omitempty"`
}

// AffectMode is the effect of a condition that is true.
//
// +kubebuilder:validation:Enum=reject;allow
type AffectMode string

// The affect modes.
const (
	// AffectReject rejects if the condition is true. It is the default.
	AffectReject AffectMode = "reject"
	// AffectAllow rejects unless the condition is true.
	AffectAllow AffectMode = "allow"
)

// Cond is the operator of a condition.
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

// ValidateCondition compares the value of DataRef with Value or ValueRef by the operator Cond.
type ValidateCondition struct {
	// AffectMode is reject, to reject if the condition is true, or allow, to reject unless it is
	// true. The default is reject. With allow, the message is not shown.
	// +optional
	AffectMode AffectMode `json:"affectMode,omitempty"`
	// Cond is the operator: Equal, NotEqual, Exist, NotExist, In, NotIn, Gt, Gte, Lt or Lte. For a
	// missing value, only NotExist is true. If the values have different types, the rule fails.
	// +optional
	Cond Cond `json:"cond,omitempty"`
	// DataRef is the left-hand side: a reference to the value to compare. It is required.
	// +optional
	DataRef *ResourceRefer `json:"dataRef,omitempty"`
	// Message is returned to the user whose request is denied. \(object.metadata.name) is replaced
	// by the value of that field, which must exist.
	// +optional
	Message string `json:"message,omitempty"`
	// Value is the right-hand side as a constant: a list for In and NotIn.
	// +optional
	Value *ConstantValue `json:"value,omitempty"`
	// ValueRef is a reference to the right-hand side. It takes precedence over value. In and NotIn
	// do not support it.
	// +optional
	ValueRef *ResourceRefer `json:"valueRef,omitempty"`
	// ValueProcess changes the right-hand side before the comparison.
	// +optional
	ValueProcess *ValueProcess `json:"valueProcess,omitempty"`
}

// ValueProcess is arithmetic on the right-hand side of a condition.
type ValueProcess struct {
	// Operation is +, -, * or /.
	// +optional
	Operation OperationType `json:"operation,omitempty"`
	// OperationWith is the operand: a number, a decimal number in quotes, or a percentage: 60%
	// means 0.6.
	// +optional
	OperationWith *intstr.IntOrString `json:"operationWith,omitempty"`
}

// OperationType is +, -, * or /.
type OperationType string

// PodAvailableBadge keeps a number of a workload's pods running. MaxUnavailable takes precedence
// over MinAvailable.
type PodAvailableBadge struct {
	// MaxUnavailable is the maximum number of unavailable pods: a number, or a percentage of the
	// target.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinAvailable is the minimum number of available pods: a number, or a percentage of the
	// target.
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// ReplicaReference is where to find the numbers of pods. The default is /spec/replicas and
	// /status/replicas of the owner.
	// +optional
	ReplicaReference *ReplicaResourceRefer `json:"replicaReference,omitempty"`
}

// ReplicaResourceRefer is where to find replica counts.
type ReplicaResourceRefer struct {
	// From is the source of the numbers, as in a reference.
	// +optional
	From ValueRefFrom `json:"from,omitempty"`
	// TargetReplicaPath is the path of the desired number of pods.
	// +optional
	TargetReplicaPath string `json:"targetReplicaPath,omitempty"`
	// CurrentReplicaPath is the path of the current number of pods.
	// +optional
	CurrentReplicaPath string `json:"currentReplicaPath,omitempty"`
	// K8s selects the object if from is k8s.
	// +optional
	K8s *ResourceSelector `json:"k8s,omitempty"`
	// Http is the HTTP request if from is http.
	// +optional
	Http *HttpDataRef `json:"http,omitempty"`
}
