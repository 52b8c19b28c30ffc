package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// ClusterAuthorizationPolicy allows or denies requests in the whole cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cazp,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Tier",type=string,JSONPath=`.spec.tier`
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.effect`
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Proven",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Proven")].status`
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
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

// AuthorizationPolicy allows requests in its own namespace. It cannot deny any.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=azp,categories=usher
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.effect`
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Proven",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Proven")].status`
// +kubebuilder:printcolumn:name="Working",type=string,JSONPath=`.status.conditions[?(@.type=="Working")].status`
// +kubebuilder:printcolumn:name="Problem",type=string,priority=1,JSONPath=`.status.lastError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AuthorizationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self.effect != 'Deny'",message="an AuthorizationPolicy refuses nothing: write an ObjectPolicy, which can deny writes such as DELETE, with excludeSubjects for those who may; to deny reads, ask who administers the cluster for a ClusterAuthorizationPolicy"
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

// ClusterAuthorizationPolicySpec is the spec of a ClusterAuthorizationPolicy.
//
// +kubebuilder:validation:XValidation:rule="!has(self.confirmWithin) || self.effect == 'Deny'",message="confirmWithin is for effect Deny"
type ClusterAuthorizationPolicySpec struct {
	// Tier is the tier of the policy. The default is cluster. Tiers are evaluated in order: the
	// first tier with a policy that matches decides.
	// +optional
	// +kubebuilder:default=cluster
	Tier Tier `json:"tier,omitempty"`
	// ConfirmWithin puts a Deny into Audit mode if it is not confirmed within this time. To
	// confirm it, set the annotation usher.dev/confirmed to the value of metadata.generation.
	// +optional
	ConfirmWithin *metav1.Duration `json:"confirmWithin,omitempty"`

	AuthorizationPolicySpec `json:",inline"`
}

// AuthorizationPolicySpec is the part of the spec that both kinds of authorization policies have.
//
// +kubebuilder:validation:XValidation:rule="!has(self.onError) || self.onError != 'Match' || self.effect != 'Allow'",message="nothing is allowed because a condition fails: onError Match is not for effect Allow"
type AuthorizationPolicySpec struct {
	// Effect is the decision about requests that match. An Allow matches if it covers the whole
	// request, a Deny or NoOpinion if it overlaps the request. NoOpinion overrides policies of
	// the same and later tiers that allow the request; other authorizers such as RBAC decide.
	//
	// An AuthorizationPolicy is Allow or NoOpinion; Deny is refused. Its NoOpinion is for requests in its
	// own namespace, and overrides what other policies of the tier namespace allow there.
	Effect Effect `json:"effect"`
	// Enforcement is Enforce or Audit. The default is Enforce. In Audit mode, decisions of the
	// policy are reported in logs and metrics, but have no effect.
	// +optional
	// +kubebuilder:default=Enforce
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// Suspend is true to put the policy out of force: it decides nothing until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Validity limits the time during which the policy is in effect.
	// +optional
	Validity *Validity `json:"validity,omitempty"`

	// Subjects are the users to which the policy applies. A user must match one of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Subjects []Subject `json:"subjects"`
	// ExcludeSubjects are users to which the policy does not apply, even if they match Subjects.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	ExcludeSubjects []Subject `json:"excludeSubjects,omitempty"`
	// Rules are the requests to which the policy applies. A request must match one of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Rules []Rule `json:"rules"`
	// Selectors are requirements for the label and field selectors of list, watch and
	// deletecollection requests. An Allow matches only if the request meets them, a Deny or
	// NoOpinion only if it does not.
	// +optional
	Selectors *Selectors `json:"selectors,omitempty"`

	// When is a list of conditions. The policy matches only if all of them are true.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	When []Condition `json:"when,omitempty"`
	// Unless is a list of conditions. The policy does not match if one of them is true.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Unless []Condition `json:"unless,omitempty"`
	// OnError says whether a Deny or NoOpinion matches when a condition cannot be evaluated. The
	// default is Match. An Allow does not match then.
	// +optional
	OnError OnError `json:"onError,omitempty"`

	// Message is returned to the user whose request is denied.
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

// Effect is the decision of a policy about requests that match.
//
// +kubebuilder:validation:Enum=Allow;Deny;NoOpinion
type Effect string

// The effects.
const (
	EffectAllow     Effect = "Allow"
	EffectDeny      Effect = "Deny"
	EffectNoOpinion Effect = "NoOpinion"
)

// Enforcement defines whether the decisions of a policy take effect.
//
// +kubebuilder:validation:Enum=Audit;Enforce
type Enforcement string

// The values of Enforcement.
const (
	EnforcementAudit   Enforcement = "Audit"
	EnforcementEnforce Enforcement = "Enforce"
)

// OnError says how to handle a condition that cannot be evaluated.
//
// +kubebuilder:validation:Enum=Match;Skip
type OnError string

// The values of OnError.
const (
	OnErrorMatch OnError = "Match"
	OnErrorSkip  OnError = "Skip"
)

// Validity limits the time during which a policy is in effect.
type Validity struct {
	// NotAfter is when the policy expires. API servers cache decisions for some time longer.
	NotAfter metav1.Time `json:"notAfter"`
}

// Subject selects users. A user must match one item of one of its lists.
//
// +kubebuilder:validation:XValidation:rule="has(self.users) || has(self.groups) || has(self.serviceAccounts)",message="name users, groups or serviceAccounts"
type Subject struct {
	// Users are user names. Each may contain one *, which matches any text.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Users []string `json:"users,omitempty"`
	// Groups are group names. Each may contain one *, which matches any text.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Groups []string `json:"groups,omitempty"`
	// ServiceAccounts have the form NAMESPACE/NAME. Both parts may contain one *.
	// +optional
	// +kubebuilder:validation:MinItems=1
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
}

// Rule selects requests for resources or for non-resource URLs. Every field must match.
//
// +kubebuilder:validation:XValidation:rule="has(self.resources) != has(self.nonResourceURLs)",message="a rule has either resources or nonResourceURLs"
// +kubebuilder:validation:XValidation:rule="has(self.resources) == has(self.apiGroups)",message="resources and apiGroups come together"
// +kubebuilder:validation:XValidation:rule="has(self.resources) || !(has(self.names) || has(self.namespaces) || has(self.apiVersions) || has(self.collectionOverlap))",message="names, namespaces, apiVersions and collectionOverlap belong to resources"
type Rule struct {
	// Verbs are the verbs of requests, such as get or impersonate. Each may contain one *.
	// +kubebuilder:validation:MinItems=1
	Verbs []string `json:"verbs"`
	// APIGroups are the API groups of the resources; "" is the core group. Each may contain one *.
	// +optional
	// +kubebuilder:validation:MinItems=1
	APIGroups []string `json:"apiGroups,omitempty"`
	// APIVersions are the API versions of the resources. The default is all versions.
	// +optional
	// +kubebuilder:validation:MinItems=1
	APIVersions []string `json:"apiVersions,omitempty"`
	// Resources are resources and subresources, such as pods, pods/log, pods/* (all subresources of
	// pods), */scale, or * for all.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Resources []string `json:"resources,omitempty"`
	// Names are the names of objects. Each may contain one *, or placeholders such as $(user). The
	// default is all objects.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Names []string `json:"names,omitempty"`
	// Namespaces are the namespaces of objects, in the form of Names. The default is all
	// namespaces and cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MinItems=1
	Namespaces []string `json:"namespaces,omitempty"`
	// CollectionOverlap says whether a Deny or NoOpinion matches a list, watch or
	// deletecollection that covers more than the objects of the rule. The default is true.
	// +optional
	CollectionOverlap *bool `json:"collectionOverlap,omitempty"`
	// NonResourceURLs are paths such as /metrics. Each may contain one *.
	// +optional
	// +kubebuilder:validation:MinItems=1
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// Selectors are requirements that the selectors of a request must imply.
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

// Condition is a CEL expression about a request.
type Condition struct {
	// Name identifies the condition in messages.
	// +optional
	Name string `json:"name,omitempty"`
	// Cel is a CEL expression of type bool. Its variable is request.
	Cel string `json:"cel"`
}

// Annotations of authorization policies.
const (
	// AnnotationConfirmed confirms a policy with confirmWithin; its value is the
	// confirmed metadata.generation.
	AnnotationConfirmed = "usher.dev/confirmed"
	// AnnotationSince is when the current spec was written, in RFC 3339. Usher sets it on writes;
	// confirmWithin starts then.
	AnnotationSince = "usher.dev/since"
)
