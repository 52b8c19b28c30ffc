package trial

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/rule"
)

// Types checks the resources and the types of the expressions of a policy that is broken elsewhere, such that its
// author need not correct that first.
func (t *Trial) Types(ctx context.Context, c compile.Compiled) (result Report) {
	defer result.catch()
	typed := c.Typed()
	if typed == nil {
		return result
	}
	set := t.find(ctx, &c, nil)
	wrong, _ := resourceProblems(set, constraints(&c))
	problems, _ := t.typeProblems(ctx, set, typed, len(wrong) > 0)
	result.Problems = append(wrong, problems...)
	for i := range result.Problems {
		result.Problems[i] = c.Place(result.Problems[i])
	}
	return result
}

// typeProblems returns what is wrong with the types in the expressions of an admission policy.
// Partial says that some of the resources that it is for are not known.
func (t *Trial) typeProblems(ctx context.Context, set *kind.Set, p compile.Typed, partial bool) ([]rule.Problem, []string) {
	targets, unknown := targetsOf(set, p.Matches())
	policy := &typecheck.Policy{
		Expressions: p.Expressions(), Params: p.Params(), Targets: targets, Data: p.Data(),
		Partial: partial || len(unknown) > 0 || !set.Complete && matchesAny(set, p.Matches()),
	}
	skipped := unknownSchemas(unknown)
	if of := p.Params(); !of.Empty() && set.Schema(of) == nil {
		skipped = append(skipped, fmt.Sprintf("params of kind %s in %s: their schema is not known", of.Kind, of.GroupVersion()))
	}
	for _, d := range p.Data() {
		if _, unknown := unknownKind(set, d.Kind); !unknown && set.Schema(d.Kind) == nil {
			skipped = append(skipped, fmt.Sprintf("data.%s of kind %s in %s: its schema is not known", d.Name, d.Kind.Kind, d.Kind.GroupVersion()))
		}
	}
	problems, err := t.types.Check(ctx, set, policy)
	if err != nil {
		skipped = append(skipped, fmt.Sprintf("the types of expressions: %v", err))
	}
	return problems, skipped
}

// mostUnknown limits the resources that are named because their schema is not known.
const mostUnknown = 5

// unknownSchemas says which resources have no schema: Usher's own, which a policy for everything is
// for, in one text, and all others in another.
func unknownSchemas(unknown []*kind.Resource) (skipped []string) {
	var own, others []string
	for _, r := range unknown {
		name, _, _ := strings.Cut(r.Name, "/")
		into := &others
		if api.IsGroup(in(r).Group) {
			into = &own
		} else {
			name = r.Name
		}
		if !slices.Contains(*into, name) {
			*into = append(*into, name)
		}
	}
	if len(own) > 0 {
		skipped = append(skipped, fmt.Sprintf("objects of Usher's own kinds (%s): their schema is not known", strings.Join(own, ", ")))
	}
	switch more := len(others) - mostUnknown; {
	case len(others) == 1:
		skipped = append(skipped, fmt.Sprintf("objects of the resource %s: their schema is not known", others[0]))
	case more > 1:
		skipped = append(skipped, fmt.Sprintf("objects of the resources %s and %d others: their schemas are not known", strings.Join(others[:mostUnknown], ", "), more))
	case len(others) > 1:
		skipped = append(skipped, fmt.Sprintf("objects of the resources %s: their schemas are not known", strings.Join(others, ", ")))
	}
	return skipped
}

// targetsOf returns the kinds of objects that a match is for, and the resources of which the schema is
// not known.
func targetsOf(set *kind.Set, m *rule.ResourceMatch) (targets []typecheck.Target, unknown []*kind.Resource) {
	for r := range set.Resources() {
		target, ok := targetOf(r, m)
		if !ok {
			continue
		}
		if set.Schema(target.Kind) == nil {
			unknown = append(unknown, r)
			continue
		}
		if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	return targets, unknown
}

// targetOf returns the objects of a resource if some request for it matches.
func targetOf(r *kind.Resource, m *rule.ResourceMatch) (typecheck.Target, bool) {
	in := schema.GroupVersion{Group: r.Group, Version: r.Version}
	if r.In != nil {
		in = *r.In
	}
	name, subresource, _ := strings.Cut(r.Name, "/")
	request := usher.Request{Kind: r.Of(), Resource: in.WithResource(name), Subresource: subresource}
	if r.Namespaced {
		request.Namespace = "x"
	}
	matches := slices.ContainsFunc(operationsOf(r), func(operation usher.Operation) bool {
		request.Operation = operation
		return slices.ContainsFunc(namesIn(m), func(name string) bool {
			request.Name = name
			return m.Matches(&request)
		})
	})
	return typecheck.Target{Kind: request.Kind, Resource: request.Resource}, matches
}

// namesIn returns names of objects of which one matches if any does.
func namesIn(m *rule.ResourceMatch) []string {
	names := []string{""}
	for i := range m.Rules {
		names = append(names, m.Rules[i].Names...)
	}
	return names
}

// operationsOf returns the operations of the requests for a resource that are admitted.
func operationsOf(r *kind.Resource) []usher.Operation {
	if isOptions(r.Of()) {
		return []usher.Operation{usher.Connect}
	}
	var operations []usher.Operation
	for operation, verbs := range map[usher.Operation][]string{
		usher.Create: {"create", "patch", "update"}, usher.Update: {"update", "patch"}, usher.Delete: {"delete", "deletecollection"},
	} {
		if slices.ContainsFunc(verbs, func(verb string) bool { return slices.Contains(r.Verbs, verb) }) {
			operations = append(operations, operation)
		}
	}
	return operations
}

// matchesAny reports whether a match is for resources that it does not name, and that may have kinds besides those
// of Kubernetes.
func matchesAny(set *kind.Set, m *rule.ResourceMatch) bool {
	return len(m.Rules) == 0 || slices.ContainsFunc(m.Rules, func(r rule.ResourceRule) bool {
		named := !slices.ContainsFunc(r.Resources, func(name string) bool { return strings.Contains(name, "*") && !strings.HasPrefix(name, "pods/") })
		if named && !slices.Contains(r.Groups, "*") && !slices.Contains(r.Versions, "*") {
			return false
		}
		return slices.ContainsFunc(r.Groups, func(group string) bool {
			// The groups of custom resources have a dot.
			return group == "*" || strings.Contains(group, ".") && !(named && allStable(set, group, r.Resources))
		})
	})
}

// stableVersion is a version whose resources Kubernetes changes compatibly.
var stableVersion = regexp.MustCompile(`^v[0-9]+$`)

// allStable reports whether all resources are known in a stable version of a group.
func allStable(set *kind.Set, group string, resources []string) bool {
	return !slices.ContainsFunc(resources, func(name string) bool {
		for r := range set.Resources() {
			if r.Group == group && r.Name == name && stableVersion.MatchString(r.Version) {
				return false
			}
		}
		return true
	})
}
