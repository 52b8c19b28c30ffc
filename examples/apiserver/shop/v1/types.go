// Package v1 has the orders of a shop as clients see them. An order is of one item: what
// clients write is not what the server works with.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

// An Order is what somebody orders.
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OrderSpec `json:"spec"`
}

// An OrderSpec is an item, and how many of it.
type OrderSpec struct {
	Item string `json:"item,omitempty"`
	// Count is 1 unless it is set.
	Count int32 `json:"count,omitempty"`
	Gift  bool  `json:"gift,omitempty"`
}

// An OrderList is a list of orders.
type OrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Order `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (o *Order) DeepCopyObject() runtime.Object {
	out := &Order{TypeMeta: o.TypeMeta, Spec: o.Spec}
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject implements [runtime.Object].
func (l *OrderList) DeepCopyObject() runtime.Object {
	out := &OrderList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		if item, ok := l.Items[i].DeepCopyObject().(*Order); ok {
			out.Items = append(out.Items, *item)
		}
	}
	return out
}

// OpenAPIModelName is the name of the schema.
func (Order) OpenAPIModelName() string { return "com.example.shop.v1.Order" }

// OpenAPIModelName is the name of the schema.
func (OrderSpec) OpenAPIModelName() string { return "com.example.shop.v1.OrderSpec" }

// OpenAPIModelName is the name of the schema.
func (OrderList) OpenAPIModelName() string { return "com.example.shop.v1.OrderList" }
