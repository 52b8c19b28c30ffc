// Package quantity says which texts can be parsed as quantities in bounded time.
package quantity

import (
	"strconv"
	"strings"
)

// mostDigits is how many digits a quantity has at most, and how large its exponent is.
const mostDigits = 1000

// Parses reports whether a text may be parsed as a quantity, and the quantity calculated with.
// Of two quantities, one such as 1e-999999999, k8s.io/apimachinery makes numbers with as many digits as
// their exponents are apart. For what is no quantity at all it is true: to find that out takes little.
func Parses(text string) bool {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	suffix := strings.TrimLeft(text, decimals)
	if fraction, ok := strings.CutPrefix(suffix, "."); ok {
		suffix = strings.TrimLeft(fraction, decimals)
	}
	if len(text)-len(suffix) > mostDigits {
		return false
	}
	if len(suffix) < 2 || suffix[0] != 'e' && suffix[0] != 'E' {
		return true
	}
	// As suffix.go of k8s.io/apimachinery/pkg/api/resource does it, which keeps 32 bits.
	exponent, err := strconv.ParseInt(suffix[1:], 10, 64)
	short := int32(exponent)
	return err != nil || -mostDigits <= short && short <= mostDigits
}

const decimals = "0123456789"
