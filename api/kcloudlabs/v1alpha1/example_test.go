package v1alpha1_test

import (
	"encoding/json"
	"fmt"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// A rule of a policy for pods that are created.
func Example() {
	var policy v1alpha1.ClusterValidatePolicy
	err := json.Unmarshal([]byte(`{"spec": {
		"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
		"validateRules": [{"targetOperations": ["CREATE"], "cue": "object: {...}"}]}}`), &policy)
	fmt.Println(policy.Spec.ResourceSelectors[0].Kind, policy.Spec.ValidateRules[0].TargetOperations, err)
	// Output: Pod [CREATE] <nil>
}
