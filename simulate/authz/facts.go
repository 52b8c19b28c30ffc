package authz

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

// Facts returns a resolver that answers questions of access by the RBAC objects among trees, as an
// API server with the authorization mode RBAC does.
func Facts(trees []map[string]any) (fact.Resolver, error) {
	objects, err := FromTrees(trees)
	if err != nil {
		return nil, err
	}
	rbac, _ := NewRBAC(objects)
	chain := Chain{{Name: "system:masters", Authorizer: Privileged()}, {Name: "rbac", Authorizer: rbac}}
	return fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
		r, err := RequestOf(ref)
		if err != nil {
			return nil, err
		}
		if objects.Empty() {
			return nil, errors.New("no roles and bindings are known: add them to the facts")
		}
		answer := chain.Authorize(ctx, r)
		switch answer.Verdict {
		case usher.Allow:
			return fact.AccessValue(fact.AccessAllow, answer.Reason), answer.Err
		case usher.Deny:
			return fact.AccessValue(fact.AccessDeny, answer.Reason), answer.Err
		case usher.NoOpinion:
		}
		return fact.AccessValue(fact.AccessNoOpinion, answer.Reason), answer.Err
	}), nil
}

// RequestOf returns the request to authorize that a fact is the answer to.
func RequestOf(ref fact.Ref) (*usher.Request, error) {
	a := ref.Access
	if a == nil {
		return nil, fmt.Errorf("resolve %s: it is not a question of access", ref)
	}
	return &usher.Request{
		Phase:       usher.Authorize,
		User:        usher.User{Name: a.User, UID: a.UID, Groups: a.Groups, Extra: a.Extra},
		Resource:    schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource},
		Subresource: a.Subresource, Name: a.Name, Namespace: a.Namespace,
		Access: &usher.Access{
			Verb: a.Verb, Path: a.Path, NonResource: a.NonResource, Fields: requirementsOf(a.Fields), Labels: requirementsOf(a.Labels),
		},
	}, nil
}

func requirementsOf(all []fact.Requirement) []usher.Requirement {
	var requirements []usher.Requirement
	for _, r := range all {
		requirements = append(requirements, usher.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return requirements
}
