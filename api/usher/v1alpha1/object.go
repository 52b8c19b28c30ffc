package v1alpha1

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// ClusterObjectPolicy validates and changes objects of the whole cluster when they are written.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cobp,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.status.action`
// +kubebuilder:printcolumn:name="Kinds",type=string,JSONPath=`.status.kinds`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterObjectPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterObjectPolicySpec `json:"spec"`
	// +optional
	Status kcloudlabs.PolicyStatus `json:"status,omitempty"`
}

// ClusterObjectPolicyList is a list of ClusterObjectPolicy.
//
// +kubebuilder:object:root=true
type ClusterObjectPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterObjectPolicy `json:"items"`
}

// ObjectPolicy validates and changes objects of its own namespace when they are written.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=obp,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.status.action`
// +kubebuilder:printcolumn:name="Kinds",type=string,JSONPath=`.status.kinds`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Proven",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Proven")].status`
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ObjectPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ObjectPolicySpec `json:"spec"`
	// +optional
	Status kcloudlabs.PolicyStatus `json:"status,omitempty"`
}

// ObjectPolicyList is a list of ObjectPolicy.
//
// +kubebuilder:object:root=true
type ObjectPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ObjectPolicy `json:"items"`
}

// ClusterObjectPolicySpec is the spec of a ClusterObjectPolicy.
type ClusterObjectPolicySpec struct {
	// NamespaceExemptions says whether a PolicyExemption of a namespace counts for the policy. The
	// default is Ignore: only a ClusterPolicyExemption does.
	// +optional
	NamespaceExemptions NamespaceExemptions `json:"namespaceExemptions,omitempty"`

	// ExistingObjects has users warned, when they change a namespace, of the objects in it that would
	// be denied from then on. The default is that nobody is.
	// +optional
	ExistingObjects *ExistingObjects `json:"existingObjects,omitempty"`

	ObjectPolicySpec `json:",inline"`
}

// ExistingObjects are the objects that are validated when their namespace changes: as if they were
// created, by the bindings with the action Deny that come into force. The change is never denied.
type ExistingObjects struct {
	// APIVersion is that of the objects, such as v1.
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// Kind is that of the objects, such as Pod.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// MatchConditions are CEL expressions about the change: object is the namespace, and oldObject the
	// namespace before. If all of them are true, bindings that select the namespace come into force.
	// The default is that bindings do which select the namespace, and did not before.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`
	// Requirement is what warnings call that which comes into force. The default is the kind and the
	// name of the policy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Requirement string `json:"requirement,omitempty"`
	// MessageExpression is a CEL expression of type string that makes the first warning. It is evaluated
	// for one of the objects that would be denied. The default says that objects violate the requirement.
	// +optional
	MessageExpression string `json:"messageExpression,omitempty"`
	// ObjectMessageExpression is a CEL expression of type string that says what is wrong with an object.
	// Objects with the same message share a warning. The default are the messages of the validations.
	// +optional
	ObjectMessageExpression string `json:"objectMessageExpression,omitempty"`
}

// ObjectPolicySpec is the part of the spec that both kinds of object policies have. Fields that a
// ValidatingAdmissionPolicy or a MutatingAdmissionPolicy also has mean the same as there.
//
// +kubebuilder:validation:XValidation:rule="has(self.validations) && size(self.validations) > 0 || has(self.mutations) && size(self.mutations) > 0 || has(self.auditAnnotations) && size(self.auditAnnotations) > 0",message="the policy does nothing: write validations, mutations or auditAnnotations"
// +kubebuilder:validation:XValidation:rule="has(self.paramKind) || !has(self.bindings) || self.bindings.all(b, !has(b.paramRef))",message="paramRef needs paramKind: set paramKind, or write params in place"
// +kubebuilder:validation:XValidation:rule="!has(self.reinvocationPolicy) || has(self.mutations)",message="reinvocationPolicy belongs to mutations"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplates) || has(self.validations)",message="podTemplates belongs to validations"
type ObjectPolicySpec struct {
	// Description says what the policy is for. The default is the annotation
	// policies.kyverno.io/description.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`
	// Category groups policies in reports, such as Pod Security. The default is the annotation
	// policies.kyverno.io/category.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Category string `json:"category,omitempty"`
	// Severity is that of validations without one. The default is the annotation
	// policies.kyverno.io/severity, or medium.
	// +optional
	Severity Severity `json:"severity,omitempty"`
	// Links are URLs of pages about the policy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:Pattern=`^https?://[^ ]+$`
	Links []string `json:"links,omitempty"`

	// MatchConstraints are the requests to which the policy applies.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.resourceRules) && size(self.resourceRules) > 0",message="say for which requests the policy is: resourceRules is missing"
	MatchConstraints admissionv1.MatchResources `json:"matchConstraints"`
	// MatchConditions are CEL expressions. The policy applies only if all of them are true.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`
	// Subjects are the users to whose requests the policy applies. The default is all users.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Subjects []Subject `json:"subjects,omitempty"`
	// ExcludeSubjects are users to whose requests the policy does not apply, even if they match
	// Subjects.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	ExcludeSubjects []Subject `json:"excludeSubjects,omitempty"`

	// ParamKind is the kind of the objects to which paramRef of a binding refers. Without it,
	// bindings have params in place.
	// +optional
	ParamKind *admissionv1.ParamKind `json:"paramKind,omitempty"`
	// Data are objects and HTTP responses that expressions read as data.NAME.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Data []DataSource `json:"data,omitempty"`
	// Variables are CEL expressions that other expressions use as variables.NAME.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Variables []admissionv1.Variable `json:"variables,omitempty"`

	// Validations reject a request unless their expression is true.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Validations []Validation `json:"validations,omitempty"`
	// Mutations change the object, one after the other, before the validations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Mutations []Mutation `json:"mutations,omitempty"`
	// AuditAnnotations are added to the audit event of a request.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=20
	AuditAnnotations []admissionv1.AuditAnnotation `json:"auditAnnotations,omitempty"`

	// PodTemplates says what follows from validations of pods that the pod of a workload fails, such
	// as that of a Deployment. The default is Warn if the policy selects only pods, and else Off.
	// +optional
	PodTemplates PodTemplates `json:"podTemplates,omitempty"`
	// FailurePolicy says how to handle a request if the policy fails. The default is Fail.
	// +optional
	// +kubebuilder:validation:Enum=Fail;Ignore
	FailurePolicy admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// ReinvocationPolicy is IfNeeded to apply the mutations again if a later webhook changes the
	// object. The default is Never.
	// +optional
	// +kubebuilder:validation:Enum=Never;IfNeeded
	ReinvocationPolicy admissionv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	// Suspend is true to put the policy out of force: it decides nothing until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Bindings put the policy into force, each for the requests that it matches. All that match
	// count. Without any, the policy is in force for all its requests, and its action is Deny.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Bindings []Binding `json:"bindings,omitempty"`
}

// NamespaceExemptions says whether exemptions of namespaces count.
//
// +kubebuilder:validation:Enum=Allow;Ignore
type NamespaceExemptions string

// The values of NamespaceExemptions.
const (
	NamespaceExemptionsAllow  NamespaceExemptions = "Allow"
	NamespaceExemptionsIgnore NamespaceExemptions = "Ignore"
)

// PodTemplates says what follows from a pod template that fails validations of pods.
//
// +kubebuilder:validation:Enum=Deny;Warn;Off
type PodTemplates string

// The values of PodTemplates.
const (
	PodTemplatesDeny PodTemplates = "Deny"
	PodTemplatesWarn PodTemplates = "Warn"
	PodTemplatesOff  PodTemplates = "Off"
)

// Binding puts a policy into force for some of its requests.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.validationActions) && 'Deny' in self.validationActions && 'Warn' in self.validationActions)",message="Deny and Warn exclude each other: the message of a denial is shown, too"
// +kubebuilder:validation:XValidation:rule="!(has(self.params) && has(self.paramRef))",message="a binding has either params or paramRef"
type Binding struct {
	// Name identifies the binding in messages. Without one it is named by its place.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// MatchResources are the requests for which the binding is. The default is all requests of the
	// policy.
	// +optional
	MatchResources *admissionv1.MatchResources `json:"matchResources,omitempty"`
	// ValidationActions say what follows from a validation that fails: Deny, Warn or Audit. The
	// default is Deny. Deny and Warn exclude each other.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Deny;Warn;Audit
	ValidationActions []admissionv1.ValidationAction `json:"validationActions,omitempty"`
	// ParamRef selects objects of the paramKind. The policy is evaluated with each.
	// +optional
	ParamRef *admissionv1.ParamRef `json:"paramRef,omitempty"`
	// Params is the variable params, written in place.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Params *apiextensionsv1.JSON `json:"params,omitempty"`
}

// Validation is a condition that requests must meet.
//
// +kubebuilder:validation:XValidation:rule="has(self.expression) != has(self.cue)",message="a validation has either expression or cue"
type Validation struct {
	// Name identifies the validation in messages and exemptions.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// Expression is a CEL expression of type bool. If it is false, the validation fails.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Expression string `json:"expression,omitempty"`
	// Cue is a CUE program that defines validate: {valid, reason}, in place of an expression.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Cue string `json:"cue,omitempty"`
	// Message is returned to the user. The default tells the expression.
	// +optional
	Message string `json:"message,omitempty"`
	// MessageExpression is a CEL expression of type string that makes the message.
	// +optional
	MessageExpression string `json:"messageExpression,omitempty"`
	// Reason is the reason of the response. The default is Invalid.
	// +optional
	// +kubebuilder:validation:Enum=Unauthorized;Forbidden;Invalid;RequestEntityTooLarge
	Reason metav1.StatusReason `json:"reason,omitempty"`
	// Severity is for reports. The default is that of the policy.
	// +optional
	Severity Severity `json:"severity,omitempty"`
	// FieldPath is the field that is wrong, such as spec.hostNetwork. The default is the field that
	// the failing part of the expression reads.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	FieldPath string `json:"fieldPath,omitempty"`
}

// Severity is how serious it is that a validation fails.
//
// +kubebuilder:validation:Enum=critical;high;medium;low;info
type Severity string

// The severities.
const (
	SeverityCritical Severity = "critical"
	SeverityHigh     Severity = "high"
	SeverityMedium   Severity = "medium"
	SeverityLow      Severity = "low"
	SeverityInfo     Severity = "info"
)

// Mutation changes an object. It has the field that its patchType names.
//
// +kubebuilder:validation:XValidation:rule="has(self.applyConfiguration) == (self.patchType == 'ApplyConfiguration')",message="applyConfiguration belongs to patchType ApplyConfiguration"
// +kubebuilder:validation:XValidation:rule="has(self.jsonPatch) == (self.patchType == 'JSONPatch')",message="jsonPatch belongs to patchType JSONPatch"
// +kubebuilder:validation:XValidation:rule="has(self.mergePatch) == (self.patchType == 'MergePatch')",message="mergePatch belongs to patchType MergePatch"
// +kubebuilder:validation:XValidation:rule="has(self.template) == (self.patchType == 'Template')",message="template belongs to patchType Template"
type Mutation struct {
	// Name identifies the mutation in messages.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// PatchType is how the object is changed.
	PatchType PatchType `json:"patchType"`
	// ApplyConfiguration is merged into the object as server-side apply does.
	// +optional
	ApplyConfiguration *admissionv1.ApplyConfiguration `json:"applyConfiguration,omitempty"`
	// JSONPatch makes operations of a JSON patch.
	// +optional
	JSONPatch *admissionv1.JSONPatch `json:"jsonPatch,omitempty"`
	// MergePatch is merged into the object: null removes a field, lists are replaced.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	MergePatch *apiextensionsv1.JSON `json:"mergePatch,omitempty"`
	// Template is a change that is defined by fields, as in an OverridePolicy.
	// +optional
	Template *kcloudlabs.OverrideRuleTemplate `json:"template,omitempty"`
}

// PatchType is how a mutation changes an object.
//
// +kubebuilder:validation:Enum=ApplyConfiguration;JSONPatch;MergePatch;Template
type PatchType string

// The patch types.
const (
	PatchTypeApplyConfiguration PatchType = "ApplyConfiguration"
	PatchTypeJSONPatch          PatchType = "JSONPatch"
	PatchTypeMergePatch         PatchType = "MergePatch"
	PatchTypeTemplate           PatchType = "Template"
)
