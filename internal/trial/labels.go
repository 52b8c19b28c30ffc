package trial

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kselection "k8s.io/apimachinery/pkg/selection"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// usualLabel is one of the labels of the sample pods of a workload, which selects its pods by all of them.
const usualLabel = "app"

// relabels warns of a rule that replaces or removes labels of pods that a workload has made: the controller of one
// that selects its pods by such a label makes another pod at once, and again.
func (t *run) relabels(ctx context.Context) {
	if t.rule.Phase != usher.Mutate || t.of.Group != "" || t.of.Kind != "Pod" || t.works == "" {
		return
	}
	keys := append(t.keys([]string{"metadata", "labels"}), usualLabel)
	var lost []string
	// What a rule adds to the first pods, the second ones have.
	for range 2 {
		lost = nil
		for i, base := range slices.Repeat([]map[string]any{t.base, t.least()}, min(len(t.rule.Match.Selectors), mostVariants)) {
			pod, selected := ofWorkload(base, keys, &t.rule.Match.Selectors[i/2])
			if !selected || ctx.Err() != nil {
				continue
			}
			before, after := t.labelsAfter(ctx, pod)
			for _, key := range slices.Sorted(maps.Keys(before)) {
				if !reflect.DeepEqual(before[key], after[key]) && !slices.Contains(lost, key) {
					lost = append(lost, key)
				}
			}
			keys = append(keys, slices.Collect(maps.Keys(after))...)
		}
	}
	if len(lost) == 0 || len(t.problems) >= mostProblems {
		return
	}
	slices.Sort(lost)
	what, have, by := "the label "+lost[0], "it", "it"
	if len(lost) > 1 {
		what = "the labels " + printable.List(lost, "and")
		have, by = "them", "one of them"
	}
	p := t.problem(
		fmt.Sprintf("the rule replaces or removes %s of pods that have %s: the controller of a workload that selects its pods by %s makes pods endlessly", what, have, by),
		"add labels only where they are missing")
	if t.explained.targets != nil {
		p.Field = "spec.mutations"
		p.Do += fmt.Sprintf(", as with the match condition !has(object.metadata.labels) || !('%s' in object.metadata.labels)", lost[0])
	}
	t.problems = append(t.problems, p)
}

// ofWorkload returns a pod as a ReplicaSet would make it of a template with such labels, and with those that a selector
// of policies demands. Otherwise it is false.
func ofWorkload(pod map[string]any, keys []string, by *rule.Selector) (made map[string]any, selected bool) {
	pod = runtime.DeepCopyJSON(pod)
	metadata, ok := pod["metadata"].(map[string]any)
	if !ok || by.Kind != "Pod" || by.Name != "" || len(by.Fields) > 0 {
		return nil, false
	}
	with, _ := metadata["labels"].(map[string]any)
	if with == nil {
		with = map[string]any{}
	}
	for _, key := range keys {
		if _, has := with[key]; !has {
			with[key] = "usher-sample"
		}
	}
	demand(with, by.Labels)
	metadata["labels"] = with
	metadata["ownerReferences"] = []any{map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true, "blockOwnerDeletion": true,
	}}
	return pod, by.Labels == nil || by.Labels.Matches(labels.Set((&unstructured.Unstructured{Object: pod}).GetLabels()))
}

// demand gives labels what a selector demands of them.
func demand(all map[string]any, by labels.Selector) {
	if by == nil {
		return
	}
	requirements, _ := by.Requirements()
	for i := range requirements {
		values := slices.Sorted(maps.Keys(requirements[i].Values()))
		switch requirements[i].Operator() {
		case kselection.In, kselection.Equals, kselection.DoubleEquals:
			if len(values) > 0 {
				all[requirements[i].Key()] = values[0]
			}
		case kselection.Exists:
			if _, has := all[requirements[i].Key()]; !has {
				all[requirements[i].Key()] = "usher-sample"
			}
		case kselection.DoesNotExist:
			delete(all, requirements[i].Key())
		default:
		}
	}
}

// labelsAfter returns the labels of a pod before and after the rule; the same if it fails, or depends on what trials
// do not have.
func (t *run) labelsAfter(ctx context.Context, pod map[string]any) (before, after map[string]any) {
	r := t.request(t.works, pod)
	object, err := r.Object.Tree()
	if err != nil {
		return nil, nil
	}
	before = labelsOf(object)
	t.world.begin()
	decision, err := t.decider.Decide(ctx, r)
	if err != nil || ctx.Err() != nil || decision.Verdict == usher.Deny || t.world.lacks() {
		return before, before
	}
	changed, _, err := jsonpatch.Apply(object, decision.Patch)
	if err != nil {
		return before, before
	}
	return before, labelsOf(changed)
}

func labelsOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return labels
}
