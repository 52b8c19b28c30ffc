package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OverridePolicy changes objects of its own namespace as they are written.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=op
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec OverridePolicySpec `json:"spec,omitempty"`
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// OverridePolicyList is a list of OverridePolicy.
//
// +kubebuilder:object:root=true
type OverridePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OverridePolicy `json:"items"`
}

// ClusterOverridePolicy changes objects of every namespace, and cluster-scoped ones, as
// they are written. It acts before any OverridePolicy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cop
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterOverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OverridePolicySpec `json:"spec"`
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// ClusterOverridePolicyList is a list of ClusterOverridePolicy.
//
// +kubebuilder:object:root=true
type ClusterOverridePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterOverridePolicy `json:"items"`
}

// OverridePolicySpec says which objects are changed, and how.
type OverridePolicySpec struct {
	// ResourceSelectors are alternatives: an object that one of them selects is changed.
	// No selector selects every object of every kind.
	// +optional
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
	// OverrideRules are applied in order, each to the result of the one before.
	OverrideRules []OverrideRule `json:"overrideRules"`
}

// OverrideRule is what to change on some operations.
type OverrideRule struct {
	// TargetOperations are the operations that the rule is for: CREATE, UPDATE, DELETE,
	// CONNECT, or * for all. None means all.
	// +optional
	TargetOperations []string `json:"targetOperations,omitempty"`
	// Overriders are the changes, in this order: template, cue, plaintext, origin.
	Overriders Overriders `json:"overriders"`
}

// Overriders are ways to say what to change. They can be combined.
type Overriders struct {
	// Plaintext are operations in the manner of JSON patch.
	// +optional
	Plaintext []PlaintextOverrider `json:"plaintext,omitempty"`
	// Cue is a CUE program: it is given object and defines patches.
	// +optional
	Cue string `json:"cue,omitempty"`
	// Template says the change in fields instead of a program.
	// +optional
	Template *OverrideRuleTemplate `json:"template,omitempty"`
	// RenderedCue is filled in by the webhook: Template as a CUE program.
	// +optional
	RenderedCue string `json:"renderedCue,omitempty"`
	// Origin are changes written as the Kubernetes types that they change.
	// +optional
	Origin []OverrideRuleOrigin `json:"origin,omitempty"`
}

// PlaintextOverrider is one operation in the manner of JSON patch.
type PlaintextOverrider struct {
	// Path is a JSON pointer.
	Path string `json:"path"`
	// Operator is add, remove or replace.
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"op"`
	// Value is what to add or to replace with; none means null.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// OverriderOperator is what to do with a field.
//
// +kubebuilder:validation:Enum=add;replace;remove
type OverriderOperator string

// The operators of overriders.
const (
	OperatorAdd     OverriderOperator = "add"
	OperatorReplace OverriderOperator = "replace"
	OperatorRemove  OverriderOperator = "remove"
)

// OverrideTemplateType is what an OverrideRuleTemplate changes.
//
// +kubebuilder:validation:Enum=annotations;labels;resources;resourcesOversell;tolerations;affinity
type OverrideTemplateType string

// The types of override templates.
const (
	TemplateAnnotations       OverrideTemplateType = "annotations"
	TemplateLabels            OverrideTemplateType = "labels"
	TemplateResources         OverrideTemplateType = "resources"
	TemplateResourcesOversell OverrideTemplateType = "resourcesOversell"
	TemplateTolerations       OverrideTemplateType = "tolerations"
	TemplateAffinity          OverrideTemplateType = "affinity"
)

// OverrideRuleTemplate is a change that is written in fields.
type OverrideRuleTemplate struct {
	// Type tells what to change and which of the fields below count.
	// +optional
	Type OverrideTemplateType `json:"type,omitempty"`
	// +optional
	Operation OverriderOperator `json:"operation,omitempty"`
	// Path is the key of the annotation or label.
	// +optional
	Path string `json:"path,omitempty"`
	// Value is a constant. It wins over ValueRef.
	// +optional
	Value *ConstantValue `json:"value,omitempty"`
	// ValueRef takes the value from somewhere else.
	// +optional
	ValueRef *ResourceRefer `json:"valueRef,omitempty"`
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// +optional
	ResourcesOversell *ResourcesOversellRule `json:"resourcesOversell,omitempty"`
	// +optional
	Tolerations []*corev1.Toleration `json:"tolerations,omitempty"`
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
}

// ResourcesOversellRule computes requests from limits. A factor is a decimal number
// between 0 and 1 in a string.
type ResourcesOversellRule struct {
	// +optional
	CpuFactor Float64 `json:"cpuFactor,omitempty"`
	// +optional
	MemoryFactor Float64 `json:"memoryFactor,omitempty"`
	// +optional
	DiskFactor Float64 `json:"diskFactor,omitempty"`
}

// Float64 is a decimal number in a string.
type Float64 string

// OverrideOriginType is what an OverrideRuleOrigin changes.
//
// +kubebuilder:validation:Enum=annotations;labels;nodeSelector;hostNetwork;schedulerName;resourceRequirements;resourceOversell;affinity;tolerations;topologySpreadConstraints
type OverrideOriginType string

// The types of origin overriders.
const (
	OriginAnnotations               OverrideOriginType = "annotations"
	OriginLabels                    OverrideOriginType = "labels"
	OriginNodeSelector              OverrideOriginType = "nodeSelector"
	OriginHostNetwork               OverrideOriginType = "hostNetwork"
	OriginSchedulerName             OverrideOriginType = "schedulerName"
	OriginResourceRequirements      OverrideOriginType = "resourceRequirements"
	OriginResourceOversell          OverrideOriginType = "resourceOversell"
	OriginAffinity                  OverrideOriginType = "affinity"
	OriginTolerations               OverrideOriginType = "tolerations"
	OriginTopologySpreadConstraints OverrideOriginType = "topologySpreadConstraints"
)

// OverrideRuleOrigin is a change written as the Kubernetes type that it changes.
type OverrideRuleOrigin struct {
	// Type tells what to change and which of the fields below counts.
	// +optional
	Type OverrideOriginType `json:"type,omitempty"`
	// +optional
	Operation OverriderOperator `json:"operation,omitempty"`
	// Replace exchanges the whole field instead of merging into it.
	// +optional
	Replace bool `json:"replace,omitempty"`
	// ContainerCount is the index of the container, from 0.
	// +optional
	ContainerCount int `json:"containerCount,omitempty"`

	// +optional
	// +mapType=atomic
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	// +mapType=atomic
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
	// +optional
	ResourceRequirements *corev1.ResourceRequirements `json:"resourceRequirements,omitempty"`
	// ResourcesOversell holds factors by requests or limits, then by resource name.
	// +optional
	ResourcesOversell map[ResourceType]map[corev1.ResourceName]Float64 `json:"resourcesOversell,omitempty"`
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// +optional
	// +patchMergeKey=topologyKey
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// ResourceType is requests or limits.
type ResourceType string

// The resource types.
const (
	Requests ResourceType = "requests"
	Limits   ResourceType = "limits"
)
