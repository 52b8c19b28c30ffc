package policytest_test

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/internal/policytest"
)

// The cases of a folder, run without package testing. In a test, [policytest.Run] does it.
func ExampleTests() {
	tests, err := policytest.Tests("../../examples/cases/condition-max-replicas.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, test := range tests[:2] {
		fmt.Println(test.Name, test.Run(context.Background()).Status)
	}
	// Output:
	// too-many-replicas passed
	// just-enough-replicas passed
}
