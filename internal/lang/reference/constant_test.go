package reference_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

func TestConstant(t *testing.T) {
	t.Parallel()
	all := v1alpha1.ConstantValue{
		String: new("a"), Integer: new(int64(42)), Float: new(v1alpha1.Float64("1.50")), Boolean: new(true),
		StringSlice: []string{"a", "b"}, IntegerSlice: []int64{1, 2}, FloatSlice: []v1alpha1.Float64{"1.0", "2"},
		StringMap: map[string]string{"k": "v"},
	}
	tests := []struct {
		drop   func(*v1alpha1.ConstantValue)
		want   any
		text   string
		reason string
	}{
		{func(*v1alpha1.ConstantValue) {}, "a", "a", "string comes first"},
		{func(v *v1alpha1.ConstantValue) { v.String = nil }, int64(42), "42", "then integer"},
		{func(v *v1alpha1.ConstantValue) { v.Integer = nil }, v1alpha1.Float64("1.50"), "1.50", "then float, as it was written"},
		{func(v *v1alpha1.ConstantValue) { v.Float = nil }, true, "true", "then boolean"},
		{func(v *v1alpha1.ConstantValue) { v.Boolean = nil }, []string{"a", "b"}, "[a b]", "then stringSlice"},
		{func(v *v1alpha1.ConstantValue) { v.StringSlice = []string{} }, []int64{1, 2}, "[1 2]", "then integerSlice: an empty slice is not set"},
		{func(v *v1alpha1.ConstantValue) { v.IntegerSlice = nil }, []v1alpha1.Float64{"1.0", "2"}, "[1.0 2]", "then floatSlice"},
		{func(v *v1alpha1.ConstantValue) { v.FloatSlice = nil }, map[string]string{"k": "v"}, "", "then stringMap, which has no text"},
		{func(v *v1alpha1.ConstantValue) { v.StringMap = map[string]string{} }, nil, "", "nothing is set"},
	}
	for _, test := range tests {
		test.drop(&all)
		got, ok := reference.Constant(&all)
		if ok != (test.want != nil) || !cmp.Equal(got, test.want) {
			t.Errorf("Constant = %v, %v, want %v: %s", got, ok, test.want, test.reason)
		}
		constant, ok := reference.ConstantText(&all)
		text, err := constant.Value(&rule.Input{})
		if ok != (test.text != "") || text != test.text || err != nil {
			t.Errorf("ConstantText = %q, %v, %v, want %q: %s", text, ok, err, test.text, test.reason)
		}
	}
	if _, ok := reference.Constant(nil); ok {
		t.Error("no value is a constant")
	}
}
