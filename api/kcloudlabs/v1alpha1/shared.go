package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSelector selects objects of one kind.
type ResourceSelector struct {
	// APIVersion is group/version, such as apps/v1, or the version alone for the core group.
	// There are no wildcards.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind, such as Deployment. There are no wildcards.
	Kind string `json:"kind"`
	// Namespace is the namespace of the objects. The default is all namespaces and cluster-scoped
	// objects.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the object. If it is set, labelSelector and fieldSelector are ignored.
	// +optional
	Name string `json:"name,omitempty"`
	// LabelSelector selects by labels. An empty selector matches all objects, an invalid one
	// matches none.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// FieldSelector selects by fields. An empty selector matches all objects, an invalid one
	// matches none.
	// +optional
	FieldSelector *FieldSelector `json:"fieldSelector,omitempty"`
}

// FieldSelector selects by fields of the object. All its requirements must be met.
type FieldSelector struct {
	// MatchFields are dotted paths, such as spec.schedulerName, and the value that the field must
	// have, as text: numbers and booleans in quotes. Paths cannot refer to items of lists.
	// +optional
	MatchFields map[string]string `json:"matchFields,omitempty"`
	// MatchExpressions are requirements beyond equality.
	// +optional
	MatchExpressions []FieldSelectorRequirement `json:"matchExpressions,omitempty"`
}

// FieldSelectorRequirement is one requirement of a FieldSelector.
type FieldSelectorRequirement struct {
	// Field is a dotted path. The part after metadata.annotations is one key, which may contain
	// dots.
	Field string `json:"field"`
	// Operator is In, NotIn, Exists or DoesNotExist. For a missing field, In is false and NotIn is
	// true.
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Value are the values of In and NotIn, as text. The field is called value, not values.
	// +optional
	Value []string `json:"value,omitempty"`
}

// ConstantValue is a constant. The first field that is set is used.
type ConstantValue struct {
	// String is a text. \(object.metadata.name) is replaced by the value of that field.
	// +optional
	String *string `json:"string,omitempty"`
	// Integer is a whole number.
	// +optional
	Integer *int64 `json:"integer,omitempty"`
	// Float is a decimal number in quotes, such as "1.5".
	// +optional
	Float *Float64 `json:"float,omitempty"`
	// Boolean is true or false.
	// +optional
	Boolean *bool `json:"boolean,omitempty"`
	// StringSlice is a list of texts, for In and NotIn.
	// +optional
	StringSlice []string `json:"stringSlice,omitempty"`
	// IntegerSlice is a list of whole numbers, for In and NotIn.
	// +optional
	IntegerSlice []int64 `json:"integerSlice,omitempty"`
	// FloatSlice is a list of decimal numbers in quotes, which are compared as texts.
	// +optional
	FloatSlice []Float64 `json:"floatSlice,omitempty"`
	// StringMap holds several labels or annotations.
	// +optional
	StringMap map[string]string `json:"stringMap,omitempty"`
}

// ValueRefFrom is the source of a referenced value.
//
// +kubebuilder:validation:Enum=current;old;k8s;owner;http
type ValueRefFrom string

// The sources of values.
const (
	// FromCurrentObject is the object of the request.
	FromCurrentObject ValueRefFrom = "current"
	// FromOldObject is the object before an update.
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
	// From is the source of the value: current is the object of the request, on DELETE the deleted
	// object; old is the object before an UPDATE; owner is the first owner of the object; k8s is
	// another object; http is an HTTP service.
	// +optional
	From ValueRefFrom `json:"from,omitempty"`
	// Path is the path of the value. It is required. It is either a path with slashes, such as
	// /spec/containers/0/image, where ~1 represents a slash in a key, or without any slash a CUE
	// reference, such as metadata.labels.team. A path in an HTTP response begins with body or
	// header.
	// +optional
	Path string `json:"path,omitempty"`
	// K8s selects the object if from is k8s. Name, namespace and label values may contain
	// placeholders such as {{metadata.name}}: dotted paths of texts in the object of the request.
	// If a named object does not exist, the rule fails.
	// +optional
	K8s *ResourceSelector `json:"k8s,omitempty"`
	// Http is the HTTP request if from is http. If there is no response within a second, or it is
	// not a JSON object, the rule fails.
	// +optional
	Http *HttpDataRef `json:"http,omitempty"`
}

// HttpDataRef is an HTTP request whose JSON response contains a value.
type HttpDataRef struct {
	// URL is the address. It may contain placeholders such as {{metadata.name}}.
	// +optional
	URL string `json:"url,omitempty"`
	// Method is GET or POST. The default is GET.
	// +kubebuilder:validation:Enum=GET;POST
	// +optional
	Method string `json:"method,omitempty"`
	// Header are header fields of the request.
	// +optional
	Header map[string]string `json:"header,omitempty"`
	// Params are query parameters. Their values may contain placeholders.
	// +optional
	Params map[string]string `json:"params,omitempty"`
	// Body is the body of the request, as JSON. Set Content-Type in header.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Body *apiextensionsv1.JSON `json:"body,omitempty"`
	// Auth is the source of a bearer token. Anyone who can read the policy can read these
	// credentials.
	// +optional
	Auth *HttpRequestAuth `json:"auth,omitempty"`
}

// HttpRequestAuth is the source of the bearer token of a request: StaticToken, or a token that
// AuthURL returns for Username and Password.
type HttpRequestAuth struct {
	// StaticToken is the token.
	// +optional
	StaticToken string `json:"staticToken,omitempty"`
	// Username is sent to authUrl with HTTP basic authentication.
	// +optional
	Username string `json:"username,omitempty"`
	// Password is sent with username.
	// +optional
	Password string `json:"password,omitempty"`
	// AuthURL is the URL that issues tokens: it must respond to POST with {"token": …, "expireAt":
	// milliseconds}.
	// +optional
	AuthURL string `json:"authUrl,omitempty"`
	// ExpireDuration is the lifetime of a token, such as 10m, if authUrl returns none.
	// +optional
	ExpireDuration metav1.Duration `json:"expireDuration,omitempty"`
	// Token is a token that was fetched earlier. It is used until expireAt.
	// +optional
	Token string `json:"token,omitempty"`
	// ExpireAt is the time at which token expires.
	// +optional
	ExpireAt metav1.Time `json:"expireAt,omitempty"`
}
