package admission_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/door/admission"
)

func TestAnswersAreEncodedLikeStructs(t *testing.T) {
	t.Parallel()
	const awkward = "<a> \"b\" ä\u2028\n"
	jsonPatch := admissionv1.PatchTypeJSONPatch
	for reason, response := range map[string]admissionv1.AdmissionResponse{
		"nothing":         {},
		"allowed":         {Allowed: true, Result: &metav1.Status{Code: 200}},
		"changed":         {Allowed: true, Result: &metav1.Status{Code: 200}, Patch: []byte(`[{"op":"remove","path":"/a"}]`), PatchType: &jsonPatch},
		"an odd length":   {Patch: []byte("a"), PatchType: &jsonPatch},
		"denied":          {Result: &metav1.Status{Status: "Failure", Code: 403, Reason: "Forbidden", Message: awkward}},
		"200 with reason": {Result: &metav1.Status{Code: 200, Message: "m"}},
		"with causes": {Result: &metav1.Status{Code: 500, Details: &metav1.StatusDetails{
			Name: "n", Kind: "Pod", Causes: []metav1.StatusCause{{Type: "t", Message: awkward, Field: "f"}},
		}}},
		"annotations and warnings": {
			Allowed: true, AuditAnnotations: map[string]string{"b": awkward, "a": "", "c": "x"}, Warnings: []string{"one", awkward},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			for _, uid := range []string{"705ab4f5-6393-11e8-b7cc-42010a800002", awkward} {
				got, err := admission.Encode("admission.k8s.io/v1", uid, &response)
				if err != nil {
					t.Fatal(err)
				}
				want, err := json.Marshal(admissionv1.AdmissionReview{
					TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"}, Response: &response,
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("-json.Marshal +got:\n%s", diff)
				}
			}
		})
	}
}
