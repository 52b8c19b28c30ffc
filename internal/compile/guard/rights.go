package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// An Asker answers whether a user may do what a request to authorize asks for, as a
// SubjectAccessReview does.
type Asker func(context.Context, *usher.Request) (bool, error)

// A Place is a resource, or a subresource of it, through which objects of a kind are written.
// Each part may be "*".
type Place struct {
	schema.GroupResource

	Subresource string
	// Verbs are the verbs that write objects there.
	Verbs []string
}

// Places returns where objects of a kind are written; nothing if the cluster does not have the
// kind. An error means that this is unknown for now.
type Places func(context.Context, schema.GroupVersionKind) ([]Place, error)

// Rights are what the writer of a policy needs: every one of them.
type Rights []Right

// A Right is one request that a writer must be allowed.
type Right struct {
	// What names what needs the right, such as "the tier platform needs".
	What string
	// Ask is the request that must be allowed.
	Ask *usher.Request
	// Or, if it is set and allowed, makes Ask unnecessary.
	Or *usher.Request
	// Help says who else could write the policy, or how.
	Help string
	// Instead, if it is set, is said in place of the right that is missing: nobody who has it could do more.
	Instead string
}

// RightsOf returns the rights that a user needs to write a policy that compiles; none for policies
// whose kind needs no rights. It depends only on its arguments, and calls only places.
//
// An authorization policy needs the verb use on its tier if it is for the cluster, and an Allow
// everything that it allows, or escalate on the policy. A policy of a namespace needs create and
// update in its namespace on all that it acts on, and get or list on all that it reads. An exemption
// needs [VerbExempt] on the policies that it names. A candidate needs what its policies need, and the
// right to write them. What is suspended needs nothing until it no longer
// is.
func RightsOf(ctx context.Context, user usher.User, c compile.Compiled, places Places) (Rights, error) {
	if api.Suspended(c.Policy.Object) {
		return nil, nil
	}
	if c.Candidate != nil {
		return candidateRights(ctx, user, c, places)
	}
	if spec := exemption(c.Policy.Object); spec != nil {
		return exemptRights(user, c.Ref.Namespace, spec.PolicyRefs), nil
	}
	switch {
	case len(c.Access) > 0:
		return accessRights(user, c), nil
	case c.Ref.Namespace != "":
		return namespacedRights(ctx, user, c, places)
	}
	return nil, nil
}

// Missing checks the rights in order. If some are missing, it returns why the policy may not be
// written, for all verbs on the first thing; otherwise the empty text. An error means that this is not
// known, because a question was not answered.
func (rs Rights) Missing(ctx context.Context, may Asker) (why string, err error) {
	var last *usher.Request
	var instead bool
	var unknown error
	var lacking *Right
	var verbs []string
	for i := range rs {
		right := &rs[i]
		if lacking != nil && !lacking.sameThing(right) {
			break
		}
		if right.Or != nil && right.Or != last {
			last = right.Or
			instead, unknown = check(ctx, may, right.Or)
		}
		if right.Or != nil && instead {
			continue
		}
		allowed, err := check(ctx, may, right.Ask)
		switch {
		case err != nil && lacking == nil:
			return "", err
		case err != nil || allowed:
		case right.Or != nil && unknown != nil:
			return "", unknown
		default:
			lacking = right
			verbs = append(verbs, right.Ask.Access.Verb)
		}
	}
	if lacking == nil {
		return "", nil
	}
	return lacking.lacks(verbs), nil
}

// sameThing reports whether two rights differ only in their verbs.
func (r *Right) sameThing(other *Right) bool {
	return r.What == other.What && r.Help == other.Help && target(r.Ask) == target(other.Ask)
}

// check asks one question. Its error is a sentence for the writer.
func check(ctx context.Context, may Asker, r *usher.Request) (bool, error) {
	allowed, err := may(ctx, r)
	if err != nil {
		return false, fmt.Errorf("could not check whether %s may %s: %w, try again", r.User.Name, asked(r), err)
	}
	return allowed, nil
}

// lacks returns why a user who may not do what the verbs say may not write the policy.
func (r *Right) lacks(verbs []string) string {
	if r.Instead != "" {
		return r.Instead
	}
	why := fmt.Sprintf("%s permission to %s%s, which %s does not have", r.What, printable.List(verbs, "and"), target(r.Ask), r.Ask.User.Name)
	if r.Help != "" {
		why += " (" + r.Help + ")"
	}
	return why
}

// everything returns the places that cover all kinds, including unknown ones.
func everything() []Place {
	return []Place{{GroupResource: schema.GroupResource{Group: "*", Resource: "*"}, Verbs: []string{"create", "update"}}}
}

// namespacedRights returns what the writer of a policy of a namespace needs: the rights for the
// actions of the policy on the objects of others.
func namespacedRights(ctx context.Context, user usher.User, c compile.Compiled, places Places) (Rights, error) {
	a := &asking{user: user, namespace: c.Ref.Namespace, places: places, seen: map[question]bool{}}
	coverage := rule.Cover(slices.DeleteFunc(slices.Clone(c.Rules), func(r rule.Rule) bool { return r.Pod != nil }))
	for _, covered := range slices.Concat(coverage.Mutate, coverage.Validate) {
		if err := a.acts(ctx, covered); err != nil {
			return nil, err
		}
	}
	for _, endpoints := range slices.Concat(coverage.MutateResources, coverage.MutateReinvoked, coverage.ValidateResources) {
		a.actsAt(&endpoints.ResourceRule, "name the resources in spec.matchConstraints, or have somebody write the policy who has these rights in the namespace")
	}
	for i := range c.Rules {
		if pod := c.Rules[i].Pod; pod != nil && !pod.Warns {
			// Anyone who may write a policy for pods may warn of those of workloads.
			for _, endpoints := range rule.OfWorkloads(nil).Rules {
				// Those of namespaces do not act on PodTemplates.
				endpoints.Resources = slices.DeleteFunc(slices.Clone(endpoints.Resources), func(resource string) bool { return resource == "podtemplates" })
				a.actsAt(&endpoints, "set spec.podTemplates to Warn, or have somebody write the policy who has these rights in the namespace")
			}
		}
	}
	for i := range c.Rules {
		if c.Rules[i].Facts == nil {
			continue
		}
		for _, read := range c.Rules[i].Facts.Reads {
			if err := a.reads(ctx, read); err != nil {
				return nil, err
			}
		}
	}
	return a.rights, nil
}

// An asking collects the rights that the writer of a policy of a namespace needs, each once.
type asking struct {
	user      usher.User
	namespace string
	places    Places
	rights    Rights
	seen      map[question]bool
}

// A question identifies a right.
type question struct{ verb, group, resource, subresource, name string }

func (a *asking) acts(ctx context.Context, c rule.Covered) error {
	what, found := "a policy that acts on every kind needs", everything()
	help := "name the kinds in spec.resourceSelectors, or have somebody write the policy who has these rights"
	if c.Kind != "" {
		var err error
		if found, err = a.find(ctx, c.APIVersion, c.Kind); err != nil {
			return err
		}
		help = "have somebody write the policy who has these rights in the namespace"
		what = fmt.Sprintf("a policy that acts on %s %s needs", c.APIVersion, c.Kind)
		if found == nil {
			found = everything()
			what = fmt.Sprintf("a policy that acts on %s %s, which the cluster does not have, needs", c.APIVersion, c.Kind)
			help = "create the kind first, or have somebody write the policy who has these rights"
		}
	}
	for _, p := range found {
		for _, verb := range p.Verbs {
			a.add(what, help, p, verb, "")
		}
	}
	return nil
}

// actsAt adds the rights for what a policy decides at endpoints: those of the operations. help says
// what to do without them.
func (a *asking) actsAt(r *rule.ResourceRule, help string) {
	verbs := map[usher.Operation]string{usher.Create: "create", usher.Update: "update", usher.Delete: "delete", usher.Connect: "create"}
	operations := r.Operations
	if len(operations) == 0 {
		operations = []usher.Operation{usher.Create, usher.Update, usher.Delete}
	}
	for _, group := range r.Groups {
		for _, resource := range r.Resources {
			name, subresource, _ := strings.Cut(resource, "/")
			if authz.Lacks(group, name) && slices.ContainsFunc(r.Groups, func(other string) bool { return !authz.Lacks(other, name) }) {
				// The rule is for the resource of another of its groups.
				continue
			}
			p := Place{GroupResource: schema.GroupResource{Group: group, Resource: name}, Subresource: subresource}
			before, help := len(a.rights), help
			if group != "*" && name != "*" && authz.ScopeOf(group, name) == authz.ScopeUnknown {
				help = "if its objects are in no namespace, no right helps: a policy of a namespace never sees these, a ClusterObjectPolicy does; otherwise " + help
			}
			for _, operation := range operations {
				a.add(fmt.Sprintf("a policy that acts on %s needs", nameOf(p)), help, p, verbs[operation], "")
			}
			if instead := a.instead(p); instead != "" {
				for i := range a.rights[before:] {
					a.rights[before+i].Instead = instead
				}
			}
		}
	}
}

// instead returns why no right would help to act on a place; empty if one would.
func (a *asking) instead(p Place) string {
	switch {
	case authz.ScopeOf(p.Group, p.Resource) == authz.ScopeCluster:
		return fmt.Sprintf("it is only for objects of the namespace %s, and %s are in none: remove them from spec.matchConstraints, a ClusterObjectPolicy is for them", a.namespace, nameOf(p))
	case authz.Lacks(p.Group, p.Resource):
		why := fmt.Sprintf("no such resource: the API group %q has no %s", p.Group, p.Resource)
		groups := authz.GroupsOf(p.Resource)
		if len(groups) == 0 {
			return why + ": correct spec.matchConstraints"
		}
		return fmt.Sprintf("%s: write apiGroups: [%q] in spec.matchConstraints", why, groups[0])
	}
	return ""
}

// nameOf is a place as messages name it.
func nameOf(p Place) string {
	if p.Subresource == "" {
		return p.GroupResource.String()
	}
	return p.GroupResource.String() + "/" + p.Subresource
}

func (a *asking) reads(ctx context.Context, r fact.Read) error {
	found, err := a.find(ctx, r.APIVersion, r.Kind)
	if err != nil {
		return err
	}
	if found == nil {
		found = everything()
	}
	verb := "get"
	if r.Lists {
		verb = "list"
	}
	for _, p := range found {
		a.add(fmt.Sprintf("a policy that reads %s %s needs", r.APIVersion, r.Kind),
			"have somebody write the policy who has these rights in the namespace", p, verb, r.Name)
	}
	return nil
}

// find returns where objects of a kind are written. Subresources that carry whole objects, such
// as the ephemeral containers of pods, are part of the resource.
func (a *asking) find(ctx context.Context, apiVersion, kind string) ([]Place, error) {
	if a.places == nil {
		return nil, nil
	}
	found, err := a.places(ctx, schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s %s: %w", apiVersion, kind, err)
	}
	whole := slices.DeleteFunc(slices.Clone(found), func(p Place) bool { return p.Subresource != "" })
	if len(whole) == 0 {
		return found, nil
	}
	for i := range whole {
		whole[i].Verbs = []string{"create", "update"}
	}
	return whole, nil
}

func (a *asking) add(what, help string, p Place, verb, name string) {
	q := question{verb, p.Group, p.Resource, p.Subresource, name}
	if a.seen[q] {
		return
	}
	a.seen[q] = true
	a.rights = append(a.rights, Right{What: what, Help: help, Ask: &usher.Request{
		Phase: usher.Authorize, User: a.user, Namespace: a.namespace, Name: name,
		Resource:    schema.GroupVersionResource{Group: p.Group, Version: "*", Resource: p.Resource},
		Subresource: p.Subresource,
		Access:      &usher.Access{Verb: verb},
	}})
}
