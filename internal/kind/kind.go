// Package kind has the kinds of objects that API servers serve: their resources and schemas. Those
// of Kubernetes itself are recorded; others come from CustomResourceDefinitions or from a cluster.
package kind

import (
	"bytes"
	_ "embed" // recorded.jsonl
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recorded is what an API server of Kubernetes serves, one resource or definition a line.
//
//go:embed recorded.jsonl
var recorded []byte

// A Resource is one entry of discovery.
type Resource struct {
	Group, Version, Kind string
	// Name has the subresource after a slash, such as pods/exec.
	Name       string
	Namespaced bool     `json:",omitempty"`
	Verbs      []string `json:",omitempty"`
	// Short are other names of the resource: the singular, and what kubectl understands.
	Short []string `json:",omitempty"`
	// In is the group and version of the resource, if it differs from that of the kind.
	In *schema.GroupVersion `json:",omitempty"`
	// Definition names the schema of the kind; "" if there is none.
	Definition string `json:",omitempty"`
}

// Of returns the kind of the objects.
func (r *Resource) Of() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// Under returns the group of the resource.
func (r *Resource) Under() string {
	if r.In != nil {
		return r.In.Group
	}
	return r.Group
}

// A Set has kinds and their schemas. It is safe for concurrent use.
type Set struct {
	resources   []Resource
	byKind      map[schema.GroupVersionKind][]int
	definitions map[string]json.RawMessage
	// Complete says that there are no other kinds: the set is that of a cluster.
	Complete bool

	mu      sync.Mutex
	decoded map[string]*Schema
}

// A line is one of a recording.
type line struct {
	Resource   *Resource       `json:",omitempty"`
	Definition string          `json:",omitempty"`
	Schema     json.RawMessage `json:",omitempty"`
}

// Recorded returns the kinds of Kubernetes itself. It reads a recording, which takes a moment, so
// keep the set.
func Recorded() *Set {
	s := New(nil, map[string]json.RawMessage{}, false)
	for text := range bytes.Lines(recorded) {
		var l line
		// A test reads all lines.
		if err := json.Unmarshal(text, &l); err != nil {
			continue
		}
		if l.Resource != nil {
			s.add(*l.Resource)
		} else {
			s.definitions[l.Definition] = l.Schema
		}
	}
	return s
}

// New returns a set of resources and definitions, which are schemas in JSON.
func New(resources []Resource, definitions map[string]json.RawMessage, complete bool) *Set {
	s := &Set{
		byKind: map[schema.GroupVersionKind][]int{}, definitions: definitions, Complete: complete,
		decoded: map[string]*Schema{},
	}
	for i := range resources {
		s.add(resources[i])
	}
	return s
}

func (s *Set) add(r Resource) {
	s.byKind[r.Of()] = append(s.byKind[r.Of()], len(s.resources))
	s.resources = append(s.resources, r)
}

// With returns a set that also has the kinds of other; these take precedence.
func (s *Set) With(other *Set) *Set {
	definitions := maps.Clone(s.definitions)
	maps.Copy(definitions, other.definitions)
	both := New(other.resources, definitions, s.Complete || other.Complete)
	for i := range s.resources {
		if r := s.resources[i]; len(other.byKind[r.Of()]) == 0 {
			both.add(r)
		}
	}
	return both
}

// Schemas returns a set of the resources of s, with schemas of other where s has none.
func (s *Set) Schemas(other *Set) *Set {
	definitions := maps.Clone(other.definitions)
	maps.Copy(definitions, s.definitions)
	filled := New(nil, definitions, s.Complete)
	for _, r := range s.resources {
		if same := other.byKind[r.Of()]; r.Definition == "" && len(same) > 0 {
			r.Definition = other.resources[same[0]].Definition
		}
		filled.add(r)
	}
	return filled
}

// Resources returns all resources.
func (s *Set) Resources() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for i := range s.resources {
			if !yield(&s.resources[i]) {
				return
			}
		}
	}
}

// Has reports whether there is a kind.
func (s *Set) Has(kind schema.GroupVersionKind) bool { return len(s.byKind[kind]) > 0 }

// Serving returns the resources whose objects are of a kind, such as pods and
// pods/ephemeralcontainers.
func (s *Set) Serving(kind schema.GroupVersionKind) []*Resource {
	var rows []*Resource
	for _, i := range s.byKind[kind] {
		rows = append(rows, &s.resources[i])
	}
	return rows
}

// ClusterScoped reports whether the objects of a kind are certainly cluster-scoped.
func (s *Set) ClusterScoped(kind schema.GroupVersionKind) bool {
	rows := s.Serving(kind)
	return len(rows) > 0 && !slices.ContainsFunc(rows, func(r *Resource) bool { return r.Namespaced })
}

// Schema returns the schema of a kind; nil if it is unknown.
func (s *Set) Schema(kind schema.GroupVersionKind) *Schema {
	for _, r := range s.Serving(kind) {
		if r.Definition != "" {
			return s.definition(r.Definition)
		}
	}
	return nil
}

// Resolve follows references; it returns nil if one cannot be resolved.
func (s *Set) Resolve(of *Schema) *Schema {
	for range 10 {
		switch {
		case of == nil:
			return nil
		case of.Ref != "":
			of = s.definition(of.Ref[strings.LastIndex(of.Ref, "/")+1:])
		case len(of.AllOf) == 1 && of.Type == "" && len(of.Properties) == 0:
			of = of.AllOf[0]
		default:
			return of
		}
	}
	return nil
}

func (s *Set) definition(name string) *Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, ok := s.decoded[name]; ok {
		return of
	}
	var of *Schema
	if raw, ok := s.definitions[name]; ok && json.Unmarshal(raw, &of) != nil {
		of = nil
	}
	s.decoded[name] = of
	return of
}
