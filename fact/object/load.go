package object

import (
	"errors"
	"fmt"

	"github.com/usher-dev/usher/internal/manifest"
)

// Load reads the objects in paths, which are files and folders; package manifest selects the files.
// A file may hold several documents, and lists. Every document must be an object with apiVersion,
// kind and name.
func Load(paths ...string) ([]map[string]any, error) {
	files, err := manifest.Files(paths...)
	if err != nil {
		return nil, fmt.Errorf("load objects: %w", err)
	}
	var trees []map[string]any
	for _, file := range files {
		found, err := loadFile(file)
		if err != nil {
			return nil, fmt.Errorf("load objects: %w", err)
		}
		trees = append(trees, found...)
	}
	return trees, nil
}

func loadFile(path string) ([]map[string]any, error) {
	text, err := manifest.Read(path, manifest.MaxObjects)
	if err != nil {
		return nil, err
	}
	trees, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return trees, nil
}

// Decode reads the objects in text, which is YAML or JSON, as [Load] does.
func Decode(text []byte) ([]map[string]any, error) {
	var trees []map[string]any
	for i, document := range manifest.Split(text) {
		values, err := document.Values()
		if err != nil {
			return nil, fmt.Errorf("decode document %d: %w", i+1, err)
		}
		for _, value := range values {
			tree, ok := value.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("decode document %d: not an object", i+1)
			}
			err := manifest.Each(tree, func(object map[string]any) error {
				trees = append(trees, object)
				return complete(object)
			})
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", i+1, err)
			}
		}
	}
	return trees, nil
}

func complete(tree map[string]any) error {
	k := kindOf(tree)
	switch {
	case k.apiVersion == "":
		return errors.New("apiVersion is missing")
	case k.kind == "":
		return errors.New("kind is missing")
	case nameOf(tree).name == "":
		return fmt.Errorf("%s %s: metadata.name is missing", k.apiVersion, k.kind)
	}
	return nil
}
