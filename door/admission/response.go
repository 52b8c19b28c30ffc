package admission

import (
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
)

// respond turns a decision into the response to q, without uid. The patch is in the buffers.
func respond(q *usher.Request, d usher.Decision, buffers *buffers) (*admissionv1.AdmissionResponse, error) {
	denial, err := answer.Denial(q, d)
	if err != nil {
		return nil, err
	}
	response := &admissionv1.AdmissionResponse{
		Result:           denial,
		Warnings:         answer.Warnings(d.Warnings),
		AuditAnnotations: answer.Audit(d.Audit),
	}
	if denial != nil {
		return response, nil
	}
	response.Allowed = true
	response.Result = &metav1.Status{Code: http.StatusOK, Message: answer.Message(d.Message)}
	// An API server rejects a patch for a request without an object.
	operations := answer.Patch(q, d)
	if len(operations) == 0 {
		return response, nil
	}
	patch, err := operations.AppendJSON(buffers.patch[:0])
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	buffers.patch = patch
	jsonPatch := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &jsonPatch
	return response, nil
}
