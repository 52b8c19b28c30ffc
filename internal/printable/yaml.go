package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// YAML encodes value, with escapes in place of characters that are not printed. It means the same.
func YAML(value any) ([]byte, error) {
	if encoded, err := yaml.Marshal(value); err == nil && plain(string(encoded), lines) {
		return encoded, nil
	}
	// It fails for some characters, too.
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if encoded, err = sorted(encoded); err != nil {
		return nil, fmt.Errorf("escape characters: %w", err)
	}
	var document yamlnodes.Node
	if err := yamlnodes.Unmarshal([]byte(escaped(string(encoded))), &document); err != nil {
		return nil, fmt.Errorf("escape characters: %w", err)
	}
	quote(&document)
	var b bytes.Buffer
	encoder := yamlnodes.NewEncoder(&b)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("escape characters: %w", err)
	}
	return []byte(escaped(b.String())), nil
}

// sorted sorts the keys of JSON, as YAML has them.
func sorted(encoded []byte) ([]byte, error) {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// escaped returns text with escapes of YAML, in which surrogates are no characters.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if Printed(r) || strings.ContainsRune(lines, r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	return b.String()
}

// quote has the encoder write what is not printed between double quotes, where escapes are read, and
// everything else in its usual form.
func quote(node *yamlnodes.Node) {
	node.Style = 0
	if node.Kind == yamlnodes.ScalarNode && !plain(node.Value, lines) {
		node.Style = yamlnodes.DoubleQuotedStyle
	}
	for _, below := range node.Content {
		quote(below)
	}
}
