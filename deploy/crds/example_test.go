package crds_test

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/deploy/crds"
)

// The CRD of a kind, as an installer applies it.
func ExampleOf() {
	text, err := crds.Of(schema.GroupResource{Group: "usher.dev", Resource: "objectpolicies"})
	fmt.Println(bytes.Contains(text, []byte("name: objectpolicies.usher.dev")), err)
	// Output: true <nil>
}
