package objects

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
)

// Line returns the line of a field of the object, such as spec.containers[0].image, in the text of
// its file: that of the closest parent if the object has no such field, and 0 if it is not known.
func (i *Input) Line(field string) int {
	if i.text == nil {
		return 0
	}
	i.text.parse()
	node, ok := i.text.objects[i.nth]
	if !ok {
		return 0
	}
	line, _ := manifest.Locate(node, node.Line, field)
	return line
}

// A text is the content of a file. It is parsed once, and only if somebody asks for a line.
type text struct {
	content []byte
	parsed  bool
	objects map[nth]*yaml.Node
	seen    map[nth]int
}

// An nth identifies an object of a file: it is one of several with the same name.
type nth struct {
	apiVersion, kind, namespace, name string
	n                                 int
}

// parse finds the objects in a text. It ends where its parser and the one that read the objects
// disagree: then only lines are missing.
func (t *text) parse() {
	if t.parsed {
		return
	}
	t.parsed, t.objects, t.seen = true, map[nth]*yaml.Node{}, map[nth]int{}
	for root, err := range manifest.Nodes(t.content) {
		if err != nil {
			return
		}
		t.add(root, 0)
	}
}

// deepest limits lists of lists.
const deepest = 10

func (t *text) add(node *yaml.Node, depth int) {
	if items := manifest.Member(node, "items"); items != nil && items.Kind == yaml.SequenceNode && depth < deepest {
		for _, item := range items.Content {
			t.add(item, depth+1)
		}
		return
	}
	text := func(path ...string) string { return manifest.Text(node, path...) }
	key := nth{text("apiVersion"), text("kind"), text("metadata", "namespace"), text("metadata", "name"), 0}
	same := key
	key.n = t.seen[same]
	t.seen[same]++
	t.objects[key] = node
}

// number tells objects with the same name apart.
func number(inputs []Input, content []byte) {
	shared := &text{content: content}
	seen := map[nth]int{}
	for i := range inputs {
		key := keyOf(inputs[i].Object)
		n := seen[key]
		seen[key]++
		key.n = n
		inputs[i].text, inputs[i].nth = shared, key
	}
}

func keyOf(object map[string]any) nth {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	return nth{apiVersion, kind, textOf(metadata["namespace"]), textOf(metadata["name"]), 0}
}

// textOf is a name as it stands in a file.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// Unique returns an error if a field is given twice in an object: YAML forbids it, and readers take one of the two.
func Unique(inputs []Input) error {
	for i := range inputs {
		in := &inputs[i]
		if in.text == nil {
			continue
		}
		in.text.parse()
		if again := repeated(in.text.objects[in.nth]); again != nil {
			return fmt.Errorf("read %s: line %d: %q is given twice: keep one of them", in.File, again.Line, again.Value)
		}
	}
	return nil
}

// repeated returns the second key of a mapping that has it twice, nil if there is none. Aliases are not followed: what
// they mean is in the object, too.
func repeated(node *yaml.Node) *yaml.Node {
	if node == nil {
		return nil
	}
	if node.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			if key := node.Content[i]; key.Kind == yaml.ScalarNode && key.Tag != "!!merge" {
				if seen[key.Value] {
					return key
				}
				seen[key.Value] = true
			}
		}
	}
	for _, part := range node.Content {
		if again := repeated(part); again != nil {
			return again
		}
	}
	return nil
}
