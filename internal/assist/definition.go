package assist

import (
	"slices"

	"github.com/usher-dev/usher/internal/assist/draft"
)

// Definition returns where what is at an offset of a text is defined in it, and false if that is not in the text: a
// variable of the policy, a source of data, the params, and what a binding names.
func (s *Service) Definition(text string, offset int) (Range, bool) {
	p := locate(text, offset)
	if expression, inside, ok := p.expression(); ok && !p.node.InKey(p.offset) {
		c := at(expression.String, inside)
		spec := p.policy.Get("spec")
		switch {
		case c.inText || c.name == "":
		case c.receiver == "variables" || c.receiver == "data":
			return named(spec.Get(c.receiver), c.name)
		case c.receiver == "" && c.name == "params":
			return keyOf(spec.Get("paramKind"))
		}
		return Range{}, false
	}
	if p.node.Kind != draft.Scalar || p.node.InKey(p.offset) || len(p.path) < 2 {
		return Range{}, false
	}
	last, above := p.path[len(p.path)-1], p.path[len(p.path)-2]
	if last != "policyName" && !(last == "name" && slices.Contains([]string{"paramRef", "policy", "policies"}, above)) {
		return Range{}, false
	}
	for _, root := range p.tree.Documents {
		if root != p.policy && root.Get("metadata").Get("name").Value() == p.node.Value() {
			return rangeOfValue(root.Get("metadata").Get("name")), true
		}
	}
	return Range{}, false
}

// named returns where the element of a list with a name is.
func named(list *draft.Node, name string) (Range, bool) {
	for _, element := range children(list) {
		if n := element.Get("name"); n.Value() == name {
			return rangeOfValue(n), true
		}
	}
	return Range{}, false
}

func keyOf(n *draft.Node) (Range, bool) {
	if n == nil {
		return Range{}, false
	}
	return Range{n.KeyFrom, n.KeyTo}, true
}

func rangeOfValue(n *draft.Node) Range { return Range{n.From, n.To} }
