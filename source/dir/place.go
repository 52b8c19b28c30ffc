package dir

import (
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/manifest"
)

// places are the positions of the fields of a document, which is parsed for them on first use. It
// is safe for concurrent use.
type places struct {
	document document
	// text is the document as a YAML parser can read it, line for line.
	text []byte
	// repeats reports that a field in the document occurs twice.
	repeats bool

	once sync.Once
	root *yaml.Node
}

// kind returns the position of the field that says of which kind a policy is. Prefix is the path of
// the policy.
func (p *places) kind(prefix string) api.Position { return p.inside(prefix, "kind", 0, 0) }

// inside returns the position of field, or of the closest parent that exists, or that of a line and a
// column of the text of field, if they are not 0 and can be found in the file. Prefix is the path of
// the policy; without a field it is the policy's own position.
func (p *places) inside(prefix, field string, line, column int) api.Position {
	path := strings.TrimSuffix(prefix+field, ".")
	if path == "" {
		return p.document.at(p.document.First)
	}
	root := p.tree()
	if root == nil {
		return p.document.at(p.document.First)
	}
	introduced, node := manifest.Locate(root, root.Line, path)
	if node != nil && node.Kind == yaml.ScalarNode && line > 0 {
		if at, ok := p.document.character(node, line, column); ok {
			return at
		}
	}
	return p.document.within(introduced)
}

func (p *places) tree() *yaml.Node {
	p.once.Do(func() {
		var node yaml.Node
		// The document is known to be readable; where two parsers disagree, only the line
		// is lost.
		if err := yaml.Unmarshal(p.text, &node); err == nil && len(node.Content) > 0 {
			p.root = node.Content[0]
		}
	})
	return p.root
}

// duplicates returns the paths, below prefix, of fields that are written twice.
func (p *places) duplicates(prefix string) []string {
	if !p.repeats || p.tree() == nil {
		return nil
	}
	var all []string
	for _, path := range repeated(p.root, "") {
		if path, ok := strings.CutPrefix(path, prefix); ok {
			all = append(all, path)
		}
	}
	return all
}

func repeated(node *yaml.Node, path string) []string {
	var all []string
	switch node.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			inside := key
			if path != "" {
				inside = path + "." + key
			}
			if seen[key] {
				all = append(all, inside)
			}
			seen[key] = true
			all = append(all, repeated(node.Content[i+1], inside)...)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			all = append(all, repeated(item, path+"["+strconv.Itoa(i)+"]")...)
		}
	}
	return all
}
