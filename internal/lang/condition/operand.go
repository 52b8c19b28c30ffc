package condition

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// maxExponent limits the numbers in a policy: larger ones are not useful, and digits take memory.
const maxExponent = 400

// An operand is a constant on the right-hand side: value if it is not nil, otherwise text.
type operand struct {
	text   reference.Text
	value  any
	number string
}

func textOperand(text string) operand { return operand{text: reference.ParseText(text)} }

func intOperand(n int64) operand { return operand{value: n, number: strconv.FormatInt(n, 10)} }

func scalarOperand(constant any) (operand, error) {
	switch v := constant.(type) {
	case string:
		return textOperand(v), nil
	case int64:
		return intOperand(v), nil
	case bool:
		return operand{value: v, number: strconv.FormatBool(v)}, nil
	case v1alpha1.Float64:
		d, err := parseDecimal(string(v))
		if err != nil {
			return operand{}, err
		}
		return operand{value: d, number: literal(d)}, nil
	}
	return operand{}, errors.New("a list or a map cannot be compared")
}

// valueIn returns the constant, interpolations filled in.
func (o *operand) valueIn(in *rule.Input) (any, error) {
	if o.value != nil {
		return o.value, nil
	}
	text, err := o.text.Value(in)
	if err != nil {
		return nil, fmt.Errorf("read value: %w", err)
	}
	return text, nil
}

// fixed reports whether the constant has no interpolations.
func (o *operand) fixed() bool {
	if o.value != nil {
		return true
	}
	_, literal := o.text.Literal()
	return literal
}

// expr returns the constant as CUE.
func (o *operand) expr() string {
	if o.value != nil {
		return o.number
	}
	return o.text.Expr()
}

func list(operands []operand) string {
	exprs := make([]string, len(operands))
	for i := range operands {
		exprs[i] = operands[i].expr()
	}
	return "[" + strings.Join(exprs, ", ") + "]"
}

// parseDecimal reads a decimal number. The text is not one that can be large in value and
// small in size.
func parseDecimal(text string) (*apd.Decimal, error) {
	trimmed := strings.TrimSpace(text)
	if strings.Trim(trimmed, "+-.eE0123456789") != "" {
		return nil, fmt.Errorf("%q is not a decimal number", text)
	}
	d, _, err := apd.NewFromString(trimmed)
	if err != nil || d.Form != apd.Finite {
		return nil, fmt.Errorf("%q is not a decimal number", text)
	}
	if d.Exponent > maxExponent || d.Exponent < -maxExponent || len(trimmed) > maxExponent {
		return nil, fmt.Errorf("%q has too many digits", text)
	}
	return d, nil
}

// literal returns a decimal as a CUE number, a float if it is not written as an integer.
func literal(d *apd.Decimal) string {
	text := d.Text('f')
	if d.Exponent > 0 {
		text += ".0"
	}
	return text
}
