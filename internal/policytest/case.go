// Package policytest runs test cases for policies: given these policies, objects and
// HTTP services, this request is answered like that. docs/test-format.md describes the
// files; `usher test` runs them, and so does a Go test:
//
//	func TestPolicies(t *testing.T) { policytest.Run(t, "testdata/cases") }
//
// A case is decided by the same compiler, index, engine and policy admission as a
// request of an API server; only the cluster and the network are made up.
package policytest

import (
	"encoding/json"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// A Case is one test: one request and the answer it must get.
type Case struct {
	Name        string `json:"name"`
	Class       string `json:"class,omitempty"`
	Topic       string `json:"topic,omitempty"`
	Description string `json:"description,omitempty"`
	Note        string `json:"note,omitempty"`
	// Skip, if set, is why the case is not run.
	Skip string `json:"skip,omitempty"`

	Phase usher.Phase `json:"phase"`
	// Policies are the stored policies; PolicyFiles are files with more of them, relative to the
	// case's own file. Load reads the files.
	Policies    []map[string]any `json:"policies,omitempty"`
	PolicyFiles []string         `json:"policyFiles,omitempty"`
	// RenderPolicies false stores the policies as written; otherwise each passes through
	// policy admission first.
	RenderPolicies *bool `json:"renderPolicies,omitempty"`
	Settings
	World

	Request Request `json:"request"`
	Answers[Expect]

	// File is where the case was loaded from.
	File string `json:"-"`

	// files are the names in PolicyFiles of the policies from there, which are the last ones.
	files []string
	// memo has the policies of the cases that were loaded with it.
	memo *memo
	// timeout is how long each of its rules and policies may take; 0 is none.
	timeout time.Duration
	// Limits say what policies may do, as the operator of the cluster decides.
	Limits rule.Limits `json:"-"`
	// Roles returns what answers about access by the roles and bindings among objects, for cases
	// without Access; nil if nothing does.
	Roles func(objects []map[string]any) (usher.Decider, error) `json:"-"`
}

// A World is what is there besides the policies and the request of a case.
type World struct {
	// Objects exist in the cluster, for references to owners and other objects.
	Objects []map[string]any `json:"objects,omitempty"`
	HTTP    []Stub           `json:"http,omitempty"`
	// Access are answers about what users may do, for policies that ask.
	Access []AccessStub `json:"access,omitempty"`
	// Now is when the request is decided, by which exemptions are expired or not; nil is the time of
	// the test.
	Now *time.Time `json:"now,omitempty"`
}

// An Expect is the expected response: fields that are not set are not compared.
type Expect struct {
	Allowed *bool `json:"allowed,omitempty"`
	// Code is the HTTP status in the response's status: 200 when allowed.
	Code            *int32  `json:"code,omitempty"`
	MessageEquals   *string `json:"messageEquals,omitempty"`
	MessageContains string  `json:"messageContains,omitempty"`
	ReasonContains  string  `json:"reasonContains,omitempty"`
	// Warnings are all warnings, in any order; an empty list means that there are none.
	Warnings []string `json:"warnings,omitempty"`
	// Causes are the validations that deny the request, in order, as FIELD: MESSAGE; without a field,
	// as MESSAGE. An empty list means that there are none.
	Causes []string `json:"causes,omitempty"`
	// AuditAnnotations are annotations for the audit log; null means that there is none with the key.
	AuditAnnotations map[string]*string `json:"auditAnnotations,omitempty"`
	// Unchanged means that there is no patch.
	Unchanged bool `json:"unchanged,omitempty"`
	// NoMatch means that no rule of a policy is for the request.
	NoMatch bool `json:"noMatch,omitempty"`
	// PatchedObject is the whole object with the patch applied, Fields are some of its fields.
	PatchedObject map[string]any `json:"patchedObject,omitempty"`
	Fields        []Field        `json:"fields,omitempty"`
	// Panics records that another implementation crashes; Usher has to answer, and any
	// answer will do.
	Panics bool `json:"panics,omitempty"`
}

// A Field is the expected value at one path of the patched object. Exactly one of the fields other
// than Path is set.
type Field struct {
	// Path is a JSON pointer.
	Path string `json:"path"`
	// Value is the exact JSON value; null means present with null.
	Value    json.RawMessage `json:"value,omitempty"`
	Absent   bool            `json:"absent,omitempty"`
	NonEmpty bool            `json:"nonEmpty,omitempty"`
	// Matches is a regular expression that the string at Path has to match somewhere.
	Matches string `json:"matches,omitempty"`
}

// Answers are the expectations of a case, in the terms of E.
type Answers[E any] struct {
	Expect *E `json:"expect,omitempty"`
	// BetterExpect, if set, is compared instead of Expect, which then records what another
	// implementation does.
	BetterExpect *E `json:"betterExpect,omitempty"`
}

// Expected returns the expectation to compare, nil without any.
func (a *Answers[E]) Expected() *E {
	if a.BetterExpect != nil {
		return a.BetterExpect
	}
	return a.Expect
}

// saysNothing reports whether every answer meets e.
func (e *Expect) saysNothing() bool {
	return e.Allowed == nil && e.Code == nil && e.MessageEquals == nil && e.MessageContains == "" &&
		e.ReasonContains == "" && e.Warnings == nil && e.Causes == nil && len(e.AuditAnnotations) == 0 && !e.Unchanged && !e.NoMatch && !e.expectsEffect() && !e.Panics
}

// recorded reports whether the case records the behaviour of another implementation: its class says
// how much that matters.
func (c *Case) recorded() bool { return c.Class != "" }

// expectsEffect reports whether e describes a change of the object, which requires a policy with an
// effect.
func (e *Expect) expectsEffect() bool {
	return !e.Unchanged && (e.PatchedObject != nil || len(e.Fields) > 0)
}

// With returns the case with these policies: each replaces one with its name. A case without policies gets all of them.
// It returns false if the case has none with such a name.
func (c *Case) With(policies []map[string]any) (*Case, bool) {
	changed := *c
	changed.Policies, changed.PolicyFiles, changed.files, changed.memo = slices.Clone(c.Policies), nil, nil, newMemo()
	if len(c.Policies) == 0 {
		changed.Policies = policies
		return &changed, true
	}
	replaced := false
	for i, old := range changed.Policies {
		for _, policy := range policies {
			if identity(old) == identity(policy) {
				changed.Policies[i], replaced = policy, true
			}
		}
	}
	return &changed, replaced
}

// identity is the kind, the namespace and the name of a policy.
func identity(policy map[string]any) [3]string {
	metadata, _ := policy["metadata"].(map[string]any)
	var of [3]string
	of[0], _ = policy["kind"].(string)
	of[1], _ = metadata["namespace"].(string)
	of[2], _ = metadata["name"].(string)
	return of
}
