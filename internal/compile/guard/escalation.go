package guard

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// questions limits the authorization requests for one policy. A policy that allows more needs the
// verb escalate.
const questions = 200

// accessRights returns the rights that the writer of an authorization policy needs.
//
// A cluster policy needs the verb use on the tier, and an Allow that the writer may do
// everything that it allows, whatever its subjects and conditions, or the verb escalate on the
// policy.
func accessRights(user usher.User, c compile.Compiled) Rights {
	policy := c.Access[0].Policy
	var rights Rights
	if c.Ref.Namespace == "" {
		rights = Rights{useTier(user, policy.Tier)}
	}
	if policy.Effect != authz.Allow {
		return rights
	}
	escalate := ask(user, "escalate", strings.ToLower(strings.TrimSuffix(c.Ref.Kind, "Policy")+"policies"))
	escalate.Name, escalate.Namespace = c.Ref.Name, c.Ref.Namespace
	const help = "nor escalate on the policy"
	var covers Rights
	for _, r := range c.Access {
		for _, request := range requests(user, r) {
			if len(covers) == questions {
				return append(rights, Right{What: "a policy that allows too many different things to ask about each needs", Ask: escalate})
			}
			covers = append(covers, Right{What: r.Name + ": to allow something needs", Ask: request, Or: escalate, Help: help})
		}
	}
	return append(rights, covers...)
}

// useTier returns the right to write policies of a tier, or to remove its denials.
func useTier(user usher.User, tier authz.Tier) Right {
	use := ask(user, "use", "authorizationtiers")
	use.Name = tier.String()
	return Right{What: "the tier " + use.Name + " needs", Ask: use}
}

func ask(user usher.User, verb, resource string) *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: user,
		Resource: schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: "*", Resource: resource},
		Access:   &usher.Access{Verb: verb},
	}
}

// requests returns the requests that a user must be allowed to have everything that a rule allows.
// A pattern counts as everything, because only that certainly covers it.
func requests(user usher.User, r *authz.Rule) []*usher.Request {
	var all []*usher.Request
	for _, verb := range values(&r.Verbs, "*") {
		if r.URLs != nil {
			for _, path := range values(r.URLs, "*") {
				all = append(all, &usher.Request{
					Phase: usher.Authorize, User: user, Access: &usher.Access{Verb: verb, Path: path, NonResource: true},
				})
			}
			continue
		}
		for _, group := range values(&r.Groups, "*") {
			for i := range r.Resources {
				all = append(all, objects(user, r, verb, group, &r.Resources[i])...)
			}
		}
		if len(all) > questions {
			break
		}
	}
	return all
}

func objects(user usher.User, r *authz.Rule, verb, group string, resource *authz.Resource) []*usher.Request {
	var all []*usher.Request
	namespaces := values(&r.Namespaces, "")
	if r.Own != "" {
		namespaces = []string{r.Own}
	}
	name := resource.Name
	if resource.Every {
		name = "*"
	}
	for _, namespace := range namespaces {
		for _, object := range values(&r.Names, "") {
			all = append(all, &usher.Request{
				Phase: usher.Authorize, User: user, Namespace: namespace, Name: object,
				Resource:    schema.GroupVersionResource{Group: group, Version: "*", Resource: name},
				Subresource: resource.Subresource,
				Access:      &usher.Access{Verb: verb},
			})
		}
	}
	return all
}

// values returns the values of a set, or the word for everything.
func values(s *authz.Set, everything string) []string {
	if s.Any {
		return []string{everything}
	}
	var all []string
	for i := range s.Patterns {
		if p := &s.Patterns[i]; p.Star || p.Template != nil {
			return []string{everything}
		}
		all = append(all, s.Patterns[i].Prefix)
	}
	return all
}
