package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// DataSource is an object, a list of objects or an HTTP response that expressions read as
// data.NAME.
//
// +kubebuilder:validation:XValidation:rule="[has(self.object), has(self.list), has(self.http)].filter(x, x).size() == 1",message="a source of data has one of object, list and http"
type DataSource struct {
	// Name is the name in expressions.
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Object is one object of the cluster.
	// +optional
	Object *DataObject `json:"object,omitempty"`
	// List is all objects of a kind in a namespace, or those that a selector selects.
	// +optional
	List *DataList `json:"list,omitempty"`
	// HTTP is a request whose JSON response is the value.
	// +optional
	HTTP *kcloudlabs.HttpDataRef `json:"http,omitempty"`
	// OnMissing is Fail, so that the policy fails if there is no such object, or Null, so that the
	// value is null. The default is Fail.
	// +optional
	OnMissing OnMissing `json:"onMissing,omitempty"`
}

// OnMissing says what the value of data is that does not exist.
//
// +kubebuilder:validation:Enum=Fail;Null
type OnMissing string

// The values of OnMissing.
const (
	OnMissingFail OnMissing = "Fail"
	OnMissingNull OnMissing = "Null"
)

// onMissingNothing is what null becomes, which is Null in YAML that somebody wrote without quotes: no value that is
// valid, so that it is told and is not taken for Fail.
const onMissingNothing OnMissing = "null"

// UnmarshalJSON keeps apart what is null, and what is not there.
func (o *OnMissing) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*o = onMissingNothing
		return nil
	}
	return json.Unmarshal(text, (*string)(o)) //nolint:wrapcheck // The decoder names the field.
}

// DataObject names one object.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.nameExpression)",message="an object has either name or nameExpression"
// +kubebuilder:validation:XValidation:rule="!has(self.namespace) || !has(self.namespaceExpression)",message="namespace and namespaceExpression exclude each other"
type DataObject struct {
	// APIVersion is group/version, such as apps/v1, or the version alone for the core group.
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// Kind is the kind.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// Namespace is the namespace of the object. The default is that of the request; omit it for
	// kinds without namespaces.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// NamespaceExpression is a CEL expression of type string that makes the namespace. Policies of
	// a namespace have none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	NamespaceExpression string `json:"namespaceExpression,omitempty"`
	// Name is the name of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name,omitempty"`
	// NameExpression is a CEL expression of type string that makes the name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	NameExpression string `json:"nameExpression,omitempty"`
}

// DataList selects objects of a kind.
//
// +kubebuilder:validation:XValidation:rule="!has(self.namespace) || !has(self.namespaceExpression)",message="namespace and namespaceExpression exclude each other"
type DataList struct {
	// APIVersion is group/version, such as apps/v1, or the version alone for the core group.
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the objects.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// Namespace is the namespace of the objects. The default is that of the request; * is all
	// namespaces.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// NamespaceExpression is a CEL expression of type string that makes the namespace. Policies of
	// a namespace have none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	NamespaceExpression string `json:"namespaceExpression,omitempty"`
	// LabelSelector selects objects by labels. The default is all objects.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Live reads the list from the API server for each request that needs it. The default is
	// memory that a watch keeps current, which is a few milliseconds late.
	// +optional
	Live bool `json:"live,omitempty"`
}
