package trial

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

// selected are the labels of the sample pods of a workload, which selects its pods by all of them.
const selected = "app"

// relabels warns of a rule that replaces or removes labels of pods that a workload has made: the controller of one
// that selects its pods by such a label makes another pod at once, and again.
func (t *run) relabels(ctx context.Context) {
	if t.rule.Phase != usher.Mutate || t.of.Group != "" || t.of.Kind != "Pod" || t.works == "" {
		return
	}
	keys := append(t.keys([]string{"metadata", "labels"}), selected)
	var lost []string
	// What a rule adds to the first pods, the second ones have.
	for range 2 {
		lost = nil
		for _, base := range []map[string]any{t.base, t.least()} {
			pod := ofWorkload(base, keys)
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
	what := "the label " + lost[0]
	if len(lost) > 1 {
		what = "the labels " + strings.Join(lost[:len(lost)-1], ", ") + " and " + lost[len(lost)-1]
	}
	p := t.problem(
		fmt.Sprintf("the rule replaces or removes %s of pods that have it: the controller of a workload that selects its pods by it makes pods endlessly", what),
		"add labels only where they are missing")
	if len(lost) > 1 {
		p.What = strings.Replace(strings.Replace(p.What, "have it:", "have them:", 1), "by it makes", "by one of them makes", 1)
	}
	if t.explained.targets != nil {
		p.Field = "spec.mutations"
		p.Do += fmt.Sprintf(", as with the match condition !has(object.metadata.labels) || !('%s' in object.metadata.labels)", lost[0])
	}
	t.problems = append(t.problems, p)
}

// ofWorkload returns a pod as a ReplicaSet would make it of a template with such labels.
func ofWorkload(pod map[string]any, keys []string) map[string]any {
	pod = runtime.DeepCopyJSON(pod)
	metadata, ok := pod["metadata"].(map[string]any)
	if !ok {
		return pod
	}
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	for _, key := range keys {
		if _, has := labels[key]; !has {
			labels[key] = "usher-sample"
		}
	}
	metadata["labels"] = labels
	metadata["ownerReferences"] = []any{map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true, "blockOwnerDeletion": true,
	}}
	return pod
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
