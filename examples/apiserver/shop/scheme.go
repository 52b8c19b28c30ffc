package shop

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	v1 "github.com/usher-dev/usher/examples/apiserver/shop/v1"
)

// Scheme knows both versions of orders, Codecs and ParameterCodec read and write them.
var (
	Scheme         = newScheme()
	Codecs         = serializer.NewCodecFactory(Scheme)
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(SchemeGroupVersion, &Order{}, &OrderList{})
	s.AddKnownTypes(v1.SchemeGroupVersion, &v1.Order{}, &v1.OrderList{})
	metav1.AddToGroupVersion(s, v1.SchemeGroupVersion)
	// What every API server needs.
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, core)
	s.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	s.AddTypeDefaultingFunc(&v1.Order{}, func(object any) {
		if order, ok := object.(*v1.Order); ok && order.Spec.Count == 0 {
			order.Spec.Count = 1
		}
	})
	for _, err := range []error{
		s.AddConversionFunc((*v1.Order)(nil), (*Order)(nil), func(a, b any, _ conversion.Scope) error {
			fromV1(a.(*v1.Order), b.(*Order))
			return nil
		}),
		s.AddConversionFunc((*Order)(nil), (*v1.Order)(nil), func(a, b any, _ conversion.Scope) error {
			toV1(a.(*Order), b.(*v1.Order))
			return nil
		}),
		s.AddConversionFunc((*v1.OrderList)(nil), (*OrderList)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*v1.OrderList), b.(*OrderList)
			out.ListMeta, out.Items = in.ListMeta, make([]Order, len(in.Items))
			for i := range in.Items {
				fromV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}),
		s.AddConversionFunc((*OrderList)(nil), (*v1.OrderList)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*OrderList), b.(*v1.OrderList)
			out.ListMeta, out.Items = in.ListMeta, make([]v1.Order, len(in.Items))
			for i := range in.Items {
				toV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}),
		s.SetVersionPriority(v1.SchemeGroupVersion),
	} {
		utilruntime.Must(err)
	}
	return s
}

func fromV1(in *v1.Order, out *Order) {
	out.ObjectMeta, out.Spec = in.ObjectMeta, OrderSpec{Gift: in.Spec.Gift}
	if in.Spec.Item != "" || in.Spec.Count != 0 {
		out.Spec.Lines = []Line{{Item: in.Spec.Item, Count: in.Spec.Count}}
	}
}

func toV1(in *Order, out *v1.Order) {
	out.ObjectMeta, out.Spec = in.ObjectMeta, v1.OrderSpec{Gift: in.Spec.Gift}
	if len(in.Spec.Lines) > 0 {
		out.Spec.Item, out.Spec.Count = in.Spec.Lines[0].Item, in.Spec.Lines[0].Count
	}
}
