package api_test

import (
	"fmt"

	"github.com/usher-dev/usher/api"
)

// A policy is decoded strictly: what its kind does not have is listed.
func ExampleDecode() {
	policy, err := api.Decode([]byte(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy",
		"metadata": {"name": "require-owner"}, "spec": {"validatons": []}}`))
	kind, _ := api.KindOf(policy.Object)
	fmt.Println(kind.Kind, policy.Object.GetName(), policy.Unknown, err)
	// Output: ClusterObjectPolicy require-owner [spec.validatons] <nil>
}
