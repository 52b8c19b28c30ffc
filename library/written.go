package library

import (
	"fmt"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
)

// written returns a document as it is written. The error is that of YAML that is not what it seems to be:
// of aliases, which have settings of users go to another place, and of characters that have terminals
// hide or forge what a command prints. Packs come from others.
func written(content []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if err := checkNode(&document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return &yaml.Node{}, nil
	}
	return document.Content[0], nil
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
func checkFields(policy *yaml.Node) error {
	for _, name := range []string{"metadata", "spec"} {
		if found := manifest.Member(policy, name); found == nil || found.Kind != yaml.MappingNode {
			return fmt.Errorf("%s is missing", name)
		}
	}
	bindings := manifest.Member(policy, "spec", "bindings")
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
