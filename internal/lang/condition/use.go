package condition

import (
	"slices"

	"github.com/cockroachdb/apd/v3"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// Uses implements [rule.Traced].
func (c *comparison) Uses() []rule.Use {
	const field = "template.condition"
	left := c.data.Uses(field + ".dataRef")
	left[0].Compared, left[0].Only = c.compared(), c.value == nil && c.process == nil
	if c.value != nil {
		left = append(left, c.value.Uses(field+".valueRef")...)
	}
	return append(left, told(c.message.Uses(field+".message"))...)
}

// told returns uses of values that are in a message.
func told(uses []rule.Use) []rule.Use {
	for i := range uses {
		uses[i].Told = true
	}
	return uses
}

// compared returns the constants on the right-hand side.
func (c *comparison) compared() []rule.Comparison {
	constants := c.members
	if c.constant != nil && c.process == nil {
		constants = append(slices.Clip(constants), *c.constant)
	}
	var all []rule.Comparison
	for i := range constants {
		if with, ok := constants[i].scalar(); ok {
			all = append(all, rule.Comparison{Op: c.operator.sign(), With: with})
		}
	}
	return all
}

// scalar returns a constant as JSON has it.
func (o *operand) scalar() (any, bool) {
	switch v := o.value.(type) {
	case nil:
		return o.text.Literal()
	case *apd.Decimal:
		f, err := v.Float64()
		return f, err == nil
	case int64, bool:
		return v, true
	}
	return nil, false
}

// sign returns the operator as [rule.Comparison] has it.
func (o *operator) sign() string {
	switch o.cond {
	case v1alpha1.CondNotEqual, v1alpha1.CondNotIn:
		return "!="
	case v1alpha1.CondGreater:
		return ">"
	case v1alpha1.CondGreaterOrEqual:
		return ">="
	case v1alpha1.CondLess:
		return "<"
	case v1alpha1.CondLessOrEqual:
		return "<="
	case v1alpha1.CondEqual, v1alpha1.CondIn, v1alpha1.CondExist, v1alpha1.CondNotExist:
	}
	return "=="
}

// Uses implements [rule.Traced].
func (b *badge) Uses() []rule.Use {
	const field = "template.podAvailableBadge.replicaReference"
	running := rule.Use{
		Field: "template.podAvailableBadge", Paths: [][]string{{"status", "phase"}},
		Compared: []rule.Comparison{{Op: "==", With: "Running"}}, Only: true,
	}
	return append(append(b.target.Uses(field), b.current.Uses(field)...), running)
}
