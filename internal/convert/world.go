package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
)

// A world is what requests may be about, besides objects: users, namespaces and labels.
type world struct {
	// params are the objects of params, also those that are in place.
	objects, params []map[string]any
	namespaces      []string
	labels          []map[string]string
	users           []usher.User
}

// crossed is how many samples are tried with each user, namespace and set of labels; the others are
// tried with one of each.
const crossed = 12

// worldOf returns a world in which the selectors and subjects of a policy select something.
func worldOf(c *Conversion, objects []map[string]any) *world {
	w := &world{
		objects: slices.Concat(objects, c.Params), namespaces: []string{"x"},
		users: []usher.User{
			{Name: "jane", Groups: []string{"devs", "system:authenticated"}},
			{Name: "system:serviceaccount:x:x", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"}},
		},
	}
	for _, object := range w.objects {
		if namespace, _ := nameIn(object); namespace != "" && !slices.Contains(w.namespaces, namespace) {
			w.namespaces = append(w.namespaces, namespace)
		}
	}
	for _, o := range slices.Concat(c.From, c.To) {
		for _, m := range compile.Matches(o) {
			w.addNamespaces(m.NamespaceSelector)
			w.labels = append(w.labels, labelsFor(m.ObjectSelector)...)
		}
		w.addUsers(o)
	}
	w.params = slices.Concat(w.objects, inPlaceOf(c))
	for _, name := range w.namespaces {
		if !slices.ContainsFunc(w.objects, func(o map[string]any) bool { _, is := nameIn(o); return o["kind"] == "Namespace" && is == name }) {
			w.objects = append(w.objects, object.Namespace(name))
		}
	}
	return w
}

// addNamespaces adds namespaces about which a selector says something.
func (w *world) addNamespaces(s *metav1.LabelSelector) {
	for _, labels := range labelsFor(s) {
		name := cmp.Or(labels[corev1.LabelMetadataName], fmt.Sprintf("labeled-%d", len(w.namespaces)))
		tree := map[string]any{corev1.LabelMetadataName: name}
		for key, value := range labels {
			tree[key] = value
		}
		w.namespaces = append(w.namespaces, name)
		w.objects = append(w.objects, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": tree}})
	}
}

// labelsFor returns labels that a selector selects, and labels that it excludes; none if the absence of
// labels is all that it selects, or if it selects everything.
func labelsFor(s *metav1.LabelSelector) []map[string]string {
	if s == nil {
		return nil
	}
	selected, excluded := map[string]string{}, map[string]string{}
	maps.Copy(selected, s.MatchLabels)
	for _, e := range s.MatchExpressions {
		value := "x"
		if len(e.Values) > 0 {
			value = e.Values[0]
		}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists {
			selected[e.Key] = value
		} else {
			excluded[e.Key] = value
		}
	}
	var all []map[string]string
	if len(selected) > 0 {
		all = append(all, selected)
	}
	if len(excluded) > 0 {
		maps.Copy(excluded, selected)
		all = append(all, excluded)
	}
	return all
}

// mostConstants limits the constants of params.
const mostConstants = 30

// constants returns the values that the objects of params have, and those beside them.
func (w *world) constants() []any {
	var all []any
	add := func(values ...any) {
		for _, v := range values {
			if len(all) < mostConstants && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(v[name])
			}
		case []any:
			for _, element := range v {
				walk(element)
			}
		case string:
			if number, err := strconv.ParseInt(v, 10, 64); err == nil {
				add(number, number+1)
			}
			add(v)
		case int64:
			add(v, v+1)
		case bool, float64:
			add(v)
		}
	}
	for _, object := range w.params {
		if kind, _ := object["kind"].(string); kind == "CustomResourceDefinition" {
			continue
		}
		content := maps.Clone(object)
		for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
			delete(content, name)
		}
		walk(content)
	}
	return all
}

// requests returns a sample in the world. The first samples are tried in more ways.
func (w *world) requests(i int, sample *usher.Request) []*usher.Request {
	var all []*usher.Request
	for n := range max(len(w.namespaces), 1) {
		for u := range w.users {
			for l := range len(w.labels) + 1 {
				chosen := n == i%len(w.namespaces) && u == i%len(w.users) && l == i%(len(w.labels)+1)
				if i < crossed || chosen {
					all = append(all, w.request(sample, n, u, l))
				}
			}
		}
	}
	return all
}

func (w *world) request(sample *usher.Request, namespace, user, labels int) *usher.Request {
	r := *sample
	r.User = w.users[user]
	change := func(o *usher.Object) *usher.Object {
		tree, err := o.Tree()
		if o == nil || err != nil {
			return o
		}
		metadata, ok := tree["metadata"].(map[string]any)
		if !ok {
			return o
		}
		tree, metadata = maps.Clone(tree), maps.Clone(metadata)
		tree["metadata"] = metadata
		if _, namespaced := metadata["namespace"]; namespaced {
			metadata["namespace"] = w.namespaces[namespace]
		}
		if labels > 0 {
			all, _ := metadata["labels"].(map[string]any)
			if all = maps.Clone(all); all == nil {
				all = map[string]any{}
			}
			for key, value := range w.labels[labels-1] {
				all[key] = value
			}
			metadata["labels"] = all
		}
		return usher.TreeObject(tree)
	}
	r.Object, r.OldObject = change(sample.Object), change(sample.OldObject)
	if r.Namespace != "" && r.Kind.Kind != "Namespace" {
		r.Namespace = w.namespaces[namespace]
	}
	return &r
}

// inPlaceOf returns the params that policies have in place.
func inPlaceOf(c *Conversion) []map[string]any {
	var all []map[string]any
	for _, o := range slices.Concat(c.From, c.To) {
		policy, ok := o.(*v1alpha1.ClusterObjectPolicy)
		if !ok {
			continue
		}
		for _, b := range policy.Spec.Bindings {
			if b.Params == nil {
				continue
			}
			if params, err := usher.RawObject(b.Params.Raw).Tree(); err == nil {
				all = append(all, params)
			}
		}
	}
	return all
}
