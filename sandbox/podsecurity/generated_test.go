package podsecurity

import (
	"flag"
	"testing"

	psaapi "k8s.io/pod-security-admission/api"
)

// generated is how many pods are made: make pod-security makes more.
var generated = flag.Int("pods", 10_000, "how many pods to generate")

// TestGenerated decides pods that are made by chance, at the versions before and after each change of
// a check.
func TestGenerated(t *testing.T) {
	t.Parallel()
	versions := []string{
		"v1.0", "v1.7", "v1.8", "v1.18", "v1.19", "v1.21", "v1.22", "v1.23", "v1.24", "v1.25", "v1.26", "v1.27", "v1.28", "v1.29", "v1.30", "v1.31",
		"v1.32", "v1.33", "v1.34", "v1.35", "v1.36", "v1.999", "latest",
	}
	evaluator := upstream(t)
	each := *generated / len(versions) / len(levels)
	for i, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			version, err := versionOf(v)
			if err != nil {
				t.Fatal(err)
			}
			for j, level := range levels {
				at, d, denied := psaapi.LevelVersion{Level: level, Version: version}, enforced(t, level, v), 0
				g := newGenerator(uint64(2*i + j))
				for range each {
					if same(t, evaluator, d, at, g.pod()) {
						denied++
					}
					if t.Failed() {
						return
					}
				}
				if denied == 0 || denied == each {
					t.Errorf("%s: %d of %d pods are denied: the generator says nothing about the others", at, denied, each)
				}
			}
		})
	}
}
