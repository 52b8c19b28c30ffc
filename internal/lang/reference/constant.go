package reference

import (
	"fmt"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// Constant returns the constant that v holds: a string, int64, v1alpha1.Float64, bool,
// []string, []int64, []v1alpha1.Float64 or map[string]string, the first in this order that
// is set. It is not ok if none is; empty slices and maps count as not set.
func Constant(v *v1alpha1.ConstantValue) (any, bool) {
	switch {
	case v == nil:
		return nil, false
	case v.String != nil:
		return *v.String, true
	case v.Integer != nil:
		return *v.Integer, true
	case v.Float != nil:
		return *v.Float, true
	case v.Boolean != nil:
		return *v.Boolean, true
	case len(v.StringSlice) > 0:
		return v.StringSlice, true
	case len(v.IntegerSlice) > 0:
		return v.IntegerSlice, true
	case len(v.FloatSlice) > 0:
		return v.FloatSlice, true
	case len(v.StringMap) > 0:
		return v.StringMap, true
	}
	return nil, false
}

// ConstantText returns the constant in v as text, as annotations and labels hold it: 42,
// 1.50 as it was written, true, [a b]. It is not ok if no constant is set, or a map.
func ConstantText(v *v1alpha1.ConstantValue) (Text, bool) {
	constant, ok := Constant(v)
	if !ok {
		return Text{}, false
	}
	if _, isMap := constant.(map[string]string); isMap {
		return Text{}, false
	}
	return ParseText(fmt.Sprint(constant)), true
}
