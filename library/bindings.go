package library

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/manifest"
)

// bind sets the bindings, their action and their params.
func (p *Policy) bind(spec *yaml.Node, s Settings) error {
	if err := p.CheckParams(s.Params); err != nil {
		return err
	}
	if s.Action != "" && len(p.Spec.Bindings) > 1 {
		return errors.New("its bindings have actions of their own: install it without an action")
	}
	if s.Bindings != nil {
		var bindings yaml.Node
		if err := yaml.Unmarshal(s.Bindings, &bindings); err != nil {
			return fmt.Errorf("parse bindings: %w", err)
		}
		plain(&bindings)
		set(spec, "bindings", bindings.Content[0])
	}
	list := manifest.Member(spec, "bindings")
	if list == nil || len(list.Content) == 0 {
		if len(s.Namespaces) > 0 {
			return errors.New("it has no binding, and is in force in all namespaces: write bindings for those that it is for")
		}
		// Only mutations have none, and no params.
		return nil
	}
	chosen := list.Content
	if len(s.Namespaces) > 0 {
		var err error
		if chosen, err = bindingsOf(list, s); err != nil {
			return err
		}
	}
	for _, binding := range list.Content {
		binding.Style = 0
		if len(s.Excluded) > 0 {
			exclude(binding, s.Excluded)
		}
		var params map[string]any
		if slices.Contains(chosen, binding) {
			params = s.Params
			if s.Action != "" && len(p.Spec.Validations) > 0 {
				actions := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{text(s.Action)}}
				set(binding, "validationActions", actions)
			}
		}
		if manifest.Member(binding, "paramRef") != nil {
			continue
		}
		if err := p.setParams(binding, params); err != nil {
			return err
		}
	}
	return nil
}

// bindingsOf returns the bindings of the namespaces. It adds those that are missing to the list: what
// others have in common, for the namespace.
func bindingsOf(list *yaml.Node, s Settings) ([]*yaml.Node, error) {
	before := list.Content
	var found []*yaml.Node
	for _, namespace := range s.Namespaces {
		binding, err := named(list, namespace)
		switch {
		case err != nil:
			return nil, err
		case binding == nil:
			if binding, err = common(before); err != nil {
				return nil, err
			}
			setText(binding, "name", namespace)
			narrow(child(binding, "matchResources"), namespace, s.Namespaced)
			list.Content = append(list.Content, binding)
		case namespaceOf(binding) != namespace:
			return nil, fmt.Errorf("it has a binding with the name %s, which is not only for this namespace: rename that first", namespace)
		}
		found = append(found, binding)
	}
	return found, nil
}

// named returns the binding of that name, or the only one that is for the namespace of that name; nil if there is none.
func named(list *yaml.Node, namespace string) (*yaml.Node, error) {
	var found []*yaml.Node
	for _, binding := range list.Content {
		if name := manifest.Member(binding, "name"); name != nil && name.Value == namespace {
			return binding, nil
		}
		if namespaceOf(binding) == namespace {
			found = append(found, binding)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil //nolint:nilnil // no binding
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("it has %d bindings for namespace %s: change them where they are", len(found), namespace)
}

// namespaceOf returns the namespace that a binding selects by its name, and by nothing else; otherwise "".
func namespaceOf(binding *yaml.Node) string {
	selector := manifest.Member(binding, "matchResources", "namespaceSelector")
	labels := manifest.Member(binding, "matchResources", "namespaceSelector", "matchLabels")
	if labels == nil || len(selector.Content) != 2 || len(labels.Content) != 2 || labels.Content[0].Value != corev1.LabelMetadataName {
		return ""
	}
	return labels.Content[1].Value
}

// common returns a copy of the binding for other namespaces: of those that are not for a single one, unless
// there are none. They may differ in their names, actions and namespaces.
func common(bindings []*yaml.Node) (*yaml.Node, error) {
	general := slices.DeleteFunc(slices.Clone(bindings), func(b *yaml.Node) bool { return namespaceOf(b) != "" })
	if len(general) == 0 {
		general = bindings
	}
	var first []byte
	for _, binding := range general {
		var fields map[string]any
		if err := binding.Decode(&fields); err != nil {
			return nil, fmt.Errorf("read binding: %w", err)
		}
		delete(fields, "name")
		delete(fields, "validationActions")
		if match, ok := fields["matchResources"].(map[string]any); ok {
			delete(match, "namespaceSelector")
			if len(match) == 0 {
				delete(fields, "matchResources")
			}
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("read binding: %w", err)
		}
		if first != nil && !bytes.Equal(first, text) {
			return nil, errors.New("its bindings differ in more than actions and namespaces: write one for the namespace")
		}
		first = text
	}
	return deep(general[0]), nil
}

// narrow has a binding match what is in the namespace, and the namespace itself.
func narrow(match *yaml.Node, namespace string, namespaced bool) {
	match.Style = 0
	labels := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	setText(labels, corev1.LabelMetadataName, namespace)
	set(match, "namespaceSelector", &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text("matchLabels"), labels}})
	if !namespaced {
		return
	}
	// A selector of namespaces says nothing about objects that are in none.
	rules := manifest.Member(match, "resourceRules")
	if rules == nil {
		all := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, field := range [][2]string{{"apiGroups", "*"}, {"apiVersions", "*"}, {"operations", "*"}, {"resources", "*/*"}} {
			set(all, field[0], &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{text(field[1])}})
		}
		rules = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{all}}
		set(match, "resourceRules", rules)
	}
	for _, rule := range rules.Content {
		setText(rule, "scope", "Namespaced")
	}
}

// exclude has a binding match nothing in namespaces.
func exclude(binding *yaml.Node, namespaces []string) {
	match := child(binding, "matchResources")
	match.Style = 0
	values := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, name := range namespaces {
		values.Content = append(values.Content, text(name))
	}
	others := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	setText(others, "key", corev1.LabelMetadataName)
	setText(others, "operator", string(metav1.LabelSelectorOpNotIn))
	set(others, "values", values)
	selector := child(match, "namespaceSelector")
	selector.Style = 0
	expressions := manifest.Member(selector, "matchExpressions")
	if expressions == nil {
		expressions = &yaml.Node{Kind: yaml.SequenceNode}
		set(selector, "matchExpressions", expressions)
	}
	expressions.Content = append(expressions.Content, others)
}

// deep returns a copy of a tree.
func deep(node *yaml.Node) *yaml.Node {
	copied := *node
	copied.Content = make([]*yaml.Node, len(node.Content))
	for i, below := range node.Content {
		copied.Content[i] = deep(below)
	}
	return &copied
}

// setParams sets params of a binding, and those that it does not have to their defaults: a version
// of a policy may read more than the one before.
func (p *Policy) setParams(binding *yaml.Node, values map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(p.Params)) {
		value, ok := values[name]
		if found := manifest.Member(binding, "params"); !ok && found != nil && manifest.Member(found, name) != nil {
			continue
		}
		if !ok {
			value = p.Params[name]
		}
		var node yaml.Node
		if err := node.Encode(value); err != nil {
			return fmt.Errorf("params.%s: %w", name, err)
		}
		set(child(binding, "params"), name, &node)
	}
	return nil
}
