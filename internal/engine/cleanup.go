package engine

import (
	"maps"
	"reflect"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// cleansUp is why a rule that is not for cleanup is skipped.
const cleansUp = "the update only removes finalizers or owners, which the rule does not read"

// mostOwners limits the finalizers, and the owners, that are compared each with each.
const mostOwners = 100

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

// isNotFor records that a rule is skipped if the request only cleans up, and the rule is not for that.
func (d quick) isNotFor(r *rule.Rule) bool {
	if !r.NotForCleanup || d.request.Operation != usher.Update {
		return false
	}
	if d.cleanup == unknownCleanup {
		d.cleanup = cleanupOf(d.request)
	}
	if d.cleanup != onlyCleanup {
		return false
	}
	d.record(&usher.Finding{Policy: r.Policy, Rule: r.Name, Outcome: usher.Skipped, Message: cleansUp}, &result{})
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
		if len(before) > mostOwners || len(now) > len(before) {
			return false
		}
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
