package v1alpha1_test

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// A policy that a program writes.
func Example() {
	policy := v1alpha1.ClusterObjectPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "require-owner"},
		Spec: v1alpha1.ClusterObjectPolicySpec{ObjectPolicySpec: v1alpha1.ObjectPolicySpec{
			Validations: []v1alpha1.Validation{{
				Expression: "has(object.metadata.labels.owner)", Message: "label owner is required",
			}},
		}},
	}
	text, err := json.Marshal(policy.Spec.Validations)
	fmt.Println(string(text), err)
	// Output: [{"expression":"has(object.metadata.labels.owner)","message":"label owner is required"}] <nil>
}
