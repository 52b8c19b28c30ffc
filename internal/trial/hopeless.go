package trial

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// hopeless says that the rule fails on all objects. An expression fails certainly if it reads what no object
// has, and otherwise because of the values that the objects have.
func (t *run) hopeless(fails []usher.Operation, onLeast, onFull error) rule.Problem {
	p := t.problem(fmt.Sprintf("every %s would be refused, because the rule fails: %s", t.refusedObjects(fails), reason(onLeast)), t.remedy(fails))
	switch {
	case t.explained.targets == nil || onFull == nil:
	case lacked(onFull) != "" && !open(t.set, t.like):
		p.Severity = rule.Mistake
		// The compiler does not know the fields of elements of lists that are joined.
		if names := fieldNames(t.set, t.like); !slices.Contains(names, lacked(onFull)) {
			p.Do = cmp.Or(rule.Suggestion(lacked(onFull), names), p.Do)
		}
	default:
		p.What = fmt.Sprintf("every %s that it was tried on would be refused, because the rule fails: %s", t.refusedObjects(fails), reason(onFull))
	}
	return p
}

// open reports whether objects, or one of their fields, may have fields that are not in the schema: a rule that reads one of
// these only fails on the objects that it was tried on.
func open(set *kind.Set, of *kind.Schema) bool {
	of = set.Resolve(of)
	return of != nil && (of.Open || slices.ContainsFunc(slices.Collect(maps.Values(of.Properties)), func(field *kind.Schema) bool {
		field = set.Resolve(field)
		return field != nil && field.Open
	}))
}

// mostFields limits the names among which a misspelled one is looked for.
const mostFields = 5000

// fieldNames returns the names of the fields of objects, at any depth.
func fieldNames(set *kind.Set, of *kind.Schema) []string {
	names, seen := map[string]bool{}, map[*kind.Schema]bool{}
	for next := []*kind.Schema{of}; len(next) > 0 && len(names) < mostFields; next = next[1:] {
		of := set.Resolve(next[0])
		if of == nil || seen[of] {
			continue
		}
		seen[of] = true
		if next = append(next, of.Items); of.Values != nil {
			next = append(next, of.Values.Schema)
		}
		for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
			names[name] = true
			next = append(next, of.Properties[name])
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// noSuchKey is the error of an expression that reads a field or key which is not there.
var noSuchKey = regexp.MustCompile(`no such key: (.+)$`)

// lacked returns the field or key for lack of which a rule fails; empty if it fails because of something else.
func lacked(failure error) string {
	if failure == nil {
		return ""
	}
	if found := noSuchKey.FindStringSubmatch(failure.Error()); found != nil {
		return found[1]
	}
	return ""
}

// mostExtra limits the keys that objects get because a rule fails without them.
const mostExtra = 8

// enrich gives the objects the keys of maps that the rule computes, such as those of labels that it lists.
func (t *run) enrich(ctx context.Context) {
	for range mostExtra {
		found := ""
		for _, operation := range t.operations() {
			if key := lacked(t.failure(ctx, operation, t.full())); key != "" && !slices.Contains(t.extra, key) {
				found = key
				break
			}
		}
		if found == "" {
			return
		}
		t.extra = append(t.extra, found)
	}
}
