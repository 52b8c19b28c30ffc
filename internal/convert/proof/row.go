// Package proof has what the tests of other policy engines have in common, when they run on what their policies
// became.
package proof

import (
	admissionv1 "k8s.io/api/admission/v1"

	usher "github.com/usher-dev/usher"
)

// A Read returns the objects, and the requests of AdmissionReviews, in a file.
type Read func(file string) ([]map[string]any, []*admissionv1.AdmissionRequest, error)

// An Outcome says whether an imported policy answers a test of another engine as expected.
type Outcome string

// The outcomes.
const (
	Holds    Outcome = "holds"
	Differs  Outcome = "differs"
	Unjudged Outcome = "unjudged"
	// Misnamed is that of a test that names what is not there: nobody has tested what its author meant to.
	Misnamed Outcome = "misnamed"
)

// A Row is one test of a policy of another engine, run on what the policy became.
type Row struct {
	// Policy is what it tests, and Object that as it was.
	Policy usher.PolicyRef `json:"-"`
	Object map[string]any  `json:"-"`
	// File and Name tell which test it is.
	File string `json:"file"`
	Name string `json:"name"`

	Outcome Outcome `json:"outcome"`
	// Why is what differs, or why the test cannot be judged.
	Why string `json:"why,omitempty"`
	// Case is the test as a case of Usher; nil if it cannot be judged.
	Case any `json:"-"`
}

// Of returns the row of a case that was run: whether it passed, and what differs if it did not.
func Of(c any, passed bool, what string) Row {
	if passed {
		return Row{Outcome: Holds, Case: c}
	}
	return Row{Outcome: Differs, Why: what, Case: c}
}
