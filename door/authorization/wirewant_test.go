package authorization_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A wireWant is what has to be true of an answer, as far as a case cares.
type wireWant struct {
	Status     int    `json:"status,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Allowed    *bool  `json:"allowed,omitempty"`
	Denied     *bool  `json:"denied,omitempty"`
	// Handshake is fails, or works.
	Handshake     string `json:"handshake,omitempty"`
	ServerStaysUp bool   `json:"serverStaysUp,omitempty"`
	// These are present or absent.
	EvaluationError string `json:"evaluationError,omitempty"`
	Conditions      string `json:"conditions,omitempty"`
	Spec            string `json:"spec,omitempty"`
	RetryAfter      string `json:"retryAfter,omitempty"`

	Reason               string   `json:"reason,omitempty"`
	ReasonBytesAtMost    int      `json:"reasonBytesAtMost,omitempty"`
	ReasonMustNotContain []string `json:"reasonMustNotContain,omitempty"`
	// The last three are about all answers to several requests.
	AllowedNeverTrue           bool `json:"allowedNeverTrue,omitempty"`
	DeniedNeverTrue            bool `json:"deniedNeverTrue,omitempty"`
	EveryAnswerFromOneSnapshot bool `json:"everyAnswerFromOneSnapshot,omitempty"`

	unknown []string
}

var wireExpectations = []string{
	"status", "apiVersion", "kind", "allowed", "denied", "handshake", "serverStaysUp", "evaluationError", "conditions", "spec", "retryAfter",
	"reason", "reasonBytesAtMost", "reasonMustNotContain", "allowedNeverTrue", "deniedNeverTrue", "everyAnswerFromOneSnapshot",
}

// UnmarshalJSON implements json.Unmarshaler. What is not known is a fault of the case, not
// of its file.
func (w *wireWant) UnmarshalJSON(text []byte) error {
	type plain wireWant
	if err := json.Unmarshal(text, (*plain)(w)); err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return err
	}
	w.unknown = unknownKeys(keys, wireExpectations)
	return nil
}

// faults are all the differences between an answer and the expectation.
func (w *wireWant) faults(a *wireAnswer) []string {
	faults := slices.Clone(w.unknown)
	expect := func(ok bool, what string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf("expected "+what, args...)+": "+a.String())
		}
	}
	if w.Handshake == "fails" {
		expect(a.status == 0 && a.err != nil, "the handshake to fail")
		return faults
	}
	expect(a.status != 0, "an answer")
	expect(w.Status == 0 || a.status == w.Status, "the status %d", w.Status)
	if a.status != http.StatusOK {
		// API servers would come back for more.
		expect(a.header.Get("Retry-After") == "", "no Retry-After")
		expect(w.Allowed == nil && w.Denied == nil, "a review")
		return faults
	}
	expect(a.err == nil && a.review.Status != nil, "a review")
	expect(w.APIVersion == "" || a.review.APIVersion == w.APIVersion, "the version %s", w.APIVersion)
	expect(a.review.Kind == "SubjectAccessReview" && (w.Kind == "" || a.review.Kind == w.Kind), "the kind SubjectAccessReview")
	expect(w.Allowed == nil || a.flag("allowed") == *w.Allowed, "allowed to be %t", w.Allowed != nil && *w.Allowed)
	expect(w.Denied == nil || a.flag("denied") == *w.Denied, "denied to be %t", w.Denied != nil && *w.Denied)
	expect(!a.flag("allowed") || !a.flag("denied"), "not both allowed and denied")
	expect(w.there(w.EvaluationError, a.text("evaluationError") != ""), "evaluationError to be %s", w.EvaluationError)
	expect(w.there(w.Conditions, a.review.Status["conditions"] != nil || a.review.Status["conditionSetChain"] != nil), "conditions to be %s", w.Conditions)
	expect(w.there(w.Spec, a.review.Spec != nil), "spec to be %s", w.Spec)
	expect(w.there(w.RetryAfter, a.header.Get("Retry-After") != ""), "Retry-After to be %s", w.RetryAfter)
	expect(!w.AllowedNeverTrue || !a.flag("allowed"), "never to allow")
	expect(!w.DeniedNeverTrue || !a.flag("denied"), "never to deny")
	return w.reasonFaults(faults, a.text("reason"))
}

// there reports whether expected fields exist, and others do not.
func (w *wireWant) there(wanted string, is bool) bool {
	switch wanted {
	case "present":
		return is
	case "absent":
		return !is
	}
	return wanted == ""
}

func (w *wireWant) reasonFaults(faults []string, reason string) []string {
	if !strings.Contains(reason, w.Reason) {
		faults = append(faults, fmt.Sprintf("expected a reason with %q in it, got %q", w.Reason, reason))
	}
	if most := w.ReasonBytesAtMost; most > 0 && (len(reason) > most || reason == "") {
		faults = append(faults, fmt.Sprintf("expected a reason of at most %d bytes, it has %d", most, len(reason)))
	}
	for _, what := range w.ReasonMustNotContain {
		texts, known := secrets[what]
		if !known {
			texts = []string{what}
		}
		for _, text := range texts {
			if strings.Contains(reason, text) {
				faults = append(faults, fmt.Sprintf("expected a reason without %s, got %q", what, reason))
			}
		}
	}
	return faults
}

// secrets are what the policies of [newWireServer] contain and nobody is to be told.
var secrets = map[string][]string{
	"condition text": {"breakglass", "request.groups"},
	"other subjects": {"rivals", "system:serviceaccount:rival"},
}
