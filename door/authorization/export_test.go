package authorization

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonscan"
)

// Decode returns the request of a review and its version.
func Decode(body []byte) (*usher.Request, string, error) {
	var r review
	err := r.decode(new(jsonscan.Scanner), body, nil)
	return &r.request, r.apiVersion, err
}

// Decoder returns a function that decodes as a handler does that has decoded before.
func Decoder() func(body []byte) (*usher.Request, error) {
	var scanner jsonscan.Scanner
	return func(body []byte) (*usher.Request, error) {
		r := &review{}
		err := r.decode(&scanner, body, nil)
		return &r.request, err
	}
}
