// Package shop has the orders of a shop, as its API server works with them. They are stored
// and served as package v1 says.
package shop

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group.
const Group = "shop.example.com"

// SchemeGroupVersion is that of the internal version.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: runtime.APIVersionInternal}

// An Order is what somebody orders.
type Order struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec OrderSpec
}

// An OrderSpec has a line for each item.
type OrderSpec struct {
	Lines []Line
	Gift  bool
}

// A Line is an item, and how many of it.
type Line struct {
	Item  string
	Count int32
}

// An OrderList is a list of orders.
type OrderList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []Order
}

// DeepCopyObject implements [runtime.Object].
func (o *Order) DeepCopyObject() runtime.Object {
	out := &Order{TypeMeta: o.TypeMeta, Spec: OrderSpec{Gift: o.Spec.Gift}}
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Lines = append([]Line(nil), o.Spec.Lines...)
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
