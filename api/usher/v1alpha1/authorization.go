package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// ClusterAuthorizationPolicy says who may do what, or may not, in the whole cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cazp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Tier",type=string,JSONPath=`.spec.tier`
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.effect`
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAuthorizationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterAuthorizationPolicySpec `json:"spec"`
	// +optional
	Status kcloudlabs.PolicyStatus `json:"status,omitempty"`
}

// ClusterAuthorizationPolicyList is a list of ClusterAuthorizationPolicy.
//
// +kubebuilder:object:root=true
type ClusterAuthorizationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAuthorizationPolicy `json:"items"`
}

// AuthorizationPolicy says who may do what in the policy's own namespace. It refuses
// nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=azp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.effect`
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AuthorizationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self.effect != 'Deny'",message="an AuthorizationPolicy refuses nothing: use a ClusterAuthorizationPolicy"
	Spec AuthorizationPolicySpec `json:"spec"`
	// +optional
	Status kcloudlabs.PolicyStatus `json:"status,omitempty"`
}

// AuthorizationPolicyList is a list of AuthorizationPolicy.
//
// +kubebuilder:object:root=true
type AuthorizationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AuthorizationPolicy `json:"items"`
}

// ClusterAuthorizationPolicySpec is what a ClusterAuthorizationPolicy says.
//
// +kubebuilder:validation:XValidation:rule="!has(self.confirmWithin) || self.effect == 'Deny'",message="confirmWithin is for effect Deny"
type ClusterAuthorizationPolicySpec struct {
	// Tier is cluster unless it is set. The first tier in which a policy matches decides.
	// +optional
	// +kubebuilder:default=cluster
	Tier Tier `json:"tier,omitempty"`
	// ConfirmWithin puts a Deny on trial, unless it is confirmed within this time by the
	// annotation usher.dev/confirmed, whose value is metadata.generation.
	// +optional
	ConfirmWithin *metav1.Duration `json:"confirmWithin,omitempty"`

	AuthorizationPolicySpec `json:",inline"`
}

// AuthorizationPolicySpec is what both kinds of authorization policies say.
//
// +kubebuilder:validation:XValidation:rule="!has(self.onError) || self.onError != 'Match' || self.effect != 'Allow'",message="nothing is allowed because a condition fails: onError Match is not for effect Allow"
type AuthorizationPolicySpec struct {
	// Effect is what becomes of the requests that match: Allow needs the policy to cover all
	// that is asked for, Deny and NoOpinion to overlap it. NoOpinion takes back what policies
	// of the same and later tiers allow, and leaves the answer to others such as RBAC.
	Effect Effect `json:"effect"`
	// Enforcement is Enforce unless it is Audit, in which the policy is only reported on.
	// +optional
	// +kubebuilder:default=Enforce
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// Validity bounds the time in which the policy is in force.
	// +optional
	Validity *Validity `json:"validity,omitempty"`

	// Subjects are alternatives: the policy is for users whom any of them names.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Subjects []Subject `json:"subjects"`
	// ExcludeSubjects are those whom the policy is not for all the same.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	ExcludeSubjects []Subject `json:"excludeSubjects,omitempty"`
	// Rules are alternatives: the policy is for requests that any of them matches.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Rules []Rule `json:"rules"`
	// Selectors is what the selectors of a list, watch or deletecollection have to demand for
	// an Allow to match. A Deny or NoOpinion does not match if they do.
	// +optional
	Selectors *Selectors `json:"selectors,omitempty"`

	// When has to hold, every condition of it.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	When []Condition `json:"when,omitempty"`
	// Unless must not hold, no condition of it.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Unless []Condition `json:"unless,omitempty"`
	// OnError tells whether a Deny or NoOpinion matches when a condition fails. It is Match
	// unless set. An Allow never matches then.
	// +optional
	OnError OnError `json:"onError,omitempty"`

	// Message is told to whoever is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Tier orders policies.
//
// +kubebuilder:validation:Enum=safeguard;platform;cluster;namespace
type Tier string

// The tiers, in order. Policies of a cluster cannot be in TierSafeguard, which is for files.
const (
	TierSafeguard Tier = "safeguard"
	TierPlatform  Tier = "platform"
	TierCluster   Tier = "cluster"
	TierNamespace Tier = "namespace"
)

// Effect is what a policy does about a request.
//
// +kubebuilder:validation:Enum=Allow;Deny;NoOpinion
type Effect string

// The effects.
const (
	EffectAllow     Effect = "Allow"
	EffectDeny      Effect = "Deny"
	EffectNoOpinion Effect = "NoOpinion"
)

// Enforcement tells whether a policy has its effect.
//
// +kubebuilder:validation:Enum=Audit;Enforce
type Enforcement string

// The enforcements.
const (
	EnforcementAudit   Enforcement = "Audit"
	EnforcementEnforce Enforcement = "Enforce"
)

// OnError tells what a condition that fails means.
//
// +kubebuilder:validation:Enum=Match;Skip
type OnError string

// What a condition that fails may mean.
const (
	OnErrorMatch OnError = "Match"
	OnErrorSkip  OnError = "Skip"
)

// Validity is a time.
type Validity struct {
	// NotAfter is when the policy ends. API servers remember answers for some time longer.
	NotAfter metav1.Time `json:"notAfter"`
}

// Subject names users; any item of it suffices.
//
// +kubebuilder:validation:XValidation:rule="has(self.users) || has(self.groups) || has(self.serviceAccounts)",message="name users, groups or serviceAccounts"
type Subject struct {
	// Users are names, with at most one * each for any text.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Users []string `json:"users,omitempty"`
	// Groups are names of groups, with at most one * each for any text.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Groups []string `json:"groups,omitempty"`
	// ServiceAccounts are NAMESPACE/NAME, with at most one * in each of the two.
	// +optional
	// +kubebuilder:validation:MinItems=1
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
}

// Rule is what may be asked for: resources, or URLs that are none. Every field has to match.
//
// +kubebuilder:validation:XValidation:rule="has(self.resources) != has(self.nonResourceURLs)",message="a rule has either resources or nonResourceURLs"
// +kubebuilder:validation:XValidation:rule="has(self.resources) == has(self.apiGroups)",message="resources and apiGroups come together"
// +kubebuilder:validation:XValidation:rule="has(self.resources) || !(has(self.names) || has(self.namespaces) || has(self.apiVersions) || has(self.collectionOverlap))",message="names, namespaces, apiVersions and collectionOverlap belong to resources"
type Rule struct {
	// Verbs are those of the request, such as get or impersonate, with at most one * each.
	// +kubebuilder:validation:MinItems=1
	Verbs []string `json:"verbs"`
	// APIGroups are those of the resources, "" for that of pods, with at most one * each.
	// +optional
	// +kubebuilder:validation:MinItems=1
	APIGroups []string `json:"apiGroups,omitempty"`
	// APIVersions are those of the resources; none means whatever version.
	// +optional
	// +kubebuilder:validation:MinItems=1
	APIVersions []string `json:"apiVersions,omitempty"`
	// Resources are such as pods, pods/log, pods/* (all subresources), */scale, or * for all.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Resources []string `json:"resources,omitempty"`
	// Names are those of the objects, with at most one * each, or with placeholders such as
	// $(user); none means every object.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Names []string `json:"names,omitempty"`
	// Namespaces are those of the objects, as Names; none means all, and objects in none.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Namespaces []string `json:"namespaces,omitempty"`
	// CollectionOverlap false lets lists, watches and deletecollections of more than what the
	// rule names pass a Deny or NoOpinion.
	// +optional
	CollectionOverlap *bool `json:"collectionOverlap,omitempty"`
	// NonResourceURLs are paths such as /metrics, with at most one * each.
	// +optional
	// +kubebuilder:validation:MinItems=1
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Selectors are requirements on the selectors of a request, all of which have to be implied.
type Selectors struct {
	// +optional
	Labels []Requirement `json:"labels,omitempty"`
	// +optional
	Fields []Requirement `json:"fields,omitempty"`
}

// Requirement is one clause of a selector.
type Requirement struct {
	Key string `json:"key"`
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`
	// Values may have the placeholders $(user), $(extra:KEY), $(serviceAccount.namespace),
	// $(serviceAccount.name) and $(node).
	// +optional
	Values []string `json:"values,omitempty"`
}

// Condition is a question about a request.
type Condition struct {
	// Name is for messages.
	// +optional
	Name string `json:"name,omitempty"`
	// Cel is an expression that yields true or false; its variable is request.
	Cel string `json:"cel"`
}

// Annotations of authorization policies.
const (
	// AnnotationConfirmed confirms a policy with confirmWithin; its value is the
	// metadata.generation that is confirmed.
	AnnotationConfirmed = "usher.dev/confirmed"
	// AnnotationSince is when the present spec came into being, in RFC 3339: Usher sets it
	// when it is written, so that confirmWithin begins there.
	AnnotationSince = "usher.dev/since"
)
