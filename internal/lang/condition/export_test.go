package condition

import "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"

// Conds returns the conds that there are operators for.
func Conds() []v1alpha1.Cond {
	var conds []v1alpha1.Cond
	for _, op := range operators() {
		conds = append(conds, op.cond)
	}
	return conds
}

// Takes says what the operator of a cond has on its right-hand side.
func Takes(cond v1alpha1.Cond) string {
	op, err := operatorOf(cond)
	if err != nil {
		panic(err)
	}
	return map[operands]string{nothing: "nothing", oneValue: "one value", severalValues: "several values"}[op.takes]
}
