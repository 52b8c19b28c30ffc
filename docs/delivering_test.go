package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
)

// delivery is what the manifests of the document have that can be wrong.
type delivery struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	Spec             struct {
		Path             string
		SourceRef        struct{ Kind, Name string }
		Source           struct{ Path string }
		HealthCheckExprs []struct{ APIVersion, Kind, Failed, Current string }
	}
	Data map[string]string
}

// TestDelivery: the manifests for Flux and Argo CD name what there is, and what says whether a policy is enforced does.
func TestDelivery(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("delivering.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]delivery{}
	for _, block := range regexp.MustCompile("(?s)<!-- file: try/delivery/(flux|argo)\\.yaml -->\n```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for document := range strings.SplitSeq(block[2], "---\n") {
			var d delivery
			if err := yaml.Unmarshal([]byte(document), &d); err != nil {
				t.Fatalf("%v:\n%s", err, document)
			}
			all[d.Kind] = d
		}
	}
	if len(all) != 4 {
		t.Fatalf("there are %d manifests", len(all))
	}
	flux, argo := all["Kustomization"], all["Application"]
	if source := all["GitRepository"]; flux.Spec.SourceRef.Name != source.Metadata.Name || flux.Spec.Path != "./policies" || argo.Spec.Source.Path != "policies" {
		t.Errorf("Flux reads %s of %s, and Argo CD %s", flux.Spec.Path, flux.Spec.SourceRef.Name, argo.Spec.Source.Path)
	}
	if rule := all["ConfigMap"].Data["resource.customizations"]; !strings.HasPrefix(rule, "usher.dev/*:\n  health.lua: |\n") {
		t.Errorf("the rules of Argo CD:\n%s", rule)
	}
	if len(flux.Spec.HealthCheckExprs) == 0 {
		t.Fatal("Flux has no rules")
	}
	for _, rule := range flux.Spec.HealthCheckExprs {
		if _, ok := api.KindNamed(apischema.FromAPIVersionAndKind(rule.APIVersion, rule.Kind)); !ok {
			t.Errorf("there is no %s of %s", rule.Kind, rule.APIVersion)
		}
		for _, row := range []struct {
			reason, conditions string
			failed, current    bool
		}{
			{"enforced", `[{type: Compiled, status: "True", observedGeneration: 2}, {type: Enforced, status: "True", observedGeneration: 2}]`, false, true},
			{"not yet", `[{type: Compiled, status: "True", observedGeneration: 2}, {type: Enforced, status: "False", observedGeneration: 2, reason: NotCalled}]`, false, false},
			{"the version before", `[{type: Compiled, status: "True", observedGeneration: 1}, {type: Enforced, status: "True", observedGeneration: 1}]`, false, false},
			{"with errors", `[{type: Compiled, status: "False", observedGeneration: 2}, {type: Enforced, status: "True", observedGeneration: 1}]`, true, false},
			{"suspended", `[{type: Compiled, status: "True", observedGeneration: 2}, {type: Enforced, status: "False", observedGeneration: 2, reason: Suspended}]`, false, true},
		} {
			var conditions []any
			if err := yaml.Unmarshal([]byte(row.conditions), &conditions); err != nil {
				t.Fatal(err)
			}
			for _, condition := range conditions {
				if c := condition.(map[string]any); c["reason"] == nil {
					c["reason"] = c["type"]
				}
			}
			failed, current := holds(t, rule.Failed, conditions), holds(t, rule.Current, conditions)
			if failed != row.failed || current != row.current {
				t.Errorf("%s: failed %v, current %v", row.reason, failed, current)
			}
		}
	}
}

// holds evaluates an expression of Flux on an object of the generation 2.
func holds(t *testing.T, expression string, conditions []any) bool {
	t.Helper()
	environment, err := cel.NewEnv(cel.Variable("status", cel.DynType), cel.Variable("metadata", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	compiled, issues := environment.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := environment.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(map[string]any{"status": map[string]any{"conditions": conditions}, "metadata": map[string]any{"generation": 2.0}})
	if err != nil {
		t.Fatal(err)
	}
	return value.Value() == true
}
