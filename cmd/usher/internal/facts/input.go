package facts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/kind"
)

// recorded are the kinds of Kubernetes. Their recording is read once: facts are read for each decision.
var recorded = sync.OnceValue(kind.Recorded)

// Know says that the objects of the input exist, beside those of --facts, which count where both have one of a
// name: they are what somebody says a cluster has. Objects whose names API servers make are left out. Those of
// namespaced kinds are in a namespace if they name none: in default if it is empty. What users may do still follows
// from --facts alone.
func Know(input []map[string]any, namespace string, stores ...*Store) {
	stores = slices.DeleteFunc(slices.Clone(stores), func(s *Store) bool { return s == nil })
	if len(stores) == 0 {
		return
	}
	var known []map[string]any
	names := map[result.Identity]bool{}
	for _, tree := range input {
		of := result.IdentityOf(tree)
		if of.APIVersion == "" || of.Kind == "" || of.Name == "" {
			continue
		}
		switch gvk := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind); {
		case of.Namespace != "" || recorded().ClusterScoped(gvk):
		case namespace != "":
			of.Namespace, tree = namespace, within(tree, namespace)
		case recorded().Has(gvk):
			of.Namespace, tree = metav1.NamespaceDefault, within(tree, metav1.NamespaceDefault)
		}
		known = append(known, tree)
		names[of] = true
	}
	for _, tree := range stores[0].files {
		delete(names, result.IdentityOf(tree))
	}
	// Of two objects with one name the later counts.
	objects := object.FromTrees(slices.Concat(known, stores[0].files))
	for _, s := range stores {
		s.objects, s.input = objects, names
	}
}

// place returns objects in the namespace, as far as they name none and their kind is known to be in namespaces.
func (f *Flags) place(trees []map[string]any) ([]map[string]any, error) {
	if f.Namespace == "" {
		return trees, nil
	}
	defined, err := kind.Defined(trees)
	if err != nil {
		return nil, err
	}
	kinds := recorded().With(defined)
	for i, tree := range trees {
		trees[i] = placed(tree, f.Namespace, kinds)
	}
	return trees, nil
}

// placed returns an object in the namespace if it names none and its kind is known to be in namespaces.
func placed(tree map[string]any, namespace string, kinds *kind.Set) map[string]any {
	of := result.IdentityOf(tree)
	gvk := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	if of.Name == "" || of.Namespace != "" || !kinds.Has(gvk) || kinds.ClusterScoped(gvk) {
		return tree
	}
	return within(tree, namespace)
}

// within returns an object in a namespace.
func within(tree map[string]any, namespace string) map[string]any {
	metadata, _ := tree["metadata"].(map[string]any)
	metadata, tree = maps.Clone(metadata), maps.Clone(tree)
	metadata["namespace"], tree["metadata"] = namespace, metadata
	return tree
}

// inNamespace returns what was found for a namespace: objects that name none are in it if their kind is one of
// Kubernetes that is in namespaces.
func inNamespace(found any, namespace string) any {
	switch found := found.(type) {
	case map[string]any:
		return placed(found, namespace, recorded())
	case []any:
		all := slices.Clone(found)
		for i := range all {
			all[i] = inNamespace(all[i], namespace)
		}
		return all
	}
	return found
}

// Assume says that namespaces exist, as those of requests do: an API server refuses requests for
// others. It replaces those of the last call.
func (s *Store) Assume(namespaces []string) {
	if s == nil {
		return
	}
	s.assumed, s.labels = map[string]bool{}, nil
	for _, name := range namespaces {
		s.assumed[name] = true
	}
}

// Label says which labels assumed namespaces have besides the one with their name, until the next call of Assume.
func (s *Store) Label(with map[string]string) { s.labels = with }

// assume returns an assumed namespace.
func (s *Store) assume(name string) map[string]any {
	namespace := object.Namespace(name)
	metadata, _ := namespace["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	for key, value := range s.labels {
		if key != corev1.LabelMetadataName {
			all[key] = value
		}
	}
	return namespace
}

// Decide says which request is decided from now on: what it creates does not exist yet, unless --facts has it. A
// Namespace does: policies see it as the namespace of its own request.
func (s *Store) Decide(r *usher.Request) {
	if s == nil {
		return
	}
	s.absent = result.Identity{}
	if r.Operation != usher.Create || r.Subresource != "" {
		return
	}
	tree, err := r.Target().Tree()
	of := result.IdentityOf(tree)
	if err != nil || of.Kind == "Namespace" {
		return
	}
	if of.Namespace == "" && !s.input[of] {
		of.Namespace = r.Namespace
	}
	if s.input[of] {
		s.absent = of
	}
}

// existing are the objects that exist when a request is decided.
func (s *Store) existing() *object.Store {
	if s.absent == (result.Identity{}) {
		return s.objects
	}
	return s.objects.Without(s.absent.APIVersion, s.absent.Kind, s.absent.Namespace, s.absent.Name)
}

// noteRead remembers which objects of the input are among those that were found.
func (s *Store) noteRead(found any) {
	switch found := found.(type) {
	case map[string]any:
		if of := result.IdentityOf(found); s.input[of] {
			if s.read == nil {
				s.read = map[result.Identity]map[string]any{}
			}
			s.read[of] = found
		}
	case []any:
		for _, one := range found {
			s.noteRead(one)
		}
	case *fact.Sampled:
		for i := range found.Objects {
			s.noteRead(found.Objects[i].Decoded)
		}
	}
}

// TakeRead returns the objects of the input that policies have read since the last call.
func (s *Store) TakeRead() []map[string]any {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []map[string]any
	for _, of := range slices.SortedFunc(maps.Keys(s.read), compareIdentities) {
		all = append(all, s.read[of])
	}
	s.read = nil
	return all
}

func compareIdentities(a, b result.Identity) int {
	return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
