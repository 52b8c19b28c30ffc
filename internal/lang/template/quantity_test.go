package template_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

// FuzzQuantity compares the share of a limit with what Kubernetes' own quantities and
// exact fractions give.
func FuzzQuantity(f *testing.F) {
	for _, limit := range []string{
		"8Gi", "1500m", "1.5", ".5", "5.", ".", "", "Mi", "1e3", "12E-2", "1E", "1Ei", "9223372036854775807", "8Ei", "0", "0.000", "007", "100n",
		"3u", "1k", "1K", "1e", "e1", "1e123", "-1", "+1", "1.2.3", "1 Gi", "99999999999999999999", "1.0000000000000000001", "0.5m", "17P",
	} {
		for _, factor := range []string{"0.5", "0.333", "0.000001", "1e-9", "0.999999999999"} {
			f.Add(limit, factor)
		}
	}
	f.Fuzz(func(t *testing.T, limit, factor string) {
		rat, ok := new(big.Rat).SetString(factor)
		if !ok || strings.Trim(factor, "0123456789.e-") != "" || len(factor) > 15 || rat.Sign() <= 0 || rat.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Skip("no factor")
		}
		program, problems := template.Compile(parse(t, fmt.Sprintf(
			`{type: resourcesOversell, operation: add, resourcesOversell: {memoryFactor: %q}}`, factor)))
		if program == nil {
			t.Skipf("factor %s: %v", factor, problems)
		}
		outcome, err := program.Run(context.Background(), &rule.Input{Object: map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"resources": map[string]any{"requests": map[string]any{}, "limits": map[string]any{"memory": limit}}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		q, err := resource.ParseQuantity(limit)
		if len(outcome.Patch) == 0 {
			plain := err == nil && len(limit) < 16 && strings.ContainsAny(limit, "0123456789") && limit[0] != '-' && limit[0] != '+' && !strings.Contains(strings.ToLower(limit), "e")
			if plain {
				t.Fatalf("%s has no share", limit)
			}
			return
		}
		if err != nil {
			if !strings.HasSuffix(limit, "K") {
				t.Fatalf("%s is no quantity, but has the share %v", limit, outcome.Patch)
			}
			return
		}
		if _, fraction, ok := strings.Cut(limit, "."); ok && len(fraction) > 3 || strings.ContainsAny(limit, "nue-") || q.CmpInt64(math.MaxInt64) >= 0 {
			return // Quantities are rounded and cut off there.
		}
		exact, _ := new(big.Rat).SetString(q.AsDec().String())
		exact.Mul(exact, rat).Add(exact, big.NewRat(1, 2))
		want := new(big.Int).Quo(exact.Num(), exact.Denom())
		if got := outcome.Patch[0].Value.(int64); big.NewInt(got).Cmp(want) != 0 {
			t.Errorf("%s of %s is %d, want %s", factor, limit, got, want)
		}
	})
}
