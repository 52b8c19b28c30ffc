package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/compile/definition/definitiontest"
)

// TestCheckFindsWhatAPIServersRefuse: nothing that an API server or its webhook refuses passes usher
// check; sandbox/e2e tries the same manifests on an API server.
func TestCheckFindsWhatAPIServersRefuse(t *testing.T) {
	t.Parallel()
	cases, bases, err := definitiontest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 120 {
		t.Errorf("%d manifests, want 120", len(cases))
	}
	for kind, base := range bases {
		if report := checked(t, base); report.Errors > 0 {
			t.Errorf("%s without changes: %v", kind, report.Problems)
		}
	}
	for _, c := range cases {
		t.Run(c.Reason, func(t *testing.T) {
			t.Parallel()
			report := checked(t, c.Manifest)
			found := false
			for _, p := range report.Problems {
				if p.Severity == "error" && p.Line < 1 {
					t.Errorf("%q is nowhere in the file", p.What)
				}
				found = found || p.Severity == "error" && strings.Contains(p.Field+": "+p.What, c.Check)
			}
			if !found {
				t.Errorf("no error with %q among %+v", c.Check, report.Problems)
			}
		})
	}
}

type checkOutput struct {
	Errors   int
	Problems []struct {
		Severity, Field, What string
		Line, Column          int
	}
}

func checked(t *testing.T, manifest map[string]any) checkOutput {
	t.Helper()
	text, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, _ := execute(t, []string{"check", "-o", "json", file})
	var report checkOutput
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	return report
}
