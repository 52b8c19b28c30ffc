package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
)

// accessFormat is that of authorization policies and their decisions. A document is a suite, or a
// list of suites.
var accessFormat = format{
	recognises: func(h head) bool { return h.has("policies", "cases") },
	load: func(document []byte, file string, named *references) ([]Test, error) {
		suites := []*AccessSuite{{}}
		var err error
		if headOf(document).list {
			err = decodeStrict(document, &suites)
		} else {
			err = decodeStrict(document, suites[0])
		}
		if err != nil {
			return nil, err
		}
		var tests []Test
		for i, suite := range suites {
			suite.file = file
			if err := suite.complete(named); err != nil {
				return nil, fmt.Errorf("set %d (%s): %w", i, suite.Set, err)
			}
			tests = append(tests, suite.tests()...)
		}
		return tests, nil
	},
}

// An AccessSuite is authorization policies, and cases of their decisions.
type AccessSuite struct {
	Set string `json:"set"`
	// Policies are policies, in full or in short, or names of files with policies.
	Policies []json.RawMessage `json:"policies"`
	// ProtectedUsers replace the built-in ones.
	ProtectedUsers []json.RawMessage `json:"protectedUsers,omitempty"`
	Cases          []AccessCase      `json:"cases"`

	file  string
	stage *accessStage
}

// An AccessCase is one request and the expected decision.
type AccessCase struct {
	Name string `json:"name"`
	Note string `json:"note,omitempty"`
	Skip string `json:"skip,omitempty"`
	AccessRequest

	Want string `json:"want"`
	// By is a policy that decides, alone or with others.
	By string `json:"by,omitempty"`
	// WouldDeny expects that a policy would deny the request, but is not enforced.
	WouldDeny *bool `json:"wouldDeny,omitempty"`
	// Error expects that a condition failed.
	Error *bool `json:"error,omitempty"`
	// Reason is a part of the message to the user.
	Reason string `json:"reason,omitempty"`
}

// An AccessRequest is an authorization request in a short form: a SubjectAccessReview without its
// levels.
type AccessRequest struct {
	User   string              `json:"user,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`

	Verb        string `json:"verb,omitempty"`
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	ObjName     string `json:"objname,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	// Path, if it is set, is that of a request that is not for a resource.
	Path *string `json:"path,omitempty"`

	Labels []requirement `json:"labels,omitempty"`
	Fields []requirement `json:"fields,omitempty"`
	// RawLabels and RawFields are selectors that have not been parsed. They demand nothing.
	RawLabels string `json:"rawLabels,omitempty"`
	RawFields string `json:"rawFields,omitempty"`
}

// Request returns the request in the form that is decided.
func (r *AccessRequest) Request() *usher.Request {
	request := &usher.Request{
		UID: "policytest", Phase: usher.Authorize,
		User:   usher.User{Name: r.User, UID: r.UID, Groups: r.Groups, Extra: r.Extra},
		Access: &usher.Access{Verb: r.Verb},
	}
	if r.Path != nil {
		request.Access.Path, request.Access.NonResource = *r.Path, true
		return request
	}
	request.Resource = schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	request.Subresource, request.Name, request.Namespace = r.Subresource, r.ObjName, r.Namespace
	request.Access.Labels, request.Access.Fields = requirements(r.Labels), requirements(r.Fields)
	return request
}

// complete checks the suite and compiles its policies.
func (s *AccessSuite) complete(named *references) error {
	if len(s.Cases) == 0 {
		return errors.New("cases: there is none")
	}
	for i := range s.Cases {
		if err := s.Cases[i].validate(); err != nil {
			return fmt.Errorf("cases[%d] (%s): %w", i, s.Cases[i].Name, err)
		}
	}
	var err error
	s.stage, err = newAccessStage(s, named)
	return err
}

func (c *AccessCase) validate() error {
	switch {
	case c.Name == "":
		return errors.New("name: missing")
	case !slices.Contains([]string{"Allow", "Deny", "NoOpinion"}, c.Want):
		return fmt.Errorf("want: %q is none of Allow, Deny and NoOpinion", c.Want)
	case c.Path == nil && c.Resource == "":
		return errors.New("resource: missing, and so is path")
	case c.Path != nil && c.Resource != "":
		return errors.New("path: a request is for a resource or for a path")
	}
	return nil
}

// name is that of the set, or of the file if it has none.
func (s *AccessSuite) name() string {
	if s.Set != "" {
		return s.Set
	}
	return strings.TrimSuffix(filepath.Base(s.file), filepath.Ext(s.file))
}

func (s *AccessSuite) tests() []Test {
	tests := make([]Test, len(s.Cases))
	for i := range s.Cases {
		c := &s.Cases[i]
		tests[i] = Test{
			Name: s.name() + "/" + c.Name, File: s.file, Skip: c.Skip, suite: s, access: c,
			faults: func(ctx context.Context) []string { return s.stage.faults(ctx, c) },
		}
	}
	return tests
}

// An AccessSetup is what a test of authorization policies runs on, for callers that send the
// request in another way than [Test.Run].
type AccessSetup struct {
	Engine  *engine.Engine
	Request *usher.Request
}

// Access returns the setup of a test of authorization policies; false for other tests.
func (t Test) Access() (AccessSetup, bool) {
	if t.access == nil {
		return AccessSetup{}, false
	}
	return AccessSetup{Engine: t.suite.stage.engine, Request: t.access.Request()}, true
}

// faults are all differences between the decision and the expectation.
func (c *AccessCase) faults(x engine.Explanation, d usher.Decision) []string {
	var faults []string
	if got := verdict(d); got != c.Want {
		faults = append(faults, fmt.Sprintf("expected %s, got %s%s", c.Want, got, told(x)))
	}
	if by := decisive(x.Decision); c.By != "" && !slices.Contains(by, c.By) {
		faults = append(faults, fmt.Sprintf("expected that %s decides, it is [%s]%s", c.By, strings.Join(by, ", "), told(x)))
	}
	wouldDeny, failed := false, false
	for _, f := range x.Decision.Findings {
		wouldDeny = wouldDeny || f.Outcome == usher.WouldDeny
		failed = failed || f.Outcome == usher.Failed
	}
	if c.WouldDeny != nil && *c.WouldDeny != wouldDeny {
		faults = append(faults, fmt.Sprintf("expected wouldDeny: %t, got %t%s", *c.WouldDeny, wouldDeny, told(x)))
	}
	if c.Error != nil && *c.Error != failed {
		faults = append(faults, fmt.Sprintf("expected error: %t, got %t%s", *c.Error, failed, told(x)))
	}
	if !strings.Contains(d.Message, c.Reason) {
		faults = append(faults, fmt.Sprintf("expected a reason with %q, got %q", c.Reason, d.Message))
	}
	return faults
}

func verdict(d usher.Decision) string {
	switch d.Verdict {
	case usher.Allow:
		return "Allow"
	case usher.Deny:
		return "Deny"
	case usher.NoOpinion:
	}
	return "NoOpinion"
}

// decisive are the names of the policies that decide.
func decisive(d usher.Decision) []string {
	var names []string
	for _, f := range d.Findings {
		if !f.Ignored {
			names = append(names, f.Policy.Name)
		}
	}
	return names
}

// told explains a decision in messages.
func told(x engine.Explanation) string {
	var b strings.Builder
	for _, step := range x.Steps {
		fmt.Fprintf(&b, "\n%s: %s", step.Rule, step.Outcome)
		if step.Why != "" {
			b.WriteString(", " + step.Why)
		}
	}
	for _, near := range x.NearMatches {
		fmt.Fprintf(&b, "\nnearly: %s: %s", near.Rule, near.Mismatch)
	}
	if b.Len() == 0 {
		return "; no policy comes near the request"
	}
	return b.String()
}

// A requirement is one clause of a selector, of a policy or of a request.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func requirements(written []requirement) []usher.Requirement {
	var all []usher.Requirement
	for _, r := range written {
		all = append(all, usher.Requirement(r))
	}
	return all
}
