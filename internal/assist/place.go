package assist

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/assist/draft"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
)

// A place is one in a text.
type place struct {
	tree   *draft.Tree
	offset int
	node   *draft.Node
	// policy is the object in which it is, of a kind, and path leads from there to the node.
	policy *draft.Node
	kind   schema.GroupVersionKind
	path   []string
}

// locate returns the place of an offset.
func locate(text string, offset int) *place {
	p := &place{tree: draft.Parse(text), offset: max(0, min(offset, len(text)))}
	root := p.tree.Document(p.offset)
	p.node = root.At(p.offset)
	p.policy = root
	for n := p.node; n != nil; n = n.Parent {
		if n.Parent != nil && n.Parent.Kind == draft.List && n.Parent.Key == "items" && n.Parent.Parent == root && strings.HasSuffix(root.Get("kind").Value(), "List") {
			p.policy = n
		}
	}
	p.kind = schema.FromAPIVersionAndKind(p.policy.Get("apiVersion").Value(), p.policy.Get("kind").Value())
	p.path = p.node.Path()[len(p.policy.Path()):]
	return p
}

// isExpression reports whether fields of this name have expressions.
func isExpression(name string) bool {
	return name == "expression" || name == "requirement" || strings.HasSuffix(name, "Expression")
}

// expression returns the text of the expression at the place, and the offset in it.
func (p *place) expression() (*draft.Text, int, bool) {
	if p.node.Kind != draft.Scalar || p.offset < p.node.From || len(p.path) < 2 || p.path[0] != "spec" || !isExpression(p.path[len(p.path)-1]) {
		return nil, 0, false
	}
	kind, ok := api.KindNamed(p.kind)
	if !ok || !kind.ObjectPolicy && !kind.Foreign {
		return nil, 0, false
	}
	text := p.node.Text()
	return text, text.Offset(p.offset), true
}

// mostScopes limits the kinds of objects whose fields are offered.
const mostScopes = 8

// scopes returns what expressions of the policy can name, for each kind of objects that it is for.
func (s *Service) scopes(ctx context.Context, p *place) []*typecheck.Scope {
	set := s.kinds()
	policy := &typecheck.Policy{Params: reference(p.policy.Get("spec").Get("paramKind"))}
	spec := p.policy.Get("spec")
	for _, v := range children(spec.Get("variables")) {
		if v == p.node || v == p.node.Parent {
			// A variable reads those before it.
			break
		}
		policy.Expressions = append(policy.Expressions, admission.Expression{Use: admission.Variable, Name: v.Get("name").Value(), Text: v.Get("expression").Value()})
	}
	for _, d := range children(spec.Get("data")) {
		for _, list := range []string{"object", "list"} {
			if of := reference(d.Get(list)); !of.Empty() {
				policy.Data = append(policy.Data, admission.Data{Name: d.Get("name").Value(), Kind: of, List: list == "list"})
			}
		}
	}
	targets := targetsOf(set, spec.Get("matchConstraints"))
	if len(targets) == 0 {
		targets = []typecheck.Target{{}}
	}
	var all []*typecheck.Scope
	for _, target := range targets[:min(len(targets), mostScopes)] {
		if scope, err := s.types.Scope(ctx, set, policy, target); err == nil {
			all = append(all, scope)
		}
	}
	return all
}

func children(n *draft.Node) []*draft.Node {
	if n == nil {
		return nil
	}
	return n.Children
}

// reference returns the kind that a node names.
func reference(n *draft.Node) schema.GroupVersionKind {
	if n.Get("kind") == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(n.Get("apiVersion").Value(), n.Get("kind").Value())
}

// targetsOf returns the kinds of objects that match constraints are for, as far as they can be read.
func targetsOf(set *kind.Set, constraints *draft.Node) []typecheck.Target {
	var all []typecheck.Target
	for _, r := range children(constraints.Get("resourceRules")) {
		groups, versions, resources := texts(r.Get("apiGroups")), texts(r.Get("apiVersions")), texts(r.Get("resources"))
		for resource := range set.Resources() {
			target := typecheck.Target{Kind: resource.Of(), Resource: schema.GroupVersionResource{Group: resource.Under(), Version: resource.Version, Resource: resource.Name}}
			if matches(groups, resource.Under()) && matches(versions, resource.Version) && matches(resources, resource.Name) && set.Schema(target.Kind) != nil && !slices.Contains(all, target) {
				all = append(all, target)
			}
		}
	}
	return all
}

func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return pattern == text || pattern == "*" && !strings.Contains(text, "/") || pattern == "*/*"
	})
}

// texts returns the scalars of a list.
func texts(n *draft.Node) []string {
	var all []string
	for _, item := range children(n) {
		all = append(all, item.Value())
	}
	return all
}
