package guard

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/rule/authz"
)

// questions bounds how much is asked about one policy. One that allows more different things
// needs the verb escalate.
const questions = 200

// escalation says why the writer of a policy may not write it; empty if he may.
//
// A cluster policy needs the verb use on the tier, and an Allow that the writer may do
// himself all that it allows, whoever it is for and whatever its conditions, or the verb
// escalate on the policy.
func (g *guard) escalation(ctx context.Context, r *usher.Request, c compile.Compiled) string {
	if g.options.May == nil || r.User.Name == "" {
		return ""
	}
	policy := c.Access[0].Policy
	if c.Ref.Namespace == "" {
		use := ask(r.User, "use", "authorizationtiers")
		use.Name = policy.Tier.String()
		if why := g.must(ctx, use, "the tier "+use.Name+" needs"); why != "" {
			return why
		}
	}
	if policy.Effect != authz.Allow {
		return ""
	}
	escalate := ask(r.User, "escalate", strings.ToLower(strings.TrimSuffix(c.Ref.Kind, "Policy")+"policies"))
	escalate.Name, escalate.Namespace = c.Ref.Name, c.Ref.Namespace
	if may, err := g.options.May(ctx, escalate); err == nil && may {
		return ""
	}
	return g.covers(ctx, r.User, c.Access)
}

func ask(user usher.User, verb, resource string) *usher.Request {
	return &usher.Request{
		Phase: usher.Authorize, User: user,
		Resource: schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: "*", Resource: resource},
		Access:   &usher.Access{Verb: verb},
	}
}

func (g *guard) must(ctx context.Context, r *usher.Request, what string) string {
	may, err := g.options.May(ctx, r)
	switch {
	case err != nil:
		return fmt.Sprintf("%s leave to %s, which cannot be asked for now: %v", what, asked(r), err)
	case !may:
		return fmt.Sprintf("%s leave to %s, which %s does not have", what, asked(r), r.User.Name)
	}
	return ""
}

// covers says what rules allow that the user may not do.
func (g *guard) covers(ctx context.Context, user usher.User, rules []*authz.Rule) string {
	count := 0
	for _, r := range rules {
		for _, request := range requests(user, r) {
			if count++; count > questions {
				return "it allows too many different things to ask about each: the verb escalate on the policy is needed"
			}
			if why := g.must(ctx, request, r.Name+": to allow something needs"); why != "" {
				return why + " (nor escalate on the policy)"
			}
		}
	}
	return ""
}

// requests are what one has to be allowed to be allowed everything that a rule is for.
// Patterns count as everything, for that alone covers them for certain.
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

// values are those of a set, or the word for everything.
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
