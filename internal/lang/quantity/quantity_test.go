package quantity_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/internal/lang/quantity"
)

// TestParses compares with the parser, where that ends.
func TestParses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text, reason    string
		parses, endless bool
	}{
		{text: "1", reason: "a number", parses: true},
		{text: "-1.5Gi", reason: "a unit", parses: true},
		{text: "1e3", reason: "an exponent", parses: true},
		{text: "1E+1000", reason: "the largest exponent", parses: true},
		{text: "1e-1000", reason: "the smallest exponent", parses: true},
		{text: "1e4294967297", reason: "an exponent of which 32 bits are kept: 1", parses: true},
		{text: "1E", reason: "a unit that is no exponent", parses: true},
		{text: "1Ei", reason: "another", parses: true},
		{text: strings.Repeat("9", 1000), reason: "many digits", parses: true},
		{text: "", reason: "no quantity", parses: true},
		{text: "--1e-999999999", reason: "no quantity: two signs", parses: true},
		{text: "1.1.1e-999999999", reason: "no quantity: two points", parses: true},
		{text: "1e-999999999x", reason: "no quantity: no number in the exponent", parses: true},
		{text: "1e99999999999999999999", reason: "no quantity: an exponent of more than 64 bits", parses: true},
		{text: "1e-999999999", reason: "a number with as many digits is made", endless: true},
		{text: "-.5E-2147483648", reason: "the smallest one", endless: true},
		{text: "1E+2147483647", reason: "it parses, and cannot be compared", endless: true},
		{text: "0e999999999", reason: "nothing, many times", endless: true},
		{text: "0." + strings.Repeat("0", 100_000) + "1", reason: "digits"},
	} {
		if got := quantity.Parses(row.text); got != row.parses {
			t.Errorf("%.30s (%s): %t, not %t", row.text, row.reason, got, row.parses)
		}
		if row.endless {
			continue
		}
		q, err := resource.ParseQuantity(row.text)
		if err == nil && q.Cmp(resource.MustParse("1")) > 1 {
			t.Errorf("%.30s: %v", row.text, q)
		}
	}
}
