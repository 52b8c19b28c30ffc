package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/fact"
)

// A name is what tells the objects of a kind apart.
type name struct{ namespace, name string }

func nameOf(o *unstructured.Unstructured) name { return name{o.GetNamespace(), o.GetName()} }

func (n name) compare(other name) int {
	return cmp.Or(cmp.Compare(n.namespace, other.namespace), cmp.Compare(n.name, other.name))
}

// Objects are all objects of a kind, by namespace and name. They are the store of a reflector. The
// trees are never changed, only replaced.
type objects struct {
	// most is how many there may be, and overflow is called when there are more.
	most     int
	overflow func()
	// changed is called with each object that is new, different or gone, and without a name when
	// all objects are new.
	changed func(namespace, name string)
	// filled says that Replace was called; only Replace uses it.
	filled bool

	mu         sync.RWMutex
	namespaces map[string]map[string]map[string]any
	count      int
	// lists are what all has returned since the last change, by namespace and selector.
	lists map[string][]any
}

// mostLists is how many lists are kept: each policy that reads one asks for few.
const mostLists = 256

// named returns the object, or nil.
func (s *objects) named(namespace, name string) map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.namespaces[namespace][name]
}

// first returns the first object that is selected, by namespace and name, or nil. An empty
// namespace means all of them.
func (s *objects) first(namespace string, selector fact.Selector) map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if namespace != "" {
		return firstOf(s.namespaces[namespace], selector)
	}
	var first map[string]any
	var at string
	for n, trees := range s.namespaces {
		if first != nil && n >= at {
			continue
		}
		if tree := firstOf(trees, selector); tree != nil {
			first, at = tree, n
		}
	}
	return first
}

// all returns the objects that are selected, by namespace and name. An empty namespace means all
// of them.
func (s *objects) all(namespace string, selector fact.Selector) ([]any, error) {
	key := namespace + "/" + selector.String()
	s.mu.RLock()
	known, ok := s.lists[key]
	s.mu.RUnlock()
	if ok {
		return known, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.selected(namespace, selector)
	if err != nil {
		return nil, err
	}
	if s.lists == nil || len(s.lists) >= mostLists {
		s.lists = map[string][]any{}
	}
	s.lists[key] = all
	return all, nil
}

// selected returns what all does. The caller holds the lock.
func (s *objects) selected(namespace string, selector fact.Selector) ([]any, error) {
	namespaces := []string{namespace}
	if namespace == "" {
		namespaces = slices.Sorted(maps.Keys(s.namespaces))
	}
	all := []any{}
	for _, n := range namespaces {
		for _, name := range slices.Sorted(maps.Keys(s.namespaces[n])) {
			tree := s.namespaces[n][name]
			if !selector.Matches(tree) {
				continue
			}
			if all = append(all, tree); len(all) > maxSelected {
				return nil, fmt.Errorf("more than %d objects are selected by %s", maxSelected, selector)
			}
		}
	}
	return all, nil
}

// each calls f with the objects of a namespace, in no order.
func (s *objects) each(namespace string, f func(map[string]any)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, tree := range s.namespaces[namespace] {
		f(tree)
	}
}

func firstOf(trees map[string]map[string]any, selector fact.Selector) map[string]any {
	var first map[string]any
	var at string
	for n, tree := range trees {
		if (first == nil || n < at) && selector.Matches(tree) {
			first, at = tree, n
		}
	}
	return first
}

func (s *objects) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count
}

// Replace implements [reflector.Store].
func (s *objects) Replace(all []*unstructured.Unstructured) {
	s.mu.Lock()
	before := s.namespaces
	s.namespaces, s.count, s.lists = map[string]map[string]map[string]any{}, 0, nil
	for _, o := range all {
		s.put(o)
	}
	different := differences(before, s.namespaces)
	s.mu.Unlock()
	if !s.filled {
		s.filled = true
		s.changed("", "")
		return
	}
	for _, n := range different {
		s.changed(n.namespace, n.name)
	}
}

// differences are the names of objects that are different in two sets, or only in one.
func differences(before, after map[string]map[string]map[string]any) []name {
	var different []name
	for namespace, trees := range before {
		for n, tree := range trees {
			if other := after[namespace][n]; other == nil || version(other) != version(tree) {
				different = append(different, name{namespace, n})
			}
		}
	}
	for namespace, trees := range after {
		for n := range trees {
			if before[namespace][n] == nil {
				different = append(different, name{namespace, n})
			}
		}
	}
	return different
}

func version(tree map[string]any) string {
	o := unstructured.Unstructured{Object: tree}
	return string(o.GetUID()) + "/" + o.GetResourceVersion()
}

// Set implements [reflector.Store].
func (s *objects) Set(o *unstructured.Unstructured) {
	s.mu.Lock()
	s.put(o)
	s.mu.Unlock()
	s.changed(o.GetNamespace(), o.GetName())
}

func (s *objects) put(o *unstructured.Unstructured) {
	s.lists = nil
	n := nameOf(o)
	of := s.namespaces[n.namespace]
	if of == nil {
		of = map[string]map[string]any{}
		s.namespaces[n.namespace] = of
	}
	if _, known := of[n.name]; !known {
		s.count++
	}
	of[n.name] = o.Object
	if s.count > s.most {
		s.overflow()
	}
}

// Delete implements [reflector.Store].
func (s *objects) Delete(o *unstructured.Unstructured) {
	n := nameOf(o)
	s.remove(n)
	s.changed(n.namespace, n.name)
}

func (s *objects) remove(n name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[n.namespace]
	if _, known := of[n.name]; !known {
		return
	}
	s.count--
	s.lists = nil
	delete(of, n.name)
	if len(of) == 0 {
		delete(s.namespaces, n.namespace)
	}
}
