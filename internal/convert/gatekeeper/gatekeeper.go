// Package gatekeeper makes ClusterObjectPolicies of Gatekeeper's mutators, and of its ConstraintTemplates in CEL with their
// constraints.
//
// Gatekeeper's webhook asks about objects that are created or updated, and a constraint is evaluated with
// variables.params and variables.anyObject. A policy is for the same requests, and reads params and object.
package gatekeeper

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/stall"
)

// API groups of Gatekeeper.
const (
	templates   = "templates.gatekeeper.sh"
	constraints = "constraints.gatekeeper.sh"
	config      = "config.gatekeeper.sh"
	suites      = "test.gatekeeper.sh"
	groups      = ".gatekeeper.sh"
)

// Options say how to convert policies.
type Options = convert.Options

// Is reports whether an object is one of Gatekeeper.
func Is(object map[string]any) bool {
	group := groupOf(object)
	return strings.HasSuffix(group, groups) && group != suites && group != "status"+groups
}

func groupOf(object map[string]any) string {
	version, _ := object["apiVersion"].(string)
	return schema.FromAPIVersionAndKind(version, "").Group
}

// Policies converts each ConstraintTemplate among the objects of Gatekeeper, with its constraints. What is not
// converted is left out by name.
func Policies(ctx context.Context, objects []convert.Foreign, o Options) []convert.Import {
	return policies(ctx, objects, o, hashOf)
}

func policies(ctx context.Context, objects []convert.Foreign, o Options, hash func(modules []string) string) []convert.Import {
	kept, left := convert.Once(objects)
	c := &conversion{Options: o, hash: hash, all: left, constraints: map[string][]*convert.Foreign{}}
	var found, mutating []*convert.Foreign
	for _, f := range kept {
		switch of := f.Ref(); groupOf(f.Object) {
		case templates:
			found = append(found, f)
		case constraints:
			c.constraints[of.Kind] = append(c.constraints[of.Kind], f)
		case config:
			c.configs = append(c.configs, f)
		case mutators:
			mutating = append(mutating, f)
		default:
			c.leave(f, "", fmt.Sprintf("objects of the kind %s are not imported", of.Kind), insteadOf(of.Kind))
		}
	}
	c.exclude()
	for _, f := range found {
		stall.Of(ctx).At(f.Ref().String())
		c.all = append(c.all, c.template(ctx, f))
	}
	for _, f := range mutating {
		stall.Of(ctx).At(f.Ref().String())
		switch of := f.Ref().Kind; of {
		case assignKind, assignMetadataKind, modifySetKind, assignImageKind:
			c.all = append(c.all, c.mutator(ctx, f))
		default:
			c.leave(f, "", fmt.Sprintf("objects of the kind %s are not imported", of), insteadOf(of))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.constraints)) {
		for _, f := range c.constraints[kind] {
			c.leave(f, "", "its ConstraintTemplate is not among the files", "name the file with it, too")
		}
	}
	return c.all
}

// insteadOf says what to do instead of importing an object.
func insteadOf(kind string) string {
	switch kind {
	case "ExpansionTemplate":
		return "leave it out: podTemplates of a policy for pods covers the workloads of Kubernetes"
	case "Provider":
		return "ask the service by data.http of a ClusterObjectPolicy"
	}
	return "leave it out"
}

// A conversion is that of all objects.
type conversion struct {
	Options

	// hash returns the hash of modules in Rego.
	hash func(modules []string) string
	all  []convert.Import
	// constraints are those that no template has taken yet, by kind.
	constraints map[string][]*convert.Foreign
	configs     []*convert.Foreign
	// excluded are namespaces that no policy is for.
	excluded []string
	// unchanged are namespaces that no mutation is for.
	unchanged []string
}

// leave records that an object is left out.
func (c *conversion) leave(f *convert.Foreign, field, what, do string) {
	i := convert.Import{Of: f}
	i.Leave(f, field, what, do)
	c.all = append(c.all, i)
}

// template converts a template with its constraints.
func (c *conversion) template(ctx context.Context, f *convert.Foreign) convert.Import {
	i := convert.Import{Of: f}
	t := readTemplate(&i, c.hash)
	own := c.constraints[t.kind]
	delete(c.constraints, t.kind)
	if len(i.Left) > 0 {
		return i
	}
	if len(own) == 0 {
		what, do := "no constraint of it is among the files: without one it is not in force", "name the files with its constraints, too"
		if slices.ContainsFunc(c.all, func(o convert.Import) bool { return o.Of.Ref().Kind == t.kind }) {
			what, do = "its constraints are left out", "see there"
		}
		i.Leave(f, "", what, do)
		return i
	}
	var selected []*selection
	taken := map[string]bool{}
	for _, f := range own {
		mark := i.Mark()
		s := c.constraint(&i, t, f, taken)
		if c.Partial {
			i.Miss(f.Ref().String(), mark)
		}
		if s != nil {
			selected = append(selected, s)
		}
	}
	if len(i.Left) > 0 || len(selected) == 0 {
		i.Finish(ctx, c.Limits)
		return i
	}
	// A constraint that has conditions of its own is a policy of its own: bindings have none.
	shared := slices.DeleteFunc(slices.Clone(selected), func(s *selection) bool { return len(s.conditions) > 0 })
	if len(shared) > 0 {
		i.To = append(i.To, t.policy(t.name, shared))
	}
	for _, s := range selected {
		if len(s.conditions) == 0 {
			continue
		}
		name := t.name
		if len(selected) > 1 {
			name += "-" + s.name
		}
		i.To = append(i.To, t.policy(name, []*selection{s}))
	}
	if slices.ContainsFunc(i.To, selectsOnlyPods) {
		i.Note(f, "", "workloads are not validated, as before", "remove podTemplates to warn of those whose pods would be refused")
	}
	i.Finish(ctx, c.Limits)
	return i
}

func selectsOnlyPods(o api.Object) bool {
	policy := o.(*v1alpha1.ClusterObjectPolicy) //nolint:forcetypeassert // It was made here.
	return policy.Spec.PodTemplates == v1alpha1.PodTemplatesOff
}
