package try

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/trial"
)

// lookForPresets records the fields that policies change of the object as it is written, and not as API servers
// complete it.
func (j *Judgement) lookForPresets(ctx context.Context, d usher.Decider, q Question) {
	before, patch, r := j.before, j.Patch, q.Request
	asWritten := q.raw != nil && slices.ContainsFunc(j.Rules, func(of ruleResult) bool { return of.Phase == usher.Mutate })
	if asWritten {
		before = q.raw
	}
	completed := trial.Completed(before)
	if completed == nil {
		return
	}
	if asWritten {
		again := *r
		again.Object = usher.TreeObject(q.raw)
		mutation, err := d.Decide(ctx, &again)
		if err != nil || mutation.Verdict == usher.Deny {
			return
		}
		patch = mutation.Patch
	}
	isPreset := func(op usher.PatchOp) bool {
		_, written := at(before, op.Path)
		_, has := at(completed, op.Path)
		return op.Op == "add" && !written && has
	}
	if !slices.ContainsFunc(patch, isPreset) {
		return
	}
	again := *r
	again.Object = usher.TreeObject(completed)
	both, err := admission.Decide(ctx, d, &again)
	if err != nil || both.Denial() != nil {
		return
	}
	result := completed
	if both.Object != nil {
		if result, err = both.Object.Tree(); err != nil {
			return
		}
	}
	for _, op := range patch {
		value, _ := at(result, op.Path)
		if preset, _ := at(completed, op.Path); isPreset(op) && reflect.DeepEqual(preset, value) {
			j.Presets = append(j.Presets, op.Path)
		}
	}
}

// at returns the value that a JSON pointer leads to.
func at(value any, pointer string) (any, bool) {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch of := value.(type) {
		case map[string]any:
			next, ok := of[step]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(of) {
				return nil, false
			}
			value = of[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// printPresets tells which changes do not happen in a cluster.
func printPresets(b *strings.Builder, pointers []string, p cli.Palette) {
	for _, pointer := range pointers {
		fmt.Fprintf(b, "  %s %s is not changed in a cluster: API servers set this field before policies see an object\n", cli.Paint(p.Yellow, "hint:"), printable.Line(pointer))
	}
}
