package condition

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// The comparisons are those of CUE v0.4.3: numbers compare exactly, as decimals, of any type; null
// is equal only to itself; other values of different kinds, and objects, cannot be compared.

func equal(a, b any) (bool, error) {
	switch kindA, kindB := kindOf(a), kindOf(b); {
	case kindA == "null" || kindB == "null":
		return kindA == kindB, nil
	case kindA != kindB:
		return false, fmt.Errorf("%s and %s cannot be compared", kindA, kindB)
	case kindA == "an object":
		return false, errors.New("objects cannot be compared")
	}
	return same(a, b), nil
}

func compareOrdered(a, b any) (int, error) {
	if a, ok := a.(string); ok {
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), nil
		}
	}
	if kindA, kindB := kindOf(a), kindOf(b); kindA != "a number" || kindB != "a number" {
		return 0, fmt.Errorf("%s is neither more nor less than %s", kindA, kindB)
	}
	return compareNumbers(a, b), nil
}

// same reports whether two values are equal; values of different kinds are not.
func same(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case []any:
		b, ok := b.([]any)
		return ok && sameLists(a, b)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && sameObjects(a, b)
	}
	return kindOf(b) == "a number" && compareNumbers(a, b) == 0
}

func sameLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

func sameObjects(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok || !same(value, other) {
			return false
		}
	}
	return true
}

func compareNumbers(a, b any) int {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		}
	}
	return decimal(a).Cmp(decimal(b))
}

// decimal returns a number as the decimal that its JSON text is.
func decimal(number any) *apd.Decimal {
	switch n := number.(type) {
	case int64:
		return apd.New(n, 0)
	case float64:
		d, _, err := apd.NewFromString(strconv.FormatFloat(n, 'g', -1, 64))
		if err == nil {
			return d
		}
	case *apd.Decimal:
		return n
	}
	return new(apd.Decimal)
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
