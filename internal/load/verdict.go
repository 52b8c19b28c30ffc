package load

import (
	"encoding/json"
	"errors"
	"fmt"
)

// uidOf returns the uid of the AdmissionReview in body, empty if it is none.
func uidOf(body []byte) string {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	// Anything but a review has no uid.
	_ = json.Unmarshal(body, &review)
	return review.Request.UID
}

// verdictOf returns the verdict of a response to a review in one word: allowed, changed, denied or
// no opinion; or answered, if the response is not a review. An AdmissionReview must have that uid.
func verdictOf(body []byte, uid string) (string, error) {
	var review struct {
		Kind     string `json:"kind"`
		Response *struct {
			UID     string `json:"uid"`
			Allowed bool   `json:"allowed"`
			Patch   []byte `json:"patch"`
		} `json:"response"`
		Status *struct {
			Allowed bool `json:"allowed"`
			Denied  bool `json:"denied"`
		} `json:"status"`
	}
	err := json.Unmarshal(body, &review)
	switch response := review.Response; {
	case uid == "" && (err != nil || review.Kind != "SubjectAccessReview"):
		return "answered", nil //nolint:nilerr // Without a uid the body need not be a review.
	case err != nil:
		return "", fmt.Errorf("decode answer: %w", err)
	case review.Kind == "SubjectAccessReview" && review.Status != nil:
		return access(review.Status.Allowed, review.Status.Denied), nil
	case response == nil:
		return "", errors.New("the answer is a review without response")
	case response.UID != uid:
		return "", fmt.Errorf("the answer is for request %q", response.UID)
	case !response.Allowed:
		return "denied", nil
	case len(response.Patch) > 0:
		return "changed", nil
	}
	return "allowed", nil
}

func access(allowed, denied bool) string {
	switch {
	case denied:
		return "denied"
	case allowed:
		return "allowed"
	}
	return "no opinion"
}
