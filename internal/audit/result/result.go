// Package result has what an audit says about objects that exist: results, counts of them, and how
// current they are.
package result

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
)

// A Status is the summary of a [Result] in one word, as reports of openreports.io have it.
type Status string

// The statuses.
const (
	// Pass: the rule has no objection.
	Pass Status = "pass"
	// Fail: admission would deny the object, or the pods that it makes, or record it in the audit log.
	Fail Status = "fail"
	// Warn: admission would warn of the object, or change it.
	Warn Status = "warn"
	// Error: the rule has no result, or the kind of the objects cannot be read.
	Error Status = "error"
	// Skip: the rule cannot be judged without a request, or the object is exempt or never sent to webhooks; Message says why.
	Skip Status = "skip"
)

// Statuses are all statuses, the worst first.
func Statuses() []Status { return []Status{Error, Fail, Warn, Skip, Pass} }

// Severities are all severities, the worst first.
func Severities() []usher.Severity {
	return []usher.Severity{"critical", "high", "medium", "low", "info"}
}

// SeverityRank is the place of a severity among [Severities]; one that is not given comes last.
func SeverityRank(s usher.Severity) int {
	if i := slices.Index(Severities(), s); i >= 0 {
		return i
	}
	return len(Severities())
}

// OfPods begins the message of a result about a workload that admission would admit with a warning, and
// the pods of which it would deny.
const OfPods = "its pods would be denied: "

// A Kind is a kind of objects in the version in which they are read.
type Kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// An Identity names an object of a cluster or of a file.
type Identity struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// UID is empty for objects of files.
	UID types.UID `json:"uid,omitempty"`
}

// IdentityOf returns the identity that an object has, without its UID.
func IdentityOf(object map[string]any) Identity {
	metadata, _ := object["metadata"].(map[string]any)
	var of Identity
	of.APIVersion, _ = object["apiVersion"].(string)
	of.Kind, _ = object["kind"].(string)
	of.Namespace, _ = metadata["namespace"].(string)
	of.Name, _ = metadata["name"].(string)
	return of
}

// ToBe returns the identity that an object will have: if the API server makes its name, the prefix of that with a star.
func ToBe(object map[string]any) Identity {
	of := IdentityOf(object)
	metadata, _ := object["metadata"].(map[string]any)
	if prefix, _ := metadata["generateName"].(string); of.Name == "" && prefix != "" {
		of.Name = prefix + "*"
	}
	return of
}

// String returns the version, the kind and the name.
func (i Identity) String() string {
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	return i.APIVersion + " " + i.Kind + " " + name
}

// A Result is what one part of one rule says about one object.
type Result struct {
	Object Identity        `json:"object"`
	Policy usher.PolicyRef `json:"policy"`
	// Rule is the place of the part in its policy, such as spec.validations[0], and Validation the
	// name that the policy gives it; empty if it has none.
	Rule       string `json:"rule"`
	Validation string `json:"validation,omitempty"`
	Status     Status `json:"status"`
	Message    string `json:"message,omitempty"`
	// Field is the field of the object that the result is about; empty if that is not known.
	Field string `json:"field,omitempty"`
	// Category and Severity are those of the policy; empty if it does not say.
	Category string         `json:"category,omitempty"`
	Severity usher.Severity `json:"severity,omitempty"`
	// Actions are what admission would do.
	Actions []usher.Action `json:"actions,omitempty"`
	// Exemption is the one that applies; nil if none does.
	Exemption *usher.Exemption `json:"exemption,omitempty"`
	// WithoutExemption is the status that there would be without it, and Actions what admission would then do; empty if
	// none applies.
	WithoutExemption Status `json:"withoutExemption,omitempty"`
}

// A Summary counts results: one for each object and rule that is for it, or more if several parts of
// the rule have something to say.
type Summary struct {
	Pass  int `json:"pass"`
	Fail  int `json:"fail"`
	Warn  int `json:"warn"`
	Error int `json:"error"`
	Skip  int `json:"skip"`
}

// Add counts results with a status.
func (s *Summary) Add(status Status, n int) {
	switch status {
	case Pass:
		s.Pass += n
	case Fail:
		s.Fail += n
	case Warn:
		s.Warn += n
	case Error:
		s.Error += n
	case Skip:
		s.Skip += n
	}
}

// Merge adds the counts of another summary.
func (s *Summary) Merge(other Summary) {
	s.Pass += other.Pass
	s.Fail += other.Fail
	s.Warn += other.Warn
	s.Error += other.Error
	s.Skip += other.Skip
}

// Counts are the summaries of policies. That of what is about no policy, such as objects that are not
// audited, has the zero reference.
type Counts map[usher.PolicyRef]Summary

// Add adds the counts of a policy. One without results is left out.
func (c Counts) Add(policy usher.PolicyRef, s Summary) {
	if s != (Summary{}) {
		s.Merge(c[policy])
		c[policy] = s
	}
}

// Total is the sum of all.
func (c Counts) Total() (s Summary) {
	for _, of := range c {
		s.Merge(of)
	}
	return s
}

// A PolicySummary counts the results of a policy.
type PolicySummary struct {
	usher.PolicyRef

	Summary Summary `json:"summary"`
}

// A KindState is how far the audit of a kind has come.
type KindState struct {
	Kind Kind
	// Objects is how many are known, and Backlog how many of them are still to be judged.
	Objects, Backlog int
	// Complete says that all objects have been read and judged by the policies in force.
	Complete bool
	// Heard is when the API server last confirmed that the objects are those of the cluster.
	Heard time.Time
	// Projections is how many different parts of objects are judged, and Bytes what they take. Of
	// Dropped the bytes are not kept, for lack of memory or because they are secret: if their results
	// may change, the kind is read once more.
	Projections int
	Bytes       int64
	Dropped     int
	// Omitted is how many objects are not audited, for lack of memory. Objects does not count them; each
	// is an error in the counts of its namespace.
	Omitted int
	// Err is why the objects cannot be read, since Since; nil while all is well.
	Err   error
	Since time.Time
}

// A Reader has the results of an audit. It is safe for concurrent use.
type Reader interface {
	// Namespaces returns the namespaces of objects that were audited, sorted. Cluster-scoped
	// objects are in the namespace "".
	Namespaces() []string
	// Namespace returns the results about the objects of a namespace that are not passes, in a
	// stable order, and the counts of all.
	Namespace(name string) ([]Result, Counts)
	// Changes returns the namespaces whose results have changed after a version, the version that
	// they have now, and a channel that is closed at the next change. Version 0 is before all.
	Changes(after uint64) (namespaces []string, version uint64, next <-chan struct{})
	// Kinds returns the states of all kinds that policies in force select, sorted. Results of kinds
	// that are not complete are those of before.
	Kinds() []KindState
}

// A KindStatus is a [KindState] for other programs.
type KindStatus struct {
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Kind     string `json:"kind,omitempty"`
	Objects  int    `json:"objects"`
	Backlog  int    `json:"backlog,omitempty"`
	Complete bool   `json:"complete"`
	// Heard and Since are absent if they are not known, and Error if all is well.
	Heard time.Time `json:"heard,omitzero"`
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Status returns the state for other programs.
func (k KindState) Status() KindStatus {
	s := KindStatus{
		Group: k.Kind.Resource.Group, Version: k.Kind.Resource.Version, Resource: k.Kind.Resource.Resource, Kind: k.Kind.Kind,
		Objects: k.Objects, Backlog: k.Backlog, Complete: k.Complete, Heard: k.Heard, Since: k.Since,
	}
	if k.Err != nil {
		s.Error = k.Err.Error()
	}
	return s
}

// String returns the resource, with its group if it has one, and the version.
func (k KindStatus) String() string {
	resource := schema.GroupResource{Group: k.Group, Resource: k.Resource}
	return resource.String() + " (" + k.Version + ")"
}
