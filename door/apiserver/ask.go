package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
)

// Ask returns a decider of requests to authorize that asks the authorizer of a server: the
// opposite of an [Authorizer]. Its error may come with a verdict.
func Ask(z authorizer.Authorizer) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		decision, reason, err := z.Authorize(ctx, attributesOf(r))
		d := usher.Decision{Message: reason}
		switch decision {
		case authorizer.DecisionAllow:
			d.Verdict = usher.Allow
		case authorizer.DecisionDeny:
			d.Verdict = usher.Deny
		case authorizer.DecisionNoOpinion:
		}
		return d, err
	})
}

// attributesOf is the opposite of access.
func attributesOf(r *usher.Request) authorizer.Attributes {
	who := &user.DefaultInfo{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra}
	if r.Access.NonResource {
		return authorizer.AttributesRecord{User: who, Verb: r.Access.Verb, Path: r.Access.Path}
	}
	a := authorizer.AttributesRecord{
		User: who, Verb: r.Access.Verb, ResourceRequest: true,
		APIGroup: r.Resource.Group, APIVersion: r.Resource.Version, Resource: r.Resource.Resource,
		Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
	for _, clause := range r.Access.Labels {
		requirement, err := labels.NewRequirement(clause.Key, labelOperators[clause.Operator], clause.Values)
		if err != nil {
			// Without a clause the request is for more than it is.
			a.LabelSelectorParsingErr = err
			continue
		}
		a.LabelSelectorRequirements = append(a.LabelSelectorRequirements, *requirement)
	}
	for _, clause := range r.Access.Fields {
		for _, value := range clause.Values {
			a.FieldSelectorRequirements = append(a.FieldSelectorRequirements, fields.Requirement{
				Field: clause.Key, Operator: fieldOperators[clause.Operator], Value: value,
			})
		}
	}
	return a
}

// The operators of a SubjectAccessReview, as authorizers know them. Field selectors have a value
// a clause.
var (
	labelOperators = map[string]selection.Operator{
		"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
	}
	fieldOperators = map[string]selection.Operator{"In": selection.Equals, "NotIn": selection.NotEquals}
)
