package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

// errNotTried is the error for facts that trials do not have.
var errNotTried = errors.New("trials have no facts")

// A world has the facts of trials: the namespace of the request, and nothing else.
type world struct {
	mu        sync.Mutex
	namespace map[string]any
	// namespaces and others say which facts the last request needed. Errors of facts can be values for a
	// program.
	namespaces, others bool
	// data are the facts besides the namespace, nil if there are none.
	data *sampleData
}

// Resolve implements [fact.Resolver].
func (w *world) Resolve(_ context.Context, ref fact.Ref) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := ref.(*fact.Object)
	isNamespace := ok && o.APIVersion == "v1" && o.Kind == "Namespace"
	if ok && w.data != nil && (!isNamespace || o.All) {
		if value, known, err := w.data.resolve(o); known {
			return value, err
		}
	}
	if !isNamespace || o.Name == "" || w.namespace == nil {
		w.others = true
		return nil, errNotTried
	}
	w.namespaces = true
	return w.namespace, nil
}

// begin is called before each request.
func (w *world) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces, w.others = false, false
}

// asked reports whether the last request needed facts, and lacks whether one that the world does not have.
func (w *world) asked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.namespaces || w.others
}

func (w *world) lacks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.others
}

// put replaces the namespace, and returns the one before.
func (w *world) put(namespace map[string]any) (before map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.namespace = w.namespace, namespace
	return before
}

// A place is a sample of a namespace: its labels and annotations.
type place map[string]map[string]any

// object returns the namespace, with the label that every one has.
func (p place) object(name string) map[string]any {
	labels := map[string]any{"kubernetes.io/metadata.name": name}
	maps.Copy(labels, p["labels"])
	metadata := map[string]any{"name": name, "labels": labels}
	if len(p["annotations"]) > 0 {
		metadata["annotations"] = p["annotations"]
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
}

// without returns the namespace without one key.
func (p place) without(of, key string) place {
	less := place{}
	for name, values := range p {
		less[name] = maps.Clone(values)
	}
	delete(less[of], key)
	return less
}

// textsOfPlaces are the values of labels and annotations that a rule may need to work.
var textsOfPlaces = []string{"x", "1", "true", "[]", "{}"}

// place returns a namespace with all labels and annotations that the policy names, and which its
// namespaceSelector selects.
func (m *maker) place(text string) place {
	p := place{}
	for name, keys := range m.words.keys {
		p[name] = map[string]any{}
		for _, key := range keys {
			p[name][key] = text
		}
	}
	if p["labels"] == nil {
		p["labels"] = map[string]any{}
	}
	m.words.namespaces.apply(p["labels"])
	return p
}

// A selection is labels that a selector selects, and the keys of those that must not be there.
type selection struct {
	with    map[string]string
	without []string
}

// apply makes labels some that are selected.
func (s *selection) apply(labels map[string]any) {
	for key, value := range s.with {
		labels[key] = value
	}
	for _, key := range s.without {
		delete(labels, key)
	}
}

func selectedBy(s *metav1.LabelSelector) selection {
	all := selection{with: maps.Clone(s.MatchLabels)}
	if all.with == nil {
		all.with = map[string]string{}
	}
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			if len(e.Values) > 0 {
				all.with[e.Key] = e.Values[0]
			}
		case metav1.LabelSelectorOpExists:
			all.with[e.Key] = "x"
		case metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpDoesNotExist:
			all.without = append(all.without, e.Key)
		}
	}
	return all
}

// settle finds a namespace in which the rule works for some object that has every field. If it works in none
// of those that are tried, what fails may be due to the namespace.
func (t *run) settle(ctx context.Context) {
	name := t.namespace
	if t.explained.selects {
		t.settled, t.at = true, t.place(textsOfPlaces[0])
		t.world.put(t.at.object(name))
		return
	}
	for i, text := range textsOfPlaces {
		t.world.put(t.place(text).object(name))
		works, asked := t.worksHere(ctx)
		if i == 0 && !asked || works {
			t.settled, t.at = true, t.place(text)
			return
		}
	}
	t.world.put(t.place(textsOfPlaces[0]).object(name))
}

// worksHere reports whether the rule works for some object because of the namespace that there is, and whether
// it asks for one at all.
func (t *run) worksHere(ctx context.Context) (works, asked bool) {
	objects := append(t.variants(), t.least())
	for _, operation := range t.operations() {
		for _, object := range objects {
			t.world.begin()
			decision, err := t.decider.Decide(ctx, t.request(operation, object))
			if err != nil || ctx.Err() != nil {
				return false, asked
			}
			if !t.world.asked() {
				continue
			}
			asked = true
			if !slices.ContainsFunc(decision.Findings, func(f usher.Finding) bool {
				_, failure := failedCheck(f.Checks)
				return f.Outcome == usher.Failed || failure != nil
			}) {
				return true, true
			}
		}
	}
	return false, asked
}

// places finds labels and annotations of namespaces without which the rule fails.
func (t *run) places(ctx context.Context) {
	if !t.settled || t.works == "" {
		return
	}
	defer t.world.put(t.at.object(t.namespace))
	for _, of := range []string{"labels", "annotations"} {
		for _, key := range slices.Sorted(maps.Keys(t.at[of])) {
			if _, selected := t.words.namespaces.with[key]; selected && of == "labels" {
				continue
			}
			t.world.put(t.at.without(of, key).object(t.namespace))
			failure := t.failure(ctx, t.works, t.base)
			if failure == nil || ctx.Err() != nil || len(t.problems) >= mostProblems {
				continue
			}
			missing := path{"metadata", of, key}
			t.problems = append(t.problems, t.problem(
				fmt.Sprintf("every %s in a namespace %s would be refused, because the rule fails: %s", t.of.Kind, missing.lacking(), reason(failure)),
				t.guardNamespace(missing)))
		}
	}
}

// guardNamespace returns advice how a rule can handle a namespace without a label or annotation.
func (t *run) guardNamespace(missing path) string {
	return "ask first whether it is there, such as namespaceObject.metadata.?" + missing[1] + "[?'" + missing[2] + "'].orValue('')"
}
