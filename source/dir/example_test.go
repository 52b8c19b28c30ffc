package dir_test

import (
	"fmt"

	"github.com/usher-dev/usher/source/dir"
)

// What is read of a file, and what is wrong with it.
func ExampleParse() {
	set := dir.Parse("policies.yaml", []byte(`
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: require-owner}
spec:
  validations: [{expression: has(object.metadata.labels.owner), message: label owner is required}]
---
kind: [
`))
	for _, policy := range set.Policies {
		fmt.Println(policy.Object.GetName(), policy.Position("spec.validations").Line)
	}
	fmt.Println(len(set.Unreadable))
	// Output:
	// require-owner 6
	// 1
}
