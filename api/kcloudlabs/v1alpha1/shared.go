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
	// Namespace is the namespace of the objects. Without it, they can be in any or in none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the object. With it, labelSelector and fieldSelector do not count.
	// +optional
	Name string `json:"name,omitempty"`
	// LabelSelector selects by labels. An empty one matches every object; one that is not
	// understood matches none.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// FieldSelector selects by fields. An empty one matches every object; one that is not
	// understood matches none.
	// +optional
	FieldSelector *FieldSelector `json:"fieldSelector,omitempty"`
}

// FieldSelector selects by fields of the object. All its requirements have to hold.
type FieldSelector struct {
	// MatchFields are dotted paths, such as spec.schedulerName, and the value that each must
	// have, as text: numbers and booleans in quotes. Paths do not lead into lists.
	// +optional
	MatchFields map[string]string `json:"matchFields,omitempty"`
	// MatchExpressions are requirements beyond equality.
	// +optional
	MatchExpressions []FieldSelectorRequirement `json:"matchExpressions,omitempty"`
}

// FieldSelectorRequirement is one requirement of a FieldSelector.
type FieldSelectorRequirement struct {
	// Field is a dotted path. What follows metadata.annotations is one key, dots included.
	Field string `json:"field"`
	// Operator is In, NotIn, Exists or DoesNotExist. A missing field is not In anything, and
	// NotIn everything.
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Value are the values of In and NotIn, as text. The field is called value, not values.
	// +optional
	Value []string `json:"value,omitempty"`
}

// ConstantValue is a constant; the first field that is set counts.
type ConstantValue struct {
	// String is a text. \(object.metadata.name) in it is replaced by that field.
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
	// StringMap are several labels or annotations at once.
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
	// From is where the value comes from: current, the object of the request, which on DELETE is
	// the object that goes; old, the object before an UPDATE; owner, the first of its owners;
	// k8s, another object; http, a service.
	// +optional
	From ValueRefFrom `json:"from,omitempty"`
	// Path leads to the value. It is required. Either it has segments after slashes, such as
	// /spec/containers/0/image, in which ~1 represents a slash in a key, or, if it has no slash
	// at all, it is a CUE reference, such as metadata.labels.team. The path into the answer of a
	// service begins with body or header.
	// +optional
	Path string `json:"path,omitempty"`
	// K8s is which object, if from is k8s. Name, namespace and label values may hold
	// placeholders such as {{metadata.name}}: dotted paths to texts in the object of the request.
	// An object that is named and does not exist fails the request.
	// +optional
	K8s *ResourceSelector `json:"k8s,omitempty"`
	// Http is which request to make, if from is http. An answer that does not come within a
	// second, or is no JSON object, fails the request.
	// +optional
	Http *HttpDataRef `json:"http,omitempty"`
}

// HttpDataRef is an HTTP request whose JSON answer holds a value.
type HttpDataRef struct {
	// URL is the address. It may hold placeholders such as {{metadata.name}}.
	// +optional
	URL string `json:"url,omitempty"`
	// Method is GET, which is the default, or POST.
	// +kubebuilder:validation:Enum=GET;POST
	// +optional
	Method string `json:"method,omitempty"`
	// Header are header fields of the request.
	// +optional
	Header map[string]string `json:"header,omitempty"`
	// Params are query parameters. Their values may hold placeholders.
	// +optional
	Params map[string]string `json:"params,omitempty"`
	// Body is the body of the request, as JSON. Set Content-Type in header.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Body *apiextensionsv1.JSON `json:"body,omitempty"`
	// Auth is where a bearer token comes from. Everyone who can read the policy can read it.
	// +optional
	Auth *HttpRequestAuth `json:"auth,omitempty"`
}

// HttpRequestAuth is where the bearer token of a request comes from: StaticToken, or
// what AuthURL answers to Username and Password.
type HttpRequestAuth struct {
	// StaticToken is the token.
	// +optional
	StaticToken string `json:"staticToken,omitempty"`
	// Username is who asks authUrl, with HTTP basic authentication.
	// +optional
	Username string `json:"username,omitempty"`
	// Password belongs to username.
	// +optional
	Password string `json:"password,omitempty"`
	// AuthURL answers a POST with {"token": …, "expireAt": milliseconds}.
	// +optional
	AuthURL string `json:"authUrl,omitempty"`
	// ExpireDuration is how long a token lives if authUrl does not say, such as 10m.
	// +optional
	ExpireDuration metav1.Duration `json:"expireDuration,omitempty"`
	// Token is a token that was fetched before. It is used until ExpireAt.
	// +optional
	Token string `json:"token,omitempty"`
	// ExpireAt is when token expires.
	// +optional
	ExpireAt metav1.Time `json:"expireAt,omitempty"`
}
