package admission

import (
	admissionv1 "k8s.io/api/admission/v1"

	usher "github.com/usher-dev/usher"
)

// MaxDepth is how deep values may be nested.
const MaxDepth = maxDepth

// Scan steps over data, which is to be one JSON value.
func Scan(data []byte) error {
	s := &scanner{data: data}
	if _, err := s.value(); err != nil {
		return err
	}
	return s.end()
}

// Encode encodes the answer to a request, as it is sent.
func Encode(apiVersion, uid string, response *admissionv1.AdmissionResponse) ([]byte, error) {
	return encodeReview(&review{apiVersion: apiVersion, kind: kind, request: usher.Request{UID: uid}}, response)
}
