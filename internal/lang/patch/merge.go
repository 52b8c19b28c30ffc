package patch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// deepestMerge is how deep a merge patch may be. API servers refuse much deeper objects.
const deepestMerge = 128

// longestPaths is how many bytes the paths of the operations of a merge patch may have together. Each has the
// names of the fields above it again.
const longestPaths = 1 << 20

// operationBytes and operationNanos are what an operation takes besides its path.
const operationBytes, operationNanos = 256, 1000

// Merge returns the program that merges a JSON merge patch (RFC 7386) into the object: null removes a
// field, objects are merged, and everything else replaces what was there. Fields of problems are
// relative to the patch.
//
// The program is nil if there is a problem.
func Merge(raw []byte) (rule.Program, []rule.Problem) {
	fail := func(field, what, do string) (rule.Program, []rule.Problem) {
		return nil, []rule.Problem{{Severity: rule.Error, Field: field, What: what, Do: do}}
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return fail("", "the patch cannot be read: "+err.Error(), "write the fields that change, as in the object")
	}
	m := &merge{}
	var ok bool
	if m.patch, ok = value.(map[string]any); !ok {
		return fail("", "the patch is no map: it would replace the object", "write the fields that change, as in the object")
	}
	if len(m.patch) == 0 {
		return fail("", "the patch is empty: it changes nothing", "write the fields that change, as in the object")
	}
	if depth(m.patch) > deepestMerge {
		return fail("", fmt.Sprintf("the patch is deeper than %d fields", deepestMerge), "write a flatter patch")
	}
	if m.operations, m.paths = lengths(m.patch, 0); m.paths > longestPaths {
		return fail("", "the paths of the fields that change have more than 1 MiB together", "write shorter names of fields above others, or fewer fields below them")
	}
	m.want(nil, m.patch)
	return m, nil
}

// depth is how deep the maps of a value are.
func depth(value any) int {
	fields, ok := value.(map[string]any)
	if !ok {
		return 0
	}
	deepest := 0
	for _, field := range fields {
		deepest = max(deepest, depth(field))
	}
	return deepest + 1
}

// lengths returns how many operations a patch may have, and the bytes of their paths together. The first
// argument is below a path of that length.
func lengths(fields map[string]any, path int) (operations, paths int) {
	for name, value := range fields {
		at := path + 1 + len(name)
		operations, paths = operations+1, paths+at
		if below, ok := value.(map[string]any); ok {
			n, bytes := lengths(below, at)
			operations, paths = operations+n, paths+bytes
		}
	}
	return operations, paths
}

// A merge is a merge patch.
type merge struct {
	patch map[string]any
	reads usher.Paths
	// operations and paths are what lengths returns.
	operations, paths int
}

// want adds the paths whose values decide how the object is patched.
func (m *merge) want(path []string, fields map[string]any) {
	for name, value := range fields {
		at := append(slices.Clip(path), name)
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			m.want(at, below)
			continue
		}
		m.reads.Add(at...)
	}
}

// ReadPaths implements [rule.Selective].
func (m *merge) ReadPaths() (object, old *usher.Paths) { return &m.reads, nil }

// DependsOn implements [rule.Dependent].
func (m *merge) DependsOn(usher.Operation) rule.Dependencies { return 0 }

// Run implements [rule.Program].
func (m *merge) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	if in.Allowance != nil {
		// A path is made once, and its escapes double it.
		nanos, bytes := operationNanos*m.operations+m.paths, operationBytes*m.operations+2*m.paths
		if err := in.Allowance.Take(time.Duration(nanos), int64(bytes)); err != nil {
			return rule.Outcome{}, err
		}
	}
	var ops usher.Patch
	return rule.Outcome{Patch: merged(ops, "", in.Object, m.patch)}, nil
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// merged appends the operations that merge a patch into an object, in the order of the fields.
func merged(ops usher.Patch, pointer string, object, patch map[string]any) usher.Patch {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		value := patch[name]
		before, exists := object[name]
		at := pointer + "/" + pointerEscapes.Replace(name)
		if value == nil {
			if exists {
				ops = append(ops, usher.PatchOp{Op: "remove", Path: at})
			}
			continue
		}
		if fields, ok := value.(map[string]any); ok {
			if inner, ok := before.(map[string]any); ok {
				ops = merged(ops, at, inner, fields)
				continue
			}
			value = withoutNulls(fields)
		}
		ops = append(ops, usher.PatchOp{Op: "add", Path: at, Value: value})
	}
	return ops
}

// withoutNulls returns the fields of a patch that have a value: those are what it makes of nothing.
// Lists stay as they are.
func withoutNulls(fields map[string]any) map[string]any {
	result := make(map[string]any, len(fields))
	for name, value := range fields {
		if below, ok := value.(map[string]any); ok {
			value = withoutNulls(below)
		}
		if value != nil {
			result[name] = value
		}
	}
	return result
}

// String implements [rule.Program].
func (m *merge) String() string {
	var paths []string
	var visit func(path string, fields map[string]any)
	visit = func(path string, fields map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if below, ok := fields[name].(map[string]any); ok && len(below) > 0 {
				visit(path+"/"+name, below)
				continue
			}
			paths = append(paths, path+"/"+name)
		}
	}
	visit("", m.patch)
	return "merge " + strings.Join(paths, ", ")
}
