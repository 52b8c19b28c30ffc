package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSelector selects objects of one kind.
type ResourceSelector struct {
	// APIVersion is group/version, or the version alone for the core group.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name selects by name alone: LabelSelector and FieldSelector then do not count.
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// +optional
	FieldSelector *FieldSelector `json:"fieldSelector,omitempty"`
}

// FieldSelector selects by fields of the object. All its requirements have to hold.
type FieldSelector struct {
	// MatchFields maps dotted paths to the value they must have.
	// +optional
	MatchFields map[string]string `json:"matchFields,omitempty"`
	// +optional
	MatchExpressions []FieldSelectorRequirement `json:"matchExpressions,omitempty"`
}

// FieldSelectorRequirement is one requirement of a FieldSelector.
type FieldSelectorRequirement struct {
	// Field is a dotted path; what follows annotations is one key.
	Field string `json:"field"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Value are the values of In and NotIn.
	// +optional
	Value []string `json:"value,omitempty"`
}

// ConstantValue is a constant; the first field that is set counts.
type ConstantValue struct {
	// +optional
	String *string `json:"string,omitempty"`
	// +optional
	Integer *int64 `json:"integer,omitempty"`
	// +optional
	Float *Float64 `json:"float,omitempty"`
	// +optional
	Boolean *bool `json:"boolean,omitempty"`
	// +optional
	StringSlice []string `json:"stringSlice,omitempty"`
	// +optional
	IntegerSlice []int64 `json:"integerSlice,omitempty"`
	// +optional
	FloatSlice []Float64 `json:"floatSlice,omitempty"`
	// +optional
	StringMap map[string]string `json:"stringMap,omitempty"`
}

// ValueRefFrom is where a referenced value comes from.
//
// +kubebuilder:validation:Enum=current;old;k8s;owner;http
type ValueRefFrom string

// The sources of values.
const (
	// FromCurrentObject is the object of the request.
	FromCurrentObject ValueRefFrom = "current"
	// FromOldObject is the object as it is before an update.
	FromOldObject ValueRefFrom = "old"
	// FromK8s is another object of the cluster.
	FromK8s ValueRefFrom = "k8s"
	// FromOwner is the first owner of the object.
	FromOwner ValueRefFrom = "owner"
	// FromHTTP is the answer of an HTTP service.
	FromHTTP ValueRefFrom = "http"
)

// ResourceRefer refers to a value.
type ResourceRefer struct {
	// +optional
	From ValueRefFrom `json:"from,omitempty"`
	// Path leads to the value: segments after slashes, or a CUE reference.
	// +optional
	Path string `json:"path,omitempty"`
	// K8s says which object, if From is k8s. Name, namespace and label values may hold
	// {{placeholders}}: dotted paths into the object of the request.
	// +optional
	K8s *ResourceSelector `json:"k8s,omitempty"`
	// +optional
	Http *HttpDataRef `json:"http,omitempty"`
}

// HttpDataRef is an HTTP request whose JSON answer holds a value.
type HttpDataRef struct {
	// URL may hold {{placeholders}}, and so may the values of Params.
	// +optional
	URL string `json:"url,omitempty"`
	// +kubebuilder:validation:Enum=GET;POST
	// +optional
	Method string `json:"method,omitempty"`
	// +optional
	Header map[string]string `json:"header,omitempty"`
	// +optional
	Params map[string]string `json:"params,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Body *apiextensionsv1.JSON `json:"body,omitempty"`
	// +optional
	Auth *HttpRequestAuth `json:"auth,omitempty"`
}

// HttpRequestAuth is where the bearer token of a request comes from: StaticToken, or
// what AuthURL answers to Username and Password.
type HttpRequestAuth struct {
	// +optional
	StaticToken string `json:"staticToken,omitempty"`
	// +optional
	Username string `json:"username,omitempty"`
	// +optional
	Password string `json:"password,omitempty"`
	// +optional
	AuthURL string `json:"authUrl,omitempty"`
	// ExpireDuration is how long a token lives if AuthURL does not say.
	// +optional
	ExpireDuration metav1.Duration `json:"expireDuration,omitempty"`
	// Token is a token that was fetched before. It is used until ExpireAt.
	// +optional
	Token string `json:"token,omitempty"`
	// +optional
	ExpireAt metav1.Time `json:"expireAt,omitempty"`
}
