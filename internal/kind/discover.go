package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovered returns the set of the resources of a cluster, without schemas.
func Discovered(lists []*metav1.APIResourceList) *Set {
	s := New(nil, map[string]json.RawMessage{}, true)
	for _, list := range lists {
		in, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			of := &list.APIResources[i]
			r := Resource{
				Group: in.Group, Version: in.Version, Kind: of.Kind, Name: of.Name, Namespaced: of.Namespaced,
				Verbs: of.Verbs, Short: of.ShortNames,
			}
			if of.SingularName != "" && of.SingularName != of.Name {
				r.Short = append([]string{of.SingularName}, of.ShortNames...)
			}
			if of.Version != "" {
				r.Group, r.Version = of.Group, of.Version
			}
			if own := (schema.GroupVersion{Group: r.Group, Version: r.Version}); own != in {
				r.In = &in
			}
			s.add(r)
		}
	}
	return s
}

// InOrder returns what clients of an API server discovered in the order of the server: of each group the
// preferred version first. Clients return it in any order.
func InOrder(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	ranks := map[string]int{}
	rank := func(v metav1.GroupVersionForDiscovery) {
		if _, known := ranks[v.GroupVersion]; !known {
			ranks[v.GroupVersion] = len(ranks)
		}
	}
	for _, g := range groups {
		rank(g.PreferredVersion)
		for _, v := range g.Versions {
			rank(v)
		}
	}
	at := func(list *metav1.APIResourceList) int {
		if known, ok := ranks[list.GroupVersion]; ok {
			return known
		}
		return len(ranks)
	}
	return slices.SortedFunc(slices.Values(lists), func(a, b *metav1.APIResourceList) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.GroupVersion, b.GroupVersion))
	})
}

// AddDocument adds the schemas of a document of OpenAPI v3, as API servers serve them for one group
// and version.
func (s *Set) AddDocument(raw []byte) error {
	var document struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return fmt.Errorf("decode OpenAPI document: %w", err)
	}
	if len(document.Components.Schemas) == 0 {
		return errors.New("decode OpenAPI document: it has no schemas")
	}
	for name, of := range document.Components.Schemas {
		s.definitions[name] = of
		if !bytes.Contains(of, []byte("x-kubernetes-group-version-kind")) {
			continue
		}
		var kinds struct {
			Of []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		if err := json.Unmarshal(of, &kinds); err != nil || len(kinds.Of) != 1 {
			continue
		}
		for _, i := range s.byKind[kinds.Of[0]] {
			s.resources[i].Definition = name
		}
	}
	return nil
}

// Define adds a schema of a kind that is in no document.
func (s *Set) Define(kind schema.GroupVersionKind, of *Schema) error {
	raw, err := json.Marshal(of)
	if err != nil {
		return err
	}
	name := kind.String()
	s.definitions[name] = raw
	for _, i := range s.byKind[kind] {
		s.resources[i].Definition = name
	}
	return nil
}

// Record writes a set as [Recorded] reads it: without descriptions, and without unused definitions.
func (s *Set) Record() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	needed := map[string]bool{}
	rows := slices.Clone(s.resources)
	slices.SortStableFunc(rows, func(a, b Resource) int {
		return strings.Compare(a.Under()+"/"+a.Version+" "+a.Name, b.Under()+"/"+b.Version+" "+b.Name)
	})
	for i := range rows {
		if err := encoder.Encode(line{Resource: &rows[i]}); err != nil {
			return nil, err
		}
		s.refer(rows[i].Definition, needed)
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		raw, err := json.Marshal(s.definition(name).Simplify())
		if err != nil {
			return nil, err
		}
		if err := encoder.Encode(line{Definition: name, Schema: raw}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// refer adds a definition and all definitions that it refers to.
func (s *Set) refer(name string, needed map[string]bool) {
	of := s.definition(name)
	if name == "" || needed[name] || of == nil {
		return
	}
	needed[name] = true
	of.each(func(ref string) { s.refer(ref[strings.LastIndex(ref, "/")+1:], needed) })
}

// each calls f with all references.
func (s *Schema) each(f func(string)) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		f(s.Ref)
	}
	for _, of := range slices.Concat(s.AllOf, s.OneOf, s.AnyOf, slices.Collect(maps.Values(s.Properties))) {
		of.each(f)
	}
	s.Items.each(f)
	if s.Values != nil {
		s.Values.Schema.each(f)
	}
}
