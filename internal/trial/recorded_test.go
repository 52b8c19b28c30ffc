package trial_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	k8syaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// policiesIn returns the policies in the files below folders: those of cases, too.
func policiesIn(t testing.TB, folders ...string) []api.Policy {
	t.Helper()
	var policies []api.Policy
	add := func(tree any) {
		raw, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		// Some cases are about policies that cannot be decoded.
		if p, err := api.Decode(raw); err == nil {
			policies = append(policies, p)
		}
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			documents := k8syaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096)
			for {
				var tree map[string]any
				if err := documents.Decode(&tree); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return fmt.Errorf("decode %s: %w", path, err)
				}
				add(tree)
				for _, of := range policiesOf(tree) {
					add(of)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return policies
}

// policiesOf returns the policies of a case.
func policiesOf(tree map[string]any) []any {
	all, _ := tree["policies"].([]any)
	if request, ok := tree["request"].(map[string]any); ok {
		all = append(all, request["object"])
	}
	return all
}

// TestTrialsRefuseNothing: all findings about a policy that compiles are warnings, whatever the
// policy, and trying each ends.
func TestTrialsRefuseNothing(t *testing.T) {
	t.Parallel()
	policies := policiesIn(t, "../policytest/testdata/kinitiras", "../../examples", "../../docs/kinitiras/testdata")
	if len(policies) < 350 {
		t.Fatalf("%d policies: some are lost", len(policies))
	}
	try := trial.New(trial.Options{})
	for _, p := range policies {
		c := compile.Policy(p)
		result := try.Try(t.Context(), c)
		for _, problem := range result.Problems {
			if problem.Severity != rule.Warning {
				t.Errorf("%s", problem)
			}
		}
		for _, skipped := range result.Skipped {
			if strings.Contains(skipped, "panicked") {
				t.Errorf("%s: %s", c.Ref, skipped)
			}
		}
	}
}

// TestExamplesAreNotWarnedOf: what people copy is what it should be.
func TestExamplesAreNotWarnedOf(t *testing.T) {
	t.Parallel()
	try := trial.New(trial.Options{})
	for _, p := range policiesIn(t, "../../examples/cookbook", "../../examples/policies") {
		for _, problem := range try.Try(t.Context(), compile.Policy(p)).Problems {
			t.Error(problem)
		}
	}
}

// TestHostileTrials: what an author can make trials cost is bounded: it ends, and with its time.
func TestHostileTrials(t *testing.T) {
	t.Parallel()
	many := func(format string, n int) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "N", strings.Repeat("a", i%7)+string(rune('a'+i%26))))
		}
		return strings.Join(all, ",")
	}
	for _, test := range []struct{ reason, folder, spec string }{
		{"many comparisons", "validate", `{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"validateRules":[{"cue":"object: _ @tag(object)\nbad: [` +
			many(`if object.metadata.name == \"N\" {1}`, 3000) + `]\nvalidate: {valid: len(bad) == 0, reason: \"x\"}"}]}`},
		{"many kinds", "override", `{"resourceSelectors":[` + many(`{"apiVersion":"apps/v1","kind":"Deployment","name":"N"},{"apiVersion":"v1","kind":"Pod"}`, 500) +
			`],"overrideRules":[{"overriders":{"cue":"object: _ @tag(object)\npatches: []"}}]}`},
		{"deep paths", "validate", `{"resourceSelectors":[{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"}],"validateRules":[{"cue":"object: _ @tag(object)\nvalidate: {valid: object.spec` +
			strings.Repeat(".not", 300) + ` == 1, reason: \"x\"}"}]}`},
		{"an endless pattern", "validate", `{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"validateRules":[{"cue":"object: _ @tag(object)\nvalidate: {valid: object.metadata.name =~ \"((((((a{100}){100}){9})))))\", reason: \"x\"}"}]}`},
		{"much is made", "override", `{"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],"overrideRules":[{"overriders":{"plaintext":[` +
			many(`{"op":"add","path":"/metadata/annotations","value":{"N":"`+strings.Repeat("x", 1000)+`"}}`, 500) + `]}}]}`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			c := compile.Policy(mustPolicy(t, test.folder, test.spec))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			result := tried(t).Try(ctx, c)
			if len(result.Problems) > 200 {
				t.Errorf("%d problems are told", len(result.Problems))
			}
			for _, p := range result.Problems {
				if len(p.What) > 2000 {
					t.Errorf("a problem of %d bytes", len(p.What))
				}
			}
		})
	}
}

// BenchmarkTrial measures how long trying a policy takes, on average over those that are shipped.
func BenchmarkTrial(b *testing.B) {
	var all []compile.Compiled
	for _, p := range policiesIn(b, "../../examples/cookbook", "../../examples/policies") {
		all = append(all, compile.Policy(p))
	}
	try := trial.New(trial.Options{})
	i := 0
	for b.Loop() {
		try.Try(b.Context(), all[i%len(all)])
		i++
	}
}

// BenchmarkTrialOfTheSlowest measures the shipped policy that takes longest.
func BenchmarkTrialOfTheSlowest(b *testing.B) {
	try := trial.New(trial.Options{})
	var slowest compile.Compiled
	var longest time.Duration
	for _, p := range policiesIn(b, "../../examples/cookbook", "../../examples/policies") {
		c := compile.Policy(p)
		start := time.Now()
		try.Try(b.Context(), c)
		if took := time.Since(start); took > longest {
			slowest, longest = c, took
		}
	}
	b.Log(slowest.Ref)
	for b.Loop() {
		try.Try(b.Context(), slowest)
	}
}
