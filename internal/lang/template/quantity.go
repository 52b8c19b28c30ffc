package template

import (
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// quantityGrammar is the form of a Kubernetes quantity for CUE: digits before and after the point,
// then the suffix, or K, which kinitiras reads as k. quantityDigit checks that there is a digit.
// The bounds keep arithmetic exact and cheap. parseQuantity reads the same form.
const (
	quantityGrammar = `^([0-9]{0,19})(?:[.]([0-9]{0,19}))?(?:([KMGTPE]i)|([numkKMGTPE])|[eE]([+-]?[0-9]{1,2}))?$`
	quantityDigit   = `^[.]?[0-9]`
	maxDigits       = 19
)

// powersOfTen are the values of decimal suffixes.
var powersOfTen = map[string]int{"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

// multiples are the values of binary suffixes.
var multiples = map[string]int64{"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

// A quantity is digits * 10^exponent * multiple.
type quantity struct {
	digits   string
	exponent int
	multiple int64
}

// parseQuantity is not ok if text is not a quantity.
func parseQuantity(text string) (quantity, bool) {
	whole := countDigits(text)
	digits, rest := text[:whole], text[whole:]
	q := quantity{multiple: 1}
	if strings.HasPrefix(rest, ".") {
		n := countDigits(rest[1:])
		digits += rest[1 : 1+n]
		rest = rest[1+n:]
		q.exponent = -n
	}
	if digits == "" || whole > maxDigits || len(digits)-whole > maxDigits {
		return quantity{}, false
	}
	q.digits = strings.TrimLeft(digits, "0")
	if n := len(q.digits); n > 0 {
		q.digits = strings.TrimRight(q.digits, "0")
		q.exponent += n - len(q.digits)
	}
	if power, ok := powersOfTen[rest]; ok {
		q.exponent += power
		return q, true
	}
	if multiple, ok := multiples[rest]; ok {
		q.multiple = multiple
		return q, true
	}
	exponent, ok := parseExponent(rest)
	q.exponent += exponent
	return q, ok
}

func countDigits(text string) int {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return i
		}
	}
	return len(text)
}

// parseExponent reads e5, E-12 and so on.
func parseExponent(text string) (int, bool) {
	if text == "" || text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(text[1:], "-"), "+")
	if len(text)-1-len(digits) > 1 || digits == "" || len(digits) > 2 || countDigits(digits) != len(digits) {
		return 0, false
	}
	exponent, err := strconv.Atoi(text[1:])
	return exponent, err == nil
}

func (q quantity) isZero() bool { return q.digits == "" }

// shifted returns q * 10^power.
func (q quantity) shifted(power int) quantity {
	q.exponent += power
	return q
}

// decimal returns a quantity without a multiple as a plain decimal number.
func (q quantity) decimal() string {
	switch {
	case q.isZero():
		return "0"
	case q.exponent >= 0:
		return q.digits + strings.Repeat("0", q.exponent)
	}
	digits := strings.Repeat("0", max(0, 1-q.exponent-len(q.digits))) + q.digits
	point := len(digits) + q.exponent
	return digits[:point] + "." + digits[point:]
}

// times returns the product of two quantities, rounded half up. It is not ok beyond 64 bits.
func (q quantity) times(other quantity) (int64, bool) {
	if product, ok := q.timesSmall(other); ok {
		return product, true
	}
	return q.timesBig(other)
}

// timesSmall is timesBig for numbers that stay within 64 bits on the way; it is not ok for
// others.
func (q quantity) timesSmall(other quantity) (int64, bool) {
	product := uint64(1)
	for _, factor := range []struct {
		digits   string
		multiple int64
	}{{q.digits, q.multiple}, {other.digits, other.multiple}} {
		n := uint64(0)
		if factor.digits != "" {
			var err error
			if n, err = strconv.ParseUint(factor.digits, 10, 63); err != nil {
				return 0, false
			}
		}
		for _, m := range []uint64{n, uint64(factor.multiple)} {
			high, low := bits.Mul64(product, m)
			if high != 0 || low > 1<<62 {
				return 0, false
			}
			product = low
		}
	}
	for exponent := q.exponent + other.exponent; exponent != 0; {
		if exponent > 0 {
			if product > (1<<62)/10 {
				return 0, false
			}
			product *= 10
			exponent--
			continue
		}
		if exponent < -18 {
			return 0, false
		}
		divisor := uint64(1)
		for ; exponent < 0; exponent++ {
			divisor *= 10
		}
		product = (product + divisor/2) / divisor
	}
	return int64(product), true
}

func (q quantity) timesBig(other quantity) (int64, bool) {
	product := big.NewInt(1)
	for _, factor := range []quantity{q, other} {
		n, _ := new(big.Int).SetString("0"+factor.digits, 10)
		product.Mul(product, n.Mul(n, big.NewInt(factor.multiple)))
	}
	exponent := q.exponent + other.exponent
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent >= 0 {
		product.Mul(product, power)
	} else {
		half := new(big.Int).Rsh(power, 1)
		product.Quo(product.Add(product, half), power)
	}
	return product.Int64(), product.IsInt64()
}
