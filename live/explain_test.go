package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// Why a decision is as it is: which rules matched, and the values of their expressions.
func ExampleLive_Explain() {
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	policy := `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: few-replicas}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]},
		validations: [{expression: object.spec.replicas <= 3, message: at most 3 replicas}]}}`
	if err := os.WriteFile(filepath.Join(folder, "replicas.yaml"), []byte(policy), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	decider := live.New(live.Options{})
	go func() { _ = decider.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error
	if err := decider.WaitLoaded(ctx); err != nil {
		fmt.Println(err)
		return
	}
	request := &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "web",
		Kind:     schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Object:   usher.RawObject([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":5}}`)),
	}
	decision, err := decider.Decide(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := decider.Explain(ctx, request, decision)
	if err != nil {
		fmt.Println(err)
		return
	}
	// As of usher explain -o json: of each field that you need, write the type.
	type expression struct {
		Text  string
		Value any
		Parts []expression
	}
	var explanation struct {
		Rules []struct {
			Policy  usher.PolicyRef
			Outcome usher.Outcome
			Steps   []struct {
				Reading struct{ Expressions []expression }
			}
		}
	}
	if err := json.Unmarshal(text, &explanation); err != nil {
		fmt.Println(err)
		return
	}
	for _, rule := range explanation.Rules {
		fmt.Println(rule.Policy, rule.Outcome)
		for _, step := range rule.Steps {
			for _, e := range step.Reading.Expressions {
				fmt.Println(e.Text, e.Value, e.Parts)
			}
		}
	}
	// Output:
	// ClusterObjectPolicy few-replicas rejected
	// object.spec.replicas <= 3 false [{object.spec.replicas 5 []}]
}

func TestExplain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	policy := `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets, configmaps]}]},
		validations: [{expression: "namespaceObject.metadata.labels.team == 'a' && object.data.key == 'x'"}]}}`
	if err := os.WriteFile(filepath.Join(folder, "p.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	facts := object.FromTrees([]map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"team": "a"}}}})
	decider := live.New(live.Options{Facts: facts})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = decider.Run(ctx, dir.New(folder)) }()
	if err := decider.WaitLoaded(ctx); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason, kind, resource   string
		says, withheld, mistaken string
	}{
		{"values, and those of facts", "ConfigMap", "configmaps", `"text":"object.data.key","value":"hidden"`, "", ""},
		{"facts", "ConfigMap", "configmaps", `"text":"namespaceObject.metadata.labels.team","value":"a"`, "", ""},
		{"values of Secrets are withheld", "Secret", "secrets", `"rule":"spec.validations"`, "hidden", ""},
		{"no kind", "", "secrets", "", "", "expected a kind and its version"},
	} {
		request := &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "x",
			Kind:     schema.GroupVersionKind{Version: "v1", Kind: row.kind},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: row.resource},
			Object:   usher.RawObject([]byte(`{"apiVersion":"v1","kind":"` + row.kind + `","metadata":{"name":"x","namespace":"shop"},"data":{"key":"hidden"}}`)),
		}
		decision, _ := decider.Decide(ctx, request)
		text, err := decider.Explain(ctx, request, decision)
		if (err != nil) != (row.mistaken != "") || err != nil && !strings.Contains(err.Error(), row.mistaken) {
			t.Errorf("%s: %v", row.reason, err)
		}
		if !strings.Contains(string(text), row.says) || row.withheld != "" && strings.Contains(string(text), row.withheld) {
			t.Errorf("%s: %s", row.reason, text)
		}
	}
}
