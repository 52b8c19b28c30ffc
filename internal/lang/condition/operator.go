package condition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/printable"
)

// An operator is one way to compare, in both of its forms: the CUE that a template renders to and
// the Go that decides.
type operator struct {
	cond  v1alpha1.Cond
	takes operands
	// cue is the format of the expression that holds where the condition hits, of the data and
	// the right-hand side.
	cue string
	// holds reports whether data has this relation to the right-hand side, which is nil, a value or
	// a []any, depending on the operator. Data may be absent if the right-hand side is nil.
	holds func(data, right any) (bool, error)
}

// Operands are what an operator has on its right-hand side.
type operands int

const (
	nothing operands = iota
	oneValue
	severalValues
)

// absent is data that is missing.
type absent struct{}

// operators returns all operators, one for each value of [v1alpha1.Cond].
func operators() []operator {
	return []operator{
		{v1alpha1.CondEqual, oneValue, "%s == %s", equal},
		{v1alpha1.CondNotEqual, oneValue, "%s != %s", func(data, right any) (bool, error) {
			equal, err := equal(data, right)
			return !equal && err == nil, err
		}},
		{v1alpha1.CondExist, nothing, "%s != _|_", func(data, _ any) (bool, error) { return data != any(absent{}), nil }},
		{v1alpha1.CondNotExist, nothing, "%s == _|_", func(data, _ any) (bool, error) { return data == any(absent{}), nil }},
		{v1alpha1.CondIn, severalValues, "list.Contains(%[2]s, %[1]s)", func(data, right any) (bool, error) {
			return among(data, right), nil
		}},
		{v1alpha1.CondNotIn, severalValues, "!list.Contains(%[2]s, %[1]s)", func(data, right any) (bool, error) {
			return !among(data, right), nil
		}},
		{v1alpha1.CondGreater, oneValue, "%s > %s", ordered(func(order int) bool { return order > 0 })},
		{v1alpha1.CondGreaterOrEqual, oneValue, "%s >= %s", ordered(func(order int) bool { return order >= 0 })},
		{v1alpha1.CondLess, oneValue, "%s < %s", ordered(func(order int) bool { return order < 0 })},
		{v1alpha1.CondLessOrEqual, oneValue, "%s <= %s", ordered(func(order int) bool { return order <= 0 })},
	}
}

// operatorOf returns the operator of a cond; the error lists the valid ones.
func operatorOf(cond v1alpha1.Cond) (operator, error) {
	all := operators()
	names := make([]string, len(all))
	for i, op := range all {
		if op.cond == cond {
			return op, nil
		}
		names[i] = string(op.cond)
	}
	return operator{}, errors.New("use " + printable.List(names, "or"))
}

// packages returns the packages of CUE that the comparison uses.
func (o *operator) packages() []string {
	name, _, called := strings.Cut(strings.TrimPrefix(o.cue, "!"), ".")
	if !called {
		return nil
	}
	return []string{name}
}

// expr returns the comparison in CUE.
func (o *operator) expr(data, right string) string {
	if o.takes == nothing {
		return fmt.Sprintf(o.cue, data)
	}
	return fmt.Sprintf(o.cue, data, right)
}

func ordered(holds func(order int) bool) func(data, right any) (bool, error) {
	return func(data, right any) (bool, error) {
		order, err := compareOrdered(data, right)
		return err == nil && holds(order), err
	}
}

// among reports whether a value is one of a list.
func among(value, list any) bool {
	members, _ := list.([]any)
	for _, member := range members {
		if same(value, member) {
			return true
		}
	}
	return false
}
