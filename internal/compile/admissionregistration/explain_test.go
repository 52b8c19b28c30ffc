package admissionregistration_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
)

const limited = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limited}
spec:
  paramKind: {apiVersion: v1, kind: PARAMS}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}
    objectSelector: {matchLabels: {app: cart}}
  variables:
  - {name: most, expression: params.data.most}
  validations:
  - {expression: "string(object.spec.replicas) == variables.most", messageExpression: "'want ' + variables.most"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limited}
spec:
  policyName: limited
  validationActions: [Deny]
  paramRef: {selector: {}, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchExpressions: [{key: env, operator: NotIn, values: [prod]}]}}
`

// explained is the explanation of the policy limited by params of a kind.
func explained(t *testing.T, kind, namespaceEnv string) []rule.Expression {
	t.Helper()
	told := explanation(t, kind, namespaceEnv)
	if len(told.Rules) != 1 || len(told.Rules[0].Steps) != 1 || told.Rules[0].Steps[0].Reading == nil {
		t.Fatalf("explained %+v", told.Rules)
	}
	return told.Rules[0].Steps[0].Reading.Expressions
}

func explanation(t *testing.T, kind, namespaceEnv string) explain.Explanation {
	t.Helper()
	var policies []api.Policy
	for text := range strings.SplitSeq(strings.ReplaceAll(limited, "PARAMS", kind), "---") {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		policy, err := api.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, policy)
	}
	rules, problems := compile.Policies(policies)
	if slices.ContainsFunc(problems, func(p rule.Problem) bool { return p.Severity == rule.Error }) {
		t.Fatal(problems)
	}
	facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		switch o, ok := ref.(*fact.Object); {
		case !ok:
		case o.Kind == "Namespace":
			return map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]any{"env": namespaceEnv}}}, nil
		case o.Kind == kind:
			return []any{map[string]any{
				"kind": kind, "metadata": map[string]any{"namespace": "shop", "name": "limits"}, "data": map[string]any{"most": "canary-3"},
			}}, nil
		}
		return nil, errors.New("not expected")
	})
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "web", Namespace: "shop", Object: usher.TreeObject(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": "cart"}},
		"spec":     map[string]any{"replicas": int64(5)},
	})}
	r.Kind.Group, r.Kind.Version, r.Kind.Kind = "apps", "v1", "Deployment"
	r.Resource.Group, r.Resource.Version, r.Resource.Resource = "apps", "v1", "deployments"
	rules = rules[len(rules)-1:]
	d, err := engine.New(index.New(rules), facts, engine.Options{}).Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	told, err := explain.Of(t.Context(), rules, r, d, explain.Options{Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	return told
}

func TestExplainTellsSelectorsParamsAndParts(t *testing.T) {
	t.Parallel()
	const params = "ConfigMap shop/limits"
	want := []rule.Expression{
		{Field: "spec.matchConstraints.objectSelector", Text: "app=cart", Value: true, Parts: []rule.Expression{{Text: "label app of the object", Value: "cart"}}},
		{
			Field: "binding spec.matchResources.namespaceSelector", Text: "env notin (prod)", Value: true,
			Parts: []rule.Expression{{Text: "label env of the namespace", Value: "test"}},
		},
		{Field: "spec.variables[0].expression", Name: "most", Params: params, Text: "params.data.most", Value: "canary-3"},
		{
			Field: "spec.validations[0].expression", Params: params, Text: "string(object.spec.replicas) == variables.most", Value: false,
			Parts: []rule.Expression{
				{Text: "string(object.spec.replicas)", Value: "5", Parts: []rule.Expression{{Text: "object.spec.replicas", Value: int64(5)}}},
				{Text: "variables.most", Value: "canary-3"},
			},
		},
		{
			Field: "spec.validations[0].messageExpression", Params: params, Text: "'want ' + variables.most", Value: "want canary-3",
			Parts: []rule.Expression{{Text: "variables.most", Value: "canary-3"}},
		},
	}
	if diff := cmp.Diff(want, explained(t, "ConfigMap", "test")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A selector that does not select ends the explanation.
func TestExplainEndsAtASelector(t *testing.T) {
	t.Parallel()
	told := explained(t, "ConfigMap", "prod")
	if last := told[len(told)-1]; last.Field != "binding spec.matchResources.namespaceSelector" || last.Value != false {
		t.Errorf("the last expression is %+v", last)
	}
}

// Params may be a Secret, whose values are not told; nor are parts, by which they could be guessed.
func TestExplainWithholdsParams(t *testing.T) {
	t.Parallel()
	told, err := json.Marshal(explanation(t, "Secret", "test"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(told), "canary") || strings.Contains(string(told), `"parts"`) || !strings.Contains(string(told), "(withheld)") {
		t.Errorf("the explanation tells values of a Secret: %s", told)
	}
}
