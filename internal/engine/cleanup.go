package engine

import (
	"maps"
	"reflect"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// spared is why a rule that spares cleanup is skipped.
const spared = "the update only removes finalizers or owners, which the rule does not read"

// A cleanup says whether a request does nothing but remove finalizers and owners.
type cleanup int

const (
	unknownCleanup cleanup = iota
	noCleanup
	onlyCleanup
)

var ownersPaths = func() *usher.Paths {
	var p usher.Paths
	p.Add("metadata", "finalizers")
	p.Add("metadata", "ownerReferences")
	return &p
}()

// spares records that a rule is skipped if it is not for the request because that only cleans up.
func (d *evaluation) spares(r *rule.Rule) bool {
	if !r.SparesCleanup || d.request.Operation != usher.Update {
		return false
	}
	if d.cleanup == unknownCleanup {
		d.cleanup = cleanupOf(d.request)
	}
	if d.cleanup != onlyCleanup {
		return false
	}
	d.record(usher.Finding{Policy: r.Policy, Rule: r.Name, Outcome: usher.Skipped, Message: spared}, &result{})
	return true
}

// cleanupOf compares the object with the old one. An object that cannot be decoded is for the rules.
func cleanupOf(r *usher.Request) cleanup {
	object, err := r.Object.Part(ownersPaths)
	old, oldErr := r.OldObject.Part(ownersPaths)
	if err != nil || oldErr != nil || !removes(metadataOf(object), metadataOf(old)) {
		return noCleanup
	}
	// Few updates come this far.
	if object, err = r.Object.Tree(); err != nil {
		return noCleanup
	}
	if old, err = r.OldObject.Tree(); err != nil || !reflect.DeepEqual(withoutOwners(object), withoutOwners(old)) {
		return noCleanup
	}
	return onlyCleanup
}

func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

// removes reports whether finalizers or owners are removed, and none is added or changed.
func removes(metadata, old map[string]any) bool {
	removed := false
	for _, key := range []string{"finalizers", "ownerReferences"} {
		now, _ := metadata[key].([]any)
		before, _ := old[key].([]any)
		for _, value := range now {
			if !slices.ContainsFunc(before, func(other any) bool { return reflect.DeepEqual(value, other) }) {
				return false
			}
		}
		removed = removed || len(now) < len(before)
	}
	return removed
}

// withoutOwners returns an object without finalizers and owners, and without what API servers change in any update.
func withoutOwners(object map[string]any) map[string]any {
	object = maps.Clone(object)
	metadata := maps.Clone(metadataOf(object))
	for _, key := range []string{"finalizers", "ownerReferences", "managedFields", "resourceVersion"} {
		delete(metadata, key)
	}
	object["metadata"] = metadata
	return object
}
