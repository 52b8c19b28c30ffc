// Package interpret says what Kyverno answers to a request, and what it makes of its object, by reading its policy: it is
// the second opinion on what policies become when they are imported. It shares the reading of policies and expressions with
// the importer, and nothing of what these mean. Its answers are those that Kyverno's engine gives, on a corpus of policies
// and objects.
package interpret

import (
	"errors"
	"fmt"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A Status is what a rule says about an object.
type Status string

// The statuses. None says that a rule is not for an object.
const (
	None  Status = ""
	Pass  Status = "pass"
	Fail  Status = "fail"
	Skip  Status = "skip"
	Error Status = "error"
)

// A Request is what a policy is asked about. Its values are those of JSON, with int64 and float64 for numbers.
type Request struct {
	Operation         string
	Object, OldObject map[string]any
	Subresource       string
	User              User
	NamespaceLabels   map[string]string
	// Data are objects that exist.
	Data []map[string]any
}

// A User makes a request.
type User struct {
	Name                        string
	Groups, Roles, ClusterRoles []string
}

// subject is the object that a request is about.
func (r *Request) subject() map[string]any {
	if r.Object == nil {
		return r.OldObject
	}
	return r.Object
}

// A Policy is one that can be asked.
type Policy struct {
	of         *syntax.Policy
	exceptions []*syntax.Exception
}

// Of returns a policy with the exceptions from it.
func Of(policy *syntax.Policy, exceptions []*syntax.Exception) *Policy {
	return &Policy{of: policy, exceptions: exceptions}
}

// Answers returns the status of each rule that says something about a request. The error is an [Unread] if the
// policy has something that is not interpreted.
func (p *Policy) Answers(r *Request) (map[string]Status, error) {
	all := map[string]Status{}
	if !p.concerns(r) {
		return all, nil
	}
	rules, err := p.rules(kindOfObject(r.subject()).kind)
	if err != nil {
		return nil, err
	}
	for i := range rules {
		rule := &rules[i]
		if rule.Validate == nil {
			continue
		}
		status, err := p.answer(rule, r)
		if err != nil {
			return nil, err
		}
		if status == None {
			continue
		}
		all[rule.Name] = status
		if p.of.Spec.ApplyRules == "One" && status != Skip && status != Error {
			break
		}
	}
	return all, nil
}

// answer returns what one rule says.
func (p *Policy) answer(rule *syntax.Rule, r *Request) (Status, error) {
	q := asked{request: r, user: r.user(), operation: r.Operation, object: r.subject(), namespace: p.of.Namespace}
	if !q.matches(rule) {
		return None, nil
	}
	if err := readable(rule); err != nil {
		return None, err
	}
	s := newScope(r, &q.user, p.of.Namespace)
	s.entries = rule.Context
	v := validation{policy: p, rule: rule, scope: s, asked: q}
	status, err := v.preconditions(rule.Preconditions)
	if err == nil && status == None && p.excepted(rule, s, q) {
		status = Skip
	}
	if err == nil && status == None {
		status, err = v.root()
	}
	return settled(status, err)
}

// settled returns an error of a rule as its status, unless it says that something is not interpreted.
func settled(status Status, err error) (Status, error) {
	if _, unread := errors.AsType[*Unread](err); unread || errors.Is(err, errPanics) || errors.Is(err, errSteps) {
		return None, err
	}
	if err != nil {
		status = Error
	}
	return status, nil
}

// readable returns an error if a rule has something that is not interpreted.
func readable(rule *syntax.Rule) error {
	v := rule.Validate
	for name, present := range map[string]bool{
		"manifests": v.Manifests != nil, "cel": v.CEL != nil, "assert": v.Assert != nil,
		"imageExtractors": rule.ImageExtractors != nil, "celPreconditions": rule.CELPreconditions != nil,
	} {
		if present {
			return &Unread{fmt.Sprintf("%s of the rule %s", name, rule.Name)}
		}
	}
	return nil
}

// excepted says that an exception is for a rule and a request.
func (p *Policy) excepted(rule *syntax.Rule, s *scope, q asked) bool {
	name := p.of.Name
	if p.of.Namespace != "" {
		name = p.of.Namespace + "/" + name
	}
	for _, e := range p.exceptions {
		named := false
		for _, of := range e.Spec.Exceptions {
			for _, pattern := range of.RuleNames {
				named = named || of.PolicyName == name && wildcard(pattern, rule.Name)
			}
		}
		q.anyOperation, q.namespace = true, ""
		if !named || !q.matches(&syntax.Rule{Match: e.Spec.Match}) {
			continue
		}
		if e.Spec.Conditions == nil {
			return true
		}
		if holds, err := s.conditions(e.Spec.Conditions); err == nil && holds {
			return true
		}
	}
	return false
}
