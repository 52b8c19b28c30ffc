package conversion

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

const (
	kind    = "ConversionReview"
	v1      = "apiextensions.k8s.io/v1"
	v1beta1 = "apiextensions.k8s.io/v1beta1"
	// maxUID is the longest uid that is echoed, in bytes. API servers send 36.
	maxUID = 256
)

// A review is a ConversionReview. Both versions have the same fields.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID               string            `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type response struct {
	UID              string            `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

// decodeReview reads the request in a review. The objects are not decoded.
func decodeReview(body []byte) (*review, error) {
	r := &review{}
	twice, err := kjson.UnmarshalStrict(body, r, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, fmt.Errorf("decode ConversionReview: %w", err)
	}
	if len(twice) > 0 {
		// Another reader of the review may use the other value.
		return nil, fmt.Errorf("decode ConversionReview: %w", errors.Join(twice...))
	}
	return r, r.check()
}

// check returns why a review cannot be answered.
func (r *review) check() error {
	switch {
	case r.Kind != kind:
		return fmt.Errorf("kind is %.64q: expected %s", r.Kind, kind)
	case r.APIVersion != v1 && r.APIVersion != v1beta1:
		return fmt.Errorf("apiVersion is %.64q: expected %s or %s", r.APIVersion, v1, v1beta1)
	case r.Request == nil:
		return errors.New("request is missing")
	case r.Request.UID == "":
		return errors.New("request.uid is missing")
	case len(r.Request.UID) > maxUID:
		return fmt.Errorf("request.uid is longer than %d bytes", maxUID)
	}
	version, err := schema.ParseGroupVersion(r.Request.DesiredAPIVersion)
	if err != nil || version.Group == "" || version.Version == "" {
		return fmt.Errorf("request.desiredAPIVersion is %.64q: expected a group and a version", r.Request.DesiredAPIVersion)
	}
	return nil
}

// answer returns the review that answers r, with all objects or the reason why not.
func (r *review) answer(objects []json.RawMessage, failure error) *review {
	a := &response{UID: r.Request.UID, ConvertedObjects: objects, Result: metav1.Status{Status: metav1.StatusSuccess}}
	if failure != nil {
		a.ConvertedObjects = nil
		a.Result = metav1.Status{Status: metav1.StatusFailure, Message: cut(failure.Error())}
	}
	if a.ConvertedObjects == nil {
		a.ConvertedObjects = []json.RawMessage{}
	}
	return &review{TypeMeta: r.TypeMeta, Response: a}
}
