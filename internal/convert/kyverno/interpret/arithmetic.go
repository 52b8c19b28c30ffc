package interpret

import (
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

var errOperands = errors.New("the operands of arithmetic do not fit")

// operand reads a number, the text of a quantity, or that of a duration.
func operand(value any) (any, error) {
	switch v := value.(type) {
	case float64:
		return v, nil
	case string:
		if q, _, ok := quantities(v, "0"); ok {
			return q, nil
		}
		if d, err := time.ParseDuration(v); err == nil {
			return d, nil
		}
	}
	return nil, errOperands
}

// arithmetic calculates with numbers, quantities and durations. The last two are texts again.
func arithmetic(operator string, left, right any) (any, error) {
	a, err := operand(left)
	if err != nil {
		return nil, err
	}
	b, err := operand(right)
	if err != nil {
		return nil, err
	}
	switch x := a.(type) {
	case float64:
		if y, ok := b.(float64); ok {
			return numbers(operator, x, y)
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return lengths(operator, x, y)
		}
	case resource.Quantity:
		if y, ok := b.(resource.Quantity); ok {
			return amounts(operator, x, y)
		}
	}
	if operator == "*" || operator == "/" || operator == "%" {
		return nil, &Unread{fmt.Sprintf("the product or quotient of %v and %v", left, right)}
	}
	return nil, errOperands
}

func numbers(operator string, x, y float64) (any, error) {
	switch operator {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	}
	if y == 0 {
		return nil, errors.New("division by zero")
	}
	if operator == "/" {
		return x / y, nil
	}
	if x != math.Trunc(x) || y != math.Trunc(y) {
		return nil, errOperands
	}
	return math.Mod(x, y), nil
}

func lengths(operator string, x, y time.Duration) (any, error) {
	switch operator {
	case "+":
		return (x + y).String(), nil
	case "-":
		return (x - y).String(), nil
	case "*":
		return nil, errOperands
	}
	if y == 0 {
		return nil, errors.New("division by zero")
	}
	if operator == "/" {
		return x.Seconds() / y.Seconds(), nil
	}
	return (x % y).String(), nil
}

func amounts(operator string, x, y resource.Quantity) (any, error) {
	switch operator {
	case "+":
		x.Add(y)
		return x.String(), nil
	case "-":
		x.Sub(y)
		return x.String(), nil
	case "/":
		if y.IsZero() {
			return nil, errors.New("division by zero")
		}
		return x.AsApproximateFloat64() / y.AsApproximateFloat64(), nil
	case "%":
		return nil, &Unread{"the remainder of quantities"}
	}
	return nil, errOperands
}

func sum(v any) (any, error) {
	items, _ := v.([]any)
	if len(items) == 0 {
		return nil, errors.New("the sum of no elements")
	}
	total := items[0]
	for _, item := range items[1:] {
		var err error
		if total, err = arithmetic("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func average(v any) (any, error) {
	items, _ := v.([]any)
	total := 0.0
	for _, item := range items {
		n, ok := item.(float64)
		if !ok {
			return nil, errOperands
		}
		total += n
	}
	return total / float64(len(items)), nil
}
