package interpret

import (
	"errors"
	"fmt"
	"slices"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// strategic merges a patch into an object. Its anchors are settled first: each says whether what is beside it is for the
// object, or for an element of a list. A condition that does not hold for the object leaves nothing to merge.
func strategic(object map[string]any, patch any) (map[string]any, error) {
	n := nodeOf(patch)
	if n.fields == nil {
		return nil, errors.New("a patch is no map")
	}
	err := n.settle(object, true)
	if errors.Is(err, errCondition) || errors.Is(err, errGlobal) {
		return object, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range slices.Clone(n.fields) {
		gone, err := f.value.strip(isCondition(f.name))
		if err != nil {
			return nil, err
		}
		if gone {
			n.clear(f.name)
		}
	}
	return merged(object, n.value())
}

var (
	errCondition = errors.New("a condition does not hold")
	errGlobal    = errors.New("a global condition does not hold")
)

// A node is a part of a patch whose anchors are being settled: a map if fields is not nil, a list if items is not nil,
// or else a scalar.
type node struct {
	fields []nodeField
	items  []*node
	scalar any
}

type nodeField struct {
	name  string
	value *node
}

func nodeOf(of any) *node {
	p := syntax.PatternOf(of, "")
	return nodeFrom(p)
}

func nodeFrom(p *syntax.Pattern) *node {
	n := &node{scalar: p.Scalar}
	switch p.Sort {
	case syntax.Map:
		n.fields = []nodeField{}
		for _, key := range p.Keys {
			n.fields = append(n.fields, nodeField{key.Text, nodeFrom(key.Value)})
		}
	case syntax.List:
		n.items = []*node{}
		for _, item := range p.Items {
			n.items = append(n.items, nodeFrom(item))
		}
	default:
	}
	return n
}

// value returns what a node is as a value.
func (n *node) value() any {
	switch {
	case n.fields != nil:
		all := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			all[f.name] = f.value.value()
		}
		return all
	case n.items != nil:
		all := make([]any, len(n.items))
		for i, item := range n.items {
			all[i] = item.value()
		}
		return all
	}
	return n.scalar
}

func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

func (n *node) clear(name string) {
	n.fields = slices.DeleteFunc(n.fields, func(f nodeField) bool { return f.name == name })
	if n.fields == nil {
		n.fields = []nodeField{}
	}
}

func (n *node) rename(from, to string) {
	for i := range n.fields {
		if n.fields[i].name == from {
			n.fields[i].name = to
			return
		}
	}
}

// anchorOf returns the anchor of a key, and its name.
func anchorOf(text string) (syntax.Anchor, string) {
	key := syntax.PatternOf(map[string]any{text: nil}, "").Keys[0]
	return key.Anchor, key.Name
}

func isCondition(text string) bool {
	a, _ := anchorOf(text)
	return a == syntax.Conditional || a == syntax.Global
}

func isAnchored(text string) bool {
	a, _ := anchorOf(text)
	return isCondition(text) || a == syntax.AddIfAbsent
}

// anchored says that a key of a node, at any depth, has an anchor of a sort. A scalar counts if it is written like a
// condition.
func (n *node) anchored(is func(string) bool) bool {
	switch {
	case n.fields != nil:
		return slices.ContainsFunc(n.fields, func(f nodeField) bool {
			return is(f.name) || !f.value.empty() && f.value.anchored(is)
		})
	case n.items != nil:
		return slices.ContainsFunc(n.items, func(item *node) bool { return item.anchored(is) })
	}
	text, ok := n.scalar.(string)
	return ok && isCondition(text)
}

// empty says that a node has nothing.
func (n *node) empty() bool {
	return len(n.fields)+len(n.items) == 0 && (n.fields != nil || n.items != nil || n.scalar == nil || n.scalar == "")
}

// settle settles the anchors of a node for a value, which is there or not.
func (n *node) settle(value any, there bool) error {
	switch {
	case n.fields != nil:
		fields, ok := value.(map[string]any)
		if there && !ok && value != nil {
			return &Unread{"a patch of a map that is none"}
		}
		return n.settleMap(fields, there && ok)
	case len(n.items) > 0 && n.items[0].fields != nil:
		items, ok := value.([]any)
		if there && !ok && value != nil {
			return errors.New("a patch of a list is for something else")
		}
		return n.settleList(items, there)
	}
	return nil
}

func (n *node) settleMap(fields map[string]any, there bool) error {
	n.addAbsent(fields)
	for _, of := range []struct {
		anchor syntax.Anchor
		err    error
	}{{syntax.Global, errGlobal}, {syntax.Conditional, errCondition}} {
		for _, f := range slices.Clone(n.fields) {
			a, name := anchorOf(f.name)
			if a != of.anchor {
				continue
			}
			value, has := fields[name]
			if !there || !has {
				return of.err
			}
			inner, _ := value.(map[string]any)
			if f.value.fields != nil && f.value.addAbsent(inner) > 0 {
				continue
			}
			if matches(scalarTextOf(value), syntax.PatternOf(scalarTextOf(f.value.value()), "")) != Pass {
				return of.err
			}
		}
	}
	for _, f := range slices.Clone(n.fields) {
		if isAnchored(f.name) {
			continue
		}
		value, has := fields[f.name]
		if err := f.value.settle(value, has); err != nil {
			return err
		}
	}
	return nil
}

// scalarTextOf returns the text of a scalar: conditions compare texts.
func scalarTextOf(value any) any {
	switch v := value.(type) {
	case map[string]any, []any, string:
		return value
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}

// addAbsent removes the keys to add if absent that a map has, and the anchors of the others. It returns how many it found.
func (n *node) addAbsent(fields map[string]any) int {
	count := 0
	for _, f := range slices.Clone(n.fields) {
		a, name := anchorOf(f.name)
		if a != syntax.AddIfAbsent {
			continue
		}
		count++
		if _, has := fields[name]; has {
			n.clear(f.name)
		} else {
			n.rename(f.name, name)
		}
	}
	return count
}

// settleList settles the elements that have anchors. For each element of the list that fits one, the patch gets an element
// with its name; what the first of them settles stays so for those after it.
func (n *node) settleList(items []any, there bool) error {
	for _, each := range slices.Clone(n.items) {
		if !each.anchored(isAnchored) {
			continue
		}
		global := each.anchored(func(text string) bool { a, _ := anchorOf(text); return a == syntax.Global })
		passed, failed := false, false
		copied := nodeOf(each.value())
		for _, item := range items {
			err := copied.settle(item, true)
			if errors.Is(err, errCondition) || errors.Is(err, errGlobal) {
				failed = failed || errors.Is(err, errGlobal)
				continue
			}
			if err != nil {
				return err
			}
			if global {
				passed = true
			} else if err := n.name(copied, item); err != nil {
				return err
			}
		}
		if !there {
			switch err := copied.settle(nil, false); {
			case errors.Is(err, errCondition):
				continue
			case err != nil:
				return err
			}
			passed = passed || global
		}
		if failed && !passed {
			return errGlobal
		}
	}
	return nil
}

// name adds an element to a list of a patch that is for one element of the list of the object.
func (n *node) name(of *node, item any) error {
	fields, _ := item.(map[string]any)
	name, has := fields["name"]
	if !has || name == nil || name == "" {
		return nil
	}
	copied := nodeOf(of.value())
	empty, err := copied.strip(true)
	if err != nil || empty {
		return err
	}
	if at := copied.get("name"); at != nil {
		*at = node{scalar: name}
	} else {
		copied.fields = append(copied.fields, nodeField{"name", &node{scalar: name}})
	}
	n.items = append(n.items, copied)
	return nil
}

// strip removes what is in anchors, and says whether nothing else is in a node. A scalar is nothing if it is in an anchor.
func (n *node) strip(anchor bool) (bool, error) {
	switch {
	case n.fields != nil:
		return n.stripMap()
	case n.items != nil:
		return n.stripList()
	}
	return anchor, nil
}

func (n *node) stripMap() (bool, error) {
	kept := false
	for _, f := range slices.Clone(n.fields) {
		if !isCondition(f.name) {
			continue
		}
		gone, err := f.value.strip(true)
		if err != nil {
			return false, err
		}
		if gone {
			n.clear(f.name)
		} else {
			kept = true
		}
	}
	for i := range n.fields {
		if kept && isCondition(n.fields[i].name) {
			_, n.fields[i].name = anchorOf(n.fields[i].name)
		}
	}
	empty := true
	for _, f := range slices.Clone(n.fields) {
		gone, err := f.value.strip(false)
		if err != nil {
			return false, err
		}
		if gone {
			n.clear(f.name)
		} else {
			empty = false
		}
	}
	return empty, nil
}

// stripList removes elements at the places that they have before any is removed, as Kyverno does.
func (n *node) stripList() (bool, error) {
	before := len(n.items)
	for i, item := range slices.Clone(n.items) {
		gone := item.anchored(isAnchored)
		if !gone {
			var err error
			if gone, err = item.strip(false); err != nil {
				return false, err
			}
		}
		if !gone {
			continue
		}
		if i >= len(n.items) {
			return false, errPanics
		}
		n.items = slices.Delete(n.items, i, i+1)
	}
	return len(n.items) == 0 && before > 0, nil
}
