package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OverridePolicy changes objects of its own namespace as they are written.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=op,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.status.action`
// +kubebuilder:printcolumn:name="Kinds",type=string,JSONPath=`.status.kinds`
// +kubebuilder:printcolumn:name="Suspended",type=string,JSONPath=`.metadata.annotations.usher\.dev/suspend`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Proven",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Proven")].status`
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
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
// +kubebuilder:resource:scope=Cluster,shortName=cop,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.status.action`
// +kubebuilder:printcolumn:name="Kinds",type=string,JSONPath=`.status.kinds`
// +kubebuilder:printcolumn:name="Suspended",type=string,JSONPath=`.metadata.annotations.usher\.dev/suspend`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
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

// OverridePolicySpec defines which objects to change, and how.
type OverridePolicySpec struct {
	// ResourceSelectors select the objects to change. An object must match one of the selectors.
	// Without selectors, the policy applies to all objects of all kinds.
	// +optional
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
	// OverrideRules are applied in order, each to the result of the one before.
	OverrideRules []OverrideRule `json:"overrideRules"`
}

// OverrideRule defines changes for some operations.
type OverrideRule struct {
	// TargetOperations are the operations to which the rule applies: CREATE, UPDATE, DELETE,
	// CONNECT, or * for all. The default is all operations. Changes have no effect on DELETE.
	// +optional
	TargetOperations []string `json:"targetOperations,omitempty"`
	// Overriders are the changes. They are applied in this order: template, cue, plaintext, origin.
	// Either all are applied, or none.
	Overriders Overriders `json:"overriders"`
}

// Overriders are the ways to define changes. They can be combined.
type Overriders struct {
	// Plaintext is a list of operations as in JSON patch, applied in order. If one cannot be
	// applied, the rule fails.
	// +optional
	Plaintext []PlaintextOverrider `json:"plaintext,omitempty"`
	// Cue is a CUE program. It declares object, the object of the request, and defines patches, a
	// list of {op, path, value}. If it uses a missing field, the rule fails.
	// +optional
	Cue string `json:"cue,omitempty"`
	// Template is one change, defined by fields instead of a program.
	// +optional
	Template *OverrideRuleTemplate `json:"template,omitempty"`
	// RenderedCue is the template as a CUE program, for information. The webhook writes it. It is
	// never run.
	// +optional
	RenderedCue string `json:"renderedCue,omitempty"`
	// Origin is a list of changes, defined by the Kubernetes types that they change. Each is
	// applied to the result of the one before.
	// +optional
	Origin []OverrideRuleOrigin `json:"origin,omitempty"`
}

// PlaintextOverrider is one operation, similar to JSON patch.
type PlaintextOverrider struct {
	// Path is a JSON pointer, such as /metadata/labels/team. Within a key, ~1 represents a slash
	// and ~0 a tilde. The parent of the field must exist.
	Path string `json:"path"`
	// Operator is add, replace or remove. In a map, add and replace set the key, whether or not it
	// exists. In a list, add inserts before the index, and - appends. The target of remove must
	// exist.
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"op"`
	// Value is the JSON value to set or insert. The default is null.
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

// OverrideRuleTemplate is a change, defined by fields.
type OverrideRuleTemplate struct {
	// Type is what to change. It determines which of the other fields apply: labels, annotations,
	// resources, resourcesOversell, tolerations or affinity.
	// +optional
	Type OverrideTemplateType `json:"type,omitempty"`
	// Operation is what to do. For labels, annotations and resources, add and replace both
	// overwrite. For tolerations and affinity, add inserts before existing items. The target of
	// remove may be missing.
	// +optional
	Operation OverriderOperator `json:"operation,omitempty"`
	// Path is the key of the label or annotation, such as example.com/team.
	// +optional
	Path string `json:"path,omitempty"`
	// Value is the value of the label or annotation, as a constant. It takes precedence over
	// valueRef.
	// +optional
	Value *ConstantValue `json:"value,omitempty"`
	// ValueRef is a reference to the value of the label or annotation. If the value does not exist,
	// nothing is set.
	// +optional
	ValueRef *ResourceRefer `json:"valueRef,omitempty"`
	// Resources are the requests and limits to set in the first container, or to remove from it.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// ResourcesOversell sets requests of the first container to a share of its limits.
	// +optional
	ResourcesOversell *ResourcesOversellRule `json:"resourcesOversell,omitempty"`
	// Tolerations are the tolerations to add, replace or remove. Replace and remove affect existing
	// tolerations with the same key and, unless the operator is Exists, the same value.
	// +optional
	Tolerations []*corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity has the terms to add, the terms that replace existing ones, or the lists to remove.
	// Lists without terms here are not changed.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
}

// ResourcesOversellRule computes requests from limits. A factor is a decimal number
// between 0 and 1 in a string.
type ResourcesOversellRule struct {
	// CpuFactor is the share of the CPU limit to request, such as "0.5".
	// +optional
	CpuFactor Float64 `json:"cpuFactor,omitempty"`
	// MemoryFactor is the share of the memory limit to request.
	// +optional
	MemoryFactor Float64 `json:"memoryFactor,omitempty"`
	// DiskFactor is the share of the limit of ephemeral-storage to request.
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

// OverrideRuleOrigin is a change, defined by the Kubernetes type that it changes.
type OverrideRuleOrigin struct {
	// Type is what to change. It determines which of the other fields applies. labels and
	// annotations work for any object, all others for the pod of a Pod or a Deployment.
	// +optional
	Type OverrideOriginType `json:"type,omitempty"`
	// Operation is add, replace or remove for labels, annotations, nodeSelector and
	// tolerations, where add and replace both merge, and replace for everything else.
	// +optional
	Operation OverriderOperator `json:"operation,omitempty"`
	// Replace replaces the whole field instead of merging into it.
	// +optional
	Replace bool `json:"replace,omitempty"`
	// ContainerCount is the index of the container, from 0, for resourceRequirements and
	// resourceOversell.
	// +optional
	ContainerCount int `json:"containerCount,omitempty"`

	// Annotations are the annotations to set. To remove annotations, only the keys are used.
	// +optional
	// +mapType=atomic
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are the labels to set. To remove labels, only the keys are used.
	// +optional
	// +mapType=atomic
	Labels map[string]string `json:"labels,omitempty"`
	// NodeSelector has the node labels to set. To remove node labels, only the keys are used.
	// +optional
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// HostNetwork says whether the pod uses the network of its node.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// SchedulerName is the name of the pod's scheduler.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
	// ResourceRequirements replaces all resources of the container.
	// +optional
	ResourceRequirements *corev1.ResourceRequirements `json:"resourceRequirements,omitempty"`
	// ResourcesOversell has factors by requests or limits, then by resource name. The values of the
	// container are multiplied by them.
	// +optional
	ResourcesOversell map[ResourceType]map[corev1.ResourceName]Float64 `json:"resourcesOversell,omitempty"`
	// Affinity is the affinity of the pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Tolerations are inserted before the existing ones, or removed.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints are all topology spread constraints of the pod.
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
