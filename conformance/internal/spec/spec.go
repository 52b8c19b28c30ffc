// Package spec has what is said about upstream's specs: which there are, and what became of
// them.
package spec

import (
	"regexp"
	"strings"
)

// A Spec is one of upstream's specs.
type Spec struct {
	// Text is upstream's whole text, by which the spec is run.
	Text string `json:"text"`
	// Name is the text without tags: "AdmissionWebhook should mutate configmap".
	Name string `json:"name"`
	// Location is where upstream's source has it: webhook.go:249.
	Location string `json:"location"`
}

// tags are what upstream adds to the words of a spec for its own tools.
var tags = regexp.MustCompile(`\s*\[[^\]]*\]`)

// New is the spec with a text, at a place in upstream's source.
func New(text, location string) Spec {
	return Spec{Text: text, Name: strings.TrimSpace(tags.ReplaceAllString(text, "")), Location: location}
}

var notInSlugs = regexp.MustCompile(`[^a-z0-9]+`)

// Slug is the name as that of a file.
func (s Spec) Slug() string {
	return strings.Trim(notInSlugs.ReplaceAllString(strings.ToLower(s.Name), "-"), "-")
}

// A State is how a spec ended, in upstream's words; there are more than those here.
type State string

const (
	Passed State = "passed"
	Failed State = "failed"
)

// A Result is what became of a spec.
type Result struct {
	Spec    Spec    `json:"spec"`
	State   State   `json:"state"`
	Seconds float64 `json:"seconds"`
	// Problem says why it did not pass, and At where in upstream's source.
	Problem string `json:"problem,omitempty"`
	At      string `json:"at,omitempty"`
	// Log is a file with what the spec did, step by step.
	Log string `json:"log,omitempty"`
	// Namespaces are those that the spec made.
	Namespaces []string `json:"namespaces,omitempty"`
}
