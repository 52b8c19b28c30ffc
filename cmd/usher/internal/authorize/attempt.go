package authorize

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/fact/object"
	simulate "github.com/usher-dev/usher/internal/simulate/authz"
)

// An Attempt is what usher authz can-i reads, as texts.
type Attempt struct {
	Policies []api.Policy
	// Facts are roles and bindings, among other objects.
	Facts string
	// Spec is that of a SubjectAccessReview.
	Spec string
}

// An Answer is what usher authz can-i says about an [Attempt].
type Answer struct {
	Verdict, Reason string
	Steps           []Step
	// Text is what it prints with --explain.
	Text     string
	Warnings []string
}

// A Step is the part that a rule of a policy has in an answer.
type Step struct {
	Policy, Rule, Outcome, Why string
	// Nearly says that the rule does not match.
	Nearly     bool
	Conditions []string
}

// Try answers an attempt.
func Try(ctx context.Context, a *Attempt) (*Answer, error) {
	r, err := requestOf(a.Spec)
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	trees, err := object.Decode([]byte(a.Facts))
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	roles, err := simulate.FromTrees(trees)
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	w := &World{}
	w.enforce(a.Policies)
	var warnings []string
	w.RBAC, warnings = simulate.NewRBAC(roles)
	report, err := w.Explain(ctx, r)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := report.print(&text, cli.Palette{}, true); err != nil {
		return nil, err
	}
	answer := &Answer{Verdict: report.Verdict, Reason: report.Reason, Text: text.String(), Warnings: append(w.warnings, warnings...)}
	for _, stage := range report.Stages {
		for _, one := range stage.Rules {
			answer.Steps = append(answer.Steps, Step{Policy: one.Policy, Rule: one.Rule, Outcome: one.Outcome, Why: one.Why, Conditions: one.Conditions})
		}
		for _, one := range stage.NearMatches {
			answer.Steps = append(answer.Steps, Step{Policy: one.Policy, Rule: one.Rule, Outcome: "no match", Why: one.Why, Nearly: true})
		}
	}
	return answer, nil
}

// requestOf returns the request of a spec, as API servers ask it.
func requestOf(text string) (*usher.Request, error) {
	var spec authorizationv1.SubjectAccessReviewSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("decode spec: %w", err)
	}
	u := usher.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	r := &usher.Request{Phase: usher.Authorize, User: user.Complete(u), Access: &usher.Access{}}
	switch resource, path := spec.ResourceAttributes, spec.NonResourceAttributes; {
	case (resource == nil) == (path == nil):
		return nil, errors.New("expected one of resourceAttributes and nonResourceAttributes")
	case path != nil:
		r.Access.Verb, r.Access.Path, r.Access.NonResource = path.Verb, path.Path, true
	default:
		r.Access.Verb = resource.Verb
		r.Resource = schema.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Resource}
		r.Subresource, r.Namespace, r.Name = resource.Subresource, resource.Namespace, resource.Name
		if s := resource.LabelSelector; s != nil {
			for _, clause := range s.Requirements {
				r.Access.Labels = append(r.Access.Labels, usher.Requirement{Key: clause.Key, Operator: string(clause.Operator), Values: clause.Values})
			}
		}
		if s := resource.FieldSelector; s != nil {
			r.Access.Fields = fieldsOf(s.Requirements)
		}
	}
	if r.Access.Verb == "" {
		return nil, errors.New("verb is missing")
	}
	return r, nil
}

func fieldsOf(clauses []metav1.FieldSelectorRequirement) []usher.Requirement {
	var all []usher.Requirement
	for _, clause := range clauses {
		all = append(all, usher.Requirement{Key: clause.Key, Operator: string(clause.Operator), Values: clause.Values})
	}
	return all
}
