package policytest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	usher "github.com/usher-dev/usher"
)

// An AccessStub is what the authorizers of the cluster say of requests. Fields of the request
// that are not set fit every request; of groups and extra the request must have those that are.
type AccessStub struct {
	AccessRequest

	// Decision is allow, deny or noOpinion.
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	// Error is that of an authorizer, which may come with any decision.
	Error string `json:"error,omitempty"`
}

// errNoAccess is the answer where a case says nothing about access.
var errNoAccess = errors.New("nothing says who may do what: give the case answers under access, or run it with usher test and give it roles and bindings")

// authorizer returns what knows what users may do: the first stub that fits, and without stubs what
// reads the roles among the objects. What none fits is not allowed.
func (c *Case) authorizer() (usher.Decider, error) {
	switch {
	case len(c.Access) == 0 && c.Roles != nil:
		roles, err := c.Roles(c.Objects)
		if err != nil {
			return nil, fmt.Errorf("read roles and bindings: %w", err)
		}
		return roles, nil
	case len(c.Access) == 0:
		return usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Decision{}, errNoAccess }), nil
	}
	return usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		for i := range c.Access {
			if c.Access[i].fits(r) {
				return c.Access[i].answer()
			}
		}
		return usher.Decision{}, nil
	}), nil
}

func (s *AccessStub) answer() (usher.Decision, error) {
	verdict, err := s.verdict()
	if err == nil && s.Error != "" {
		err = errors.New(s.Error)
	}
	return usher.Decision{Verdict: verdict, Message: s.Reason}, err
}

func (s *AccessStub) verdict() (usher.Verdict, error) {
	switch s.Decision {
	case "allow":
		return usher.Allow, nil
	case "deny":
		return usher.Deny, nil
	case "noOpinion":
		return usher.NoOpinion, nil
	}
	return "", fmt.Errorf("decision: %q is none of allow, deny and noOpinion", s.Decision)
}

// fits reports whether the stub answers a request.
func (s *AccessStub) fits(r *usher.Request) bool {
	if s.Path != nil {
		return r.Access.NonResource && r.Access.Path == *s.Path && s.fitsUser(&r.User) && fits(s.Verb, r.Access.Verb)
	}
	labels, fields := requirements(s.Labels), requirements(s.Fields)
	return (!r.Access.NonResource || s.Resource == "") && s.fitsUser(&r.User) && fits(s.Verb, r.Access.Verb) &&
		fits(s.Group, r.Resource.Group) && fits(s.Version, r.Resource.Version) && fits(s.Resource, r.Resource.Resource) &&
		fits(s.Subresource, r.Subresource) && fits(s.Namespace, r.Namespace) && fits(s.ObjName, r.Name) &&
		(labels == nil || reflect.DeepEqual(labels, r.Access.Labels)) && (fields == nil || reflect.DeepEqual(fields, r.Access.Fields))
}

func (s *AccessStub) fitsUser(u *usher.User) bool {
	for name, values := range s.Extra {
		if !slices.Equal(values, u.Extra[name]) {
			return false
		}
	}
	return fits(s.User, u.Name) && fits(s.UID, u.UID) &&
		!slices.ContainsFunc(s.Groups, func(group string) bool { return !slices.Contains(u.Groups, group) })
}

// fits reports whether a text is the expected one, if one is.
func fits(expected, text string) bool { return expected == "" || expected == text }
