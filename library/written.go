package library

import (
	"fmt"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// checkWritten returns an error for YAML that is not what it seems to be: for aliases, which have
// settings of users go to another place, for policies without the fields that settings belong to, and for
// characters that have terminals hide or forge what a command prints. Packs come from others.
func checkWritten(content []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	return checkNode(&document)
}

func checkNode(node *yaml.Node) error {
	if node.Kind == yaml.AliasNode || node.Tag == "!!merge" {
		return fmt.Errorf("line %d: an alias or a merge key: write its value in this place", node.Line)
	}
	for _, r := range node.Value {
		if r != '\n' && r != '\t' && r != '\u00a0' && !unicode.IsPrint(r) {
			return fmt.Errorf("line %d: the character %U is not printed: remove it", node.Line, r)
		}
	}
	for _, below := range node.Content {
		if err := checkNode(below); err != nil {
			return err
		}
	}
	return nil
}

// checkFields returns an error for a policy in which settings have no place.
func checkFields(content []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	policy := &yaml.Node{}
	if len(document.Content) > 0 {
		policy = document.Content[0]
	}
	for _, name := range []string{"metadata", "spec"} {
		if found := member(policy, name); found == nil || found.Kind != yaml.MappingNode {
			return fmt.Errorf("%s is missing", name)
		}
	}
	bindings := member(member(policy, "spec"), "bindings")
	if bindings == nil {
		return nil
	}
	for i, binding := range bindings.Content {
		if binding.Kind != yaml.MappingNode {
			return fmt.Errorf("spec.bindings[%d] is empty", i)
		}
	}
	return nil
}
