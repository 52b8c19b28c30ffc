// Package corpus reads policies of Kyverno, objects, and what Kyverno's own engine answers about them.
// Each file is about one construct. The answers are recorded by the module in conformance/kyverno, and
// never written by hand.
package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/kind"
)

// A File has a policy, and rows of one object each.
type File struct {
	// Name is that of the file, without its ending.
	Name string `json:"-"`
	// About says in a sentence what the file shows.
	About string `json:"about"`
	// Policy is a ClusterPolicy or Policy, and Exceptions are PolicyExceptions.
	Policy     map[string]any   `json:"policy"`
	Exceptions []map[string]any `json:"exceptions,omitempty"`
	// Base has the top-level fields of objects that lack them.
	Base map[string]any `json:"base,omitempty"`
	Rows []Row          `json:"rows"`
}

// A Row is a request and the answer to it.
type Row struct {
	Name string `json:"name"`
	// Operation is CREATE if absent. Object is the object of the request, and for DELETE the old one.
	Operation string         `json:"operation,omitempty"`
	Object    map[string]any `json:"object,omitempty"`
	OldObject map[string]any `json:"oldObject,omitempty"`
	// Subresource is the one that the request is for.
	Subresource     string            `json:"subresource,omitempty"`
	User            User              `json:"user,omitzero"`
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`
	// Data are objects that exist in the cluster.
	Data []map[string]any `json:"data,omitempty"`

	// Answers has the status of each rule that says something about the object: pass, fail, skip, error, warn.
	// Rules that Kyverno makes for workloads have their names there. Nil is not recorded.
	Answers map[string]string `json:"answers,omitempty"`
	// Patched is the object after all mutations, if they change it.
	Patched map[string]any `json:"patched,omitempty"`
}

// A User makes a request.
type User struct {
	Name         string   `json:"name,omitempty"`
	Groups       []string `json:"groups,omitempty"`
	Roles        []string `json:"roles,omitempty"`
	ClusterRoles []string `json:"clusterRoles,omitempty"`
}

// Load reads all files of a folder, with the base of each file in its rows.
func Load(folder string) ([]File, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", folder, err)
	}
	var all []File
	for _, name := range names {
		f, err := read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, *f)
	}
	return all, nil
}

func read(name string) (*File, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the corpus: %w", err)
	}
	var f File
	document, err := kyaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	unknown, err := kjson.UnmarshalStrict(document, &f)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	f.Name = filepath.Base(name[:len(name)-len(".yaml")])
	for i := range f.Rows {
		r := &f.Rows[i]
		if r.Operation == "" {
			r.Operation = "CREATE"
		}
		if r.Operation != "DELETE" {
			r.Object = onto(f.Base, r.Object)
		}
		if r.Operation != "CREATE" {
			r.OldObject = onto(f.Base, r.OldObject)
		}
	}
	return &f, nil
}

func onto(base, object map[string]any) map[string]any {
	all := maps.Clone(base)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, object)
	return all
}

// Record returns the text of a file with other answers and patched objects in its rows. All else is as it was.
func Record(text []byte, rows []Row) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read the corpus: %w", err)
	}
	list := field(document.Content[0], "rows")
	if list == nil || len(list.Content) != len(rows) {
		return nil, fmt.Errorf("expected %d rows", len(rows))
	}
	for i, of := range list.Content {
		answers := rows[i].Answers
		if answers == nil {
			answers = map[string]string{}
		}
		if err := set(of, "answers", answers, true); err != nil {
			return nil, err
		}
		if err := set(of, "patched", rows[i].Patched, rows[i].Patched != nil); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return nil, fmt.Errorf("write the corpus: %w", err)
	}
	return b.Bytes(), nil
}

func field(of *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value == name {
			return of.Content[i+1]
		}
	}
	return nil
}

// set sets a field of a mapping to a value on one line, or deletes it.
func set(of *yaml.Node, name string, to any, present bool) error {
	var value yaml.Node
	if err := value.Encode(to); err != nil {
		return fmt.Errorf("write the corpus: %w", err)
	}
	value.Style = yaml.FlowStyle
	for i := 0; i+1 < len(of.Content); i += 2 {
		if of.Content[i].Value != name {
			continue
		}
		if present {
			of.Content[i+1] = &value
		} else {
			of.Content = append(of.Content[:i], of.Content[i+2:]...)
		}
		return nil
	}
	if present {
		of.Content = append(of.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &value)
	}
	return nil
}

// Kinds returns the kinds of the corpus: those of Kubernetes, and Widget of example.com/v1, in whose spec anything may be.
func Kinds() (*kind.Set, error) {
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	defined, err := kind.Defined([]map[string]any{{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": anything},
				}},
			}},
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("the kinds of the corpus: %w", err)
	}
	return kind.Recorded().With(defined), nil
}
