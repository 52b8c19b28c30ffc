package live_test

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	plaintextPolicy = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy","metadata":{"name":"p"},"spec":{
		"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],
		"overrideRules":[{"overriders":{"plaintext":[{"path":"/spec/enableServiceLinks","op":"replace","value":false}]}}]}}`
	templatePolicy = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy","metadata":{"name":"t"},"spec":{
		"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],
		"overrideRules":[{"overriders":{"template":{"type":"annotations","operation":"add","path":"example.com/app","valueRef":{"from":"current","path":"/metadata/name"}}}}]}}`
	cuePolicy = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy","metadata":{"name":"c"},"spec":{
		"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],
		"overrideRules":[{"overriders":{"cue":"object: _ @tag(object)\npatches: [if object.metadata.labels.team == _|_ {{op: \"add\", path: \"/metadata/labels/team\", value: \"platform\"}}]"}}]}}`
	cueValidatePolicy = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterValidatePolicy","metadata":{"name":"v"},"spec":{
		"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}],
		"validateRules":[{"cue":"object: _ @tag(object)\nvalidate: {valid: object.metadata.name != \"none\", reason: \"no\"}"}]}}`
)

// BenchmarkDecision measures whole decisions on a pod captured from an API server, its
// decoding included: one matching policy of each language, and policies that do not match.
func BenchmarkDecision(b *testing.B) {
	missing := func(n int) []string {
		policies := make([]string, n)
		for i := range policies {
			policies[i] = fmt.Sprintf(`{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy","metadata":{"name":"m%d"},"spec":{
				"resourceSelectors":[{"apiVersion":"v1","kind":"Pod","labelSelector":{"matchLabels":{"tenant":"t%d"}}}],
				"overrideRules":[{"overriders":{"plaintext":[{"path":"/spec/x","op":"add","value":1}]}}]}}`, i, i)
		}
		return policies
	}
	raw := capturedPod(b)
	for _, bench := range []struct {
		name     string
		phase    usher.Phase
		policies []string
		changes  bool
	}{
		{"no policy", usher.Validate, nil, false},
		{"plaintext", usher.Mutate, []string{plaintextPolicy}, true},
		{"template", usher.Mutate, []string{templatePolicy}, true},
		{"cue patches", usher.Mutate, []string{cuePolicy}, true},
		{"cue validates", usher.Validate, []string{cueValidatePolicy}, false},
		{"1000 that miss", usher.Mutate, missing(1000), false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			decider := deciderOf(b, bench.policies)
			b.ReportAllocs()
			for b.Loop() {
				d, err := decider.Decide(b.Context(), &usher.Request{
					Phase: bench.phase, Operation: usher.Create, Namespace: "shop", Object: usher.RawObject(raw),
				})
				if err != nil || d.Verdict != usher.Allow || (len(d.Patch) > 0) != bench.changes {
					b.Fatalf("%+v, %v", d, err)
				}
			}
		})
	}
}

func deciderOf(b *testing.B, texts []string) usher.Decider {
	b.Helper()
	policies := make([]api.Policy, len(texts))
	for i, text := range texts {
		var err error
		if policies[i], err = api.Decode([]byte(text)); err != nil {
			b.Fatal(err)
		}
	}
	rules, problems := compile.Policies(policies)
	if errs := rule.Errors(problems); len(errs) > 0 {
		b.Fatal(errs)
	}
	return guard.Wrap(engine.New(index.New(rules), nil, engine.Options{}), guard.Options{})
}

func capturedPod(b *testing.B) []byte {
	b.Helper()
	body, err := os.ReadFile("../../door/admission/testdata/reviews/v1-create-pods.json")
	if err != nil {
		b.Fatal(err)
	}
	var review struct {
		Request struct {
			Object map[string]any `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil {
		b.Fatal(err)
	}
	metadata := review.Request.Object["metadata"].(map[string]any)
	metadata["namespace"] = "shop"
	metadata["labels"] = map[string]any{"app": "cart"}
	raw, err := json.Marshal(review.Request.Object)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}
