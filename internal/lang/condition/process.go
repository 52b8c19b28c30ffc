package condition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// precision is that of CUE: decimals have 34 digits, those of decimal128.
const precision = 34

// maxRepeat is how often CUE repeats a string at most, and how long the result may be.
const maxRepeat = 1_000_000

// A process is arithmetic on the right-hand side.
type process struct {
	op   string
	with *apd.Decimal
	// text is with as CUE.
	text string
}

// compileProcess returns nil after a problem that is an error.
func compileProcess(field string, p *v1alpha1.ValueProcess, found *collector) *process {
	op := string(p.Operation)
	switch op {
	case "+", "-", "*", "/":
	default:
		found.wrong(field+".operation", fmt.Sprintf("unknown operation %q", op), "use +, -, * or /")
		return nil
	}
	if p.OperationWith == nil {
		found.wrong(field+".operationWith", "the operand is missing", "set a number, a decimal in quotes or a percentage")
		return nil
	}
	with, err := parseAmount(p.OperationWith)
	if err != nil {
		found.warn(field+".operationWith", err.Error()+": it counts as 0", "set a number, a decimal in quotes or a percentage")
		with.Set(apd.New(0, 0))
	}
	if op == "/" && with.IsZero() {
		found.warn(field+".operationWith", "division by zero: the comparison fails", "divide by something else")
	}
	return &process{op: op, with: &with.Decimal, text: literal(&with.Decimal)}
}

// An amount is a number, or a fraction that was written as a percentage.
type amount struct {
	apd.Decimal
	percentage bool
}

// parseAmount reads 3, "0.5" or "60%".
func parseAmount(v *intstr.IntOrString) (amount, error) {
	var a amount
	if v.Type == intstr.Int {
		a.SetInt64(int64(v.IntVal))
		return a, nil
	}
	text, isPercentage := strings.CutSuffix(strings.TrimSpace(v.StrVal), "%")
	d, err := parseDecimal(text)
	if err != nil {
		return a, fmt.Errorf("%q is neither a number nor a percentage", v.StrVal)
	}
	a.Set(d)
	if a.percentage = isPercentage; isPercentage {
		a.Exponent -= 2
		a.Reduce(&a.Decimal)
	}
	return a, nil
}

// apply computes value op with.
func (p *process) apply(value any) (any, error) {
	if text, ok := value.(string); ok && p.op == "*" {
		return p.repeat(text)
	}
	if kind := kindOf(value); kind != "a number" {
		return nil, fmt.Errorf("%s %s a number: no arithmetic on %s", kind, p.op, kind)
	}
	result, err := arithmetic(p.op, decimal(value), p.with)
	if err != nil {
		return nil, err
	}
	return result, nil
}

// repeat is string multiplication, which CUE has for integers.
func (p *process) repeat(text string) (any, error) {
	n, err := p.with.Int64()
	if err != nil || p.with.Exponent != 0 || n < 0 || n > maxRepeat {
		return nil, errors.New("a string * a number: no arithmetic on a string")
	}
	if n > 0 && int64(len(text)) > maxRepeat/n {
		return nil, fmt.Errorf("a string * a number: the result is longer than %d bytes", maxRepeat)
	}
	return strings.Repeat(text, int(n)), nil
}

func arithmetic(op string, a, b *apd.Decimal) (*apd.Decimal, error) {
	context := apd.BaseContext.WithPrecision(precision)
	result := new(apd.Decimal)
	var err error
	switch op {
	case "+":
		_, err = context.Add(result, a, b)
	case "-":
		_, err = context.Sub(result, a, b)
	case "*":
		_, err = context.Mul(result, a, b)
	case "/":
		if b.IsZero() {
			return nil, errors.New("division by zero")
		}
		_, err = context.Quo(result, a, b)
	default:
		return nil, fmt.Errorf("unknown operation %q", op)
	}
	if err != nil {
		return nil, fmt.Errorf("compute %s %s %s: %w", a, op, b, err)
	}
	return result, nil
}
