// Package object holds objects of a cluster in memory, for deciding without one: on the
// command line and in tests. Objects come as JSON trees, or from files by [Load].
package object

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/usher-dev/usher/fact"
)

// A Store resolves refs to the objects that it was made of. It is immutable.
type Store struct {
	kinds map[kind]objects
	// except is an object that the store does not have, of the kind; the zero value is none.
	except struct {
		kind

		name
	}
}

type kind struct{ apiVersion, kind string }

type name struct{ namespace, name string }

// objects are those of one kind, by name and in order of namespace and name.
type objects struct {
	byName  map[name]map[string]any
	ordered []map[string]any
	// namespaced and cluster say that some of them are in a namespace, and that some are in none.
	namespaced, cluster bool
	// except is left out; the zero value is none.
	except name
}

var _ fact.Resolver = (*Store)(nil)

// FromTrees returns the store of these objects, which must not change any more. An object
// without namespace is cluster-scoped. Of two objects with one name the later counts. The store
// also has the namespaces of every cluster, and all its namespaces have the label with their name.
func FromTrees(trees []map[string]any) *Store {
	s := &Store{kinds: map[kind]objects{}}
	for _, tree := range withNamespaces(trees) {
		k := kindOf(tree)
		of, ok := s.kinds[k]
		if !ok {
			of.byName = map[name]map[string]any{}
		}
		of.byName[nameOf(tree)] = tree
		of.namespaced = of.namespaced || nameOf(tree).namespace != ""
		of.cluster = of.cluster || nameOf(tree).namespace == ""
		s.kinds[k] = of
	}
	for k, of := range s.kinds {
		for _, tree := range of.byName {
			of.ordered = append(of.ordered, tree)
		}
		slices.SortFunc(of.ordered, func(a, b map[string]any) int {
			m, n := nameOf(a), nameOf(b)
			return cmp.Or(cmp.Compare(m.namespace, n.namespace), cmp.Compare(m.name, n.name))
		})
		s.kinds[k] = of
	}
	return s
}

// Without returns a store that has all objects but one, in constant time.
func (s *Store) Without(apiVersion, kindName, namespace, objectName string) *Store {
	less := &Store{kinds: s.kinds}
	less.except.kind, less.except.name = kind{apiVersion, kindName}, name{namespace, objectName}
	return less
}

// Has reports whether the store has an object of a kind.
func (s *Store) Has(apiVersion, kindName string) bool {
	for range s.of(kind{apiVersion, kindName}).each() {
		return true
	}
	return false
}

// of returns the objects of a kind.
func (s *Store) of(k kind) objects {
	of := s.kinds[k]
	if s.except.kind == k {
		of.except = s.except.name
	}
	return of
}

// each returns the objects in their order.
func (of objects) each() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, tree := range of.ordered {
			if nameOf(tree) != of.except && !yield(tree) {
				return
			}
		}
	}
}

// get returns the object of a name.
func (of objects) get(n name) (map[string]any, bool) {
	tree, ok := of.byName[n]
	return tree, ok && n != of.except
}

// Resolve finds the object that ref names or selects. A kind that the store has no object
// of is like any other: nothing is found. Whether a kind is namespaced is known from its objects.
func (s *Store) Resolve(_ context.Context, ref fact.Ref) (any, error) {
	o, ok := ref.(*fact.Object)
	if !ok {
		return nil, fmt.Errorf("resolve %s: it is not an object", ref)
	}
	of := s.of(kind{o.APIVersion, o.Kind})
	if o.Name != "" {
		return of.named(o)
	}
	if o.Selector == nil {
		return nil, nil
	}
	switch {
	case o.Sample != nil:
		return of.sample(o)
	case o.All:
		return of.all(o)
	}
	for tree := range of.each() {
		if (o.Namespace == "" || o.Namespace == nameOf(tree).namespace) && o.Selector.Matches(tree) {
			return tree, nil
		}
	}
	return nil, nil
}

func (of objects) named(o *fact.Object) (any, error) {
	if tree, ok := of.get(name{o.Namespace, o.Name}); ok {
		return tree, nil
	}
	if o.AnyScope {
		if tree, ok := of.get(name{"", o.Name}); ok {
			return tree, nil
		}
	}
	full := o.Name
	if o.Namespace != "" {
		full = o.Namespace + "/" + o.Name
	}
	missing := &fact.NotFound{Kind: o.Kind, Name: full}
	if scope := of.misplaced(o); scope != nil {
		return nil, fmt.Errorf("%w: %w", missing, scope)
	}
	return nil, missing
}

// misplaced returns the error for an object that cannot exist; nil if it can.
func (of objects) misplaced(o *fact.Object) error {
	switch {
	case o.Namespace == "" && o.AnyScope && of.namespaced && !of.cluster:
		return &fact.WrongScope{Namespaced: true}
	case o.Namespace != "" && !o.AnyScope && of.cluster && !of.namespaced:
		return &fact.WrongScope{Namespaced: false}
	}
	return nil
}

func (of objects) all(o *fact.Object) (any, error) {
	if err := of.misplaced(o); err != nil {
		return nil, fmt.Errorf("get %s: %w", o, err)
	}
	all := []any{}
	for tree := range of.each() {
		in := nameOf(tree).namespace
		every := o.Namespace == "" && !o.AnyScope
		if (every || o.Namespace == in || o.AnyScope && in == "") && o.Selector.Matches(tree) {
			all = append(all, tree)
		}
	}
	return all, nil
}

// sample returns some of the objects of a namespace.
func (of objects) sample(o *fact.Object) (any, error) {
	if err := of.misplaced(o); err != nil {
		return nil, fmt.Errorf("get %s: %w", o, err)
	}
	s := fact.NewSampler(o.Sample)
	for tree := range of.each() {
		if nameOf(tree).namespace == o.Namespace {
			s.Add(fact.Item{Decoded: tree}, tree)
		}
	}
	return s.Sampled(0), nil
}

func kindOf(tree map[string]any) kind {
	apiVersion, _ := tree["apiVersion"].(string)
	k, _ := tree["kind"].(string)
	return kind{apiVersion, k}
}

func nameOf(tree map[string]any) name {
	metadata, _ := tree["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	n, _ := metadata["name"].(string)
	return name{namespace, n}
}
