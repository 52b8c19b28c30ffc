package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// Decisions by the policies in a folder, which is followed until the context is done.
func ExampleNew() {
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	policy := `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: require-team}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
		validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: label team is required}]}}`
	if err := os.WriteFile(filepath.Join(folder, "team.yaml"), []byte(policy), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	decider := live.New(live.Options{})
	go func() { _ = decider.Run(ctx, dir.New(folder)) }() // WaitTried returns its error
	if err := decider.WaitTried(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, problem := range decider.Problems() {
		fmt.Println(problem)
	}
	decision, err := decider.Decide(ctx, &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "cart",
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		User:     usher.User{Name: "jane", Groups: []string{"system:authenticated"}},
		Object:   usher.RawObject([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","namespace":"shop"}}`)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(decision.Verdict, decision.Message)
	for _, f := range decision.Findings {
		fmt.Println(f.Policy, f.Outcome, f.Failure())
	}
	// Output:
	// deny label team is required
	// ClusterObjectPolicy require-team rejected <nil>
}

// A problem prints as commands print it: where it is, what is wrong, and what to do.
func ExampleProblem() {
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	policy := `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: paused}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations:
  - expression: object.spec.?paused.orElse(false)
`
	if err := os.WriteFile(filepath.Join(folder, "paused.yaml"), []byte(policy), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	decider := live.New(live.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = decider.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error
	if err := decider.WaitLoaded(ctx); err != nil {
		fmt.Println(err)
	}
	for _, problem := range decider.Problems() {
		fmt.Println(strings.ReplaceAll(fmt.Sprint(problem), folder, "policies"))
	}
	// Output:
	// policies/paused.yaml:8:43: error: ClusterObjectPolicy paused: spec.validations[0].expression: undeclared reference to 'orElse'; select the field with .? or [?], and write object.spec.?paused.orValue(false)
}
