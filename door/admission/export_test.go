package admission

import (
	admissionv1 "k8s.io/api/admission/v1"

	usher "github.com/usher-dev/usher"
)

// Encode encodes the answer to a request, as it is sent.
func Encode(apiVersion, uid string, response *admissionv1.AdmissionResponse) ([]byte, error) {
	return encodeReview(&review{apiVersion: apiVersion, kind: kind, request: usher.Request{UID: uid}}, response, new(buffers))
}
