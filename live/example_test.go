package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	policy := `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: ClusterValidatePolicy, metadata: {name: require-team}, spec: {
		resourceSelectors: [{apiVersion: v1, kind: Pod}],
		validateRules: [{targetOperations: [CREATE], template: {type: condition, condition: {
			cond: NotExist, dataRef: {from: current, path: /metadata/labels/team}, message: label team is required}}}]}}`
	if err := os.WriteFile(filepath.Join(folder, "team.yaml"), []byte(policy), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	decider := live.New(live.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- decider.Run(ctx, dir.New(folder)) }()
	if err := decider.WaitLoaded(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("policies:", len(decider.Policies()), "problems:", len(decider.Problems()))

	decision, err := decider.Decide(ctx, &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "cart",
		Object: usher.RawObject([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","namespace":"shop"}}`)),
	})
	fmt.Println(decision.Verdict, decision.Message, err)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// policies: 1 problems: 0
	// deny label team is required <nil>
	// <nil>
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
