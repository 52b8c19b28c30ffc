// Package jsonpatch applies JSON patches to decoded JSON trees without changing them.
//
// Operations have the meaning of the API server's applier, gopkg.in/evanphx/json-patch.v4, which is
// laxer than RFC 6902: replace of a missing key adds it, and negative indices count from the end.
// The operations that Apply returns conform to RFC 6902.
package jsonpatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
)

// ErrTest is the error of a test operation that found another value: a patch that tells the
// objects it is for from others.
var ErrTest = errors.New("test failed")

var (
	errMissing = errors.New("missing value")
	errIndex   = errors.New("invalid index referenced")
)

// Apply applies patch to tree, all of it or nothing. The tree is left alone; the result
// shares with it, and with the values of patch, what did not change.
//
// The returned patch, which may be part of the given one, is what happened, for any applier of RFC 6902: indices are counted
// from the front, a replace that adds is an add, pointers are in canonical form, and
// tests and operations without effect are left out. It leads from tree to the result.
func Apply(tree map[string]any, patch usher.Patch) (map[string]any, usher.Patch, error) {
	return ApplyWithin(tree, patch, nil)
}

// A Meter is told what an operation takes before it does: how many elements and keys it copies, and how many it
// moves, copies or compares. Its errors end the patch.
type Meter interface {
	Take(copied, touched int) error
}

// ApplyWithin is Apply as far as a meter lets it go; nil is no meter.
func ApplyWithin(tree map[string]any, patch usher.Patch, meter Meter) (map[string]any, usher.Patch, error) {
	var few [fewTokens]string
	e := newEditor(tree, patch, meter, few[:0])
	effective, err := e.run(nil, patch)
	if err != nil {
		return nil, nil, err
	}
	return e.root, effective, nil
}

// Effect is ApplyWithin without the tree that the patch results in, which takes the most time. The meter is told the
// same.
func Effect(tree map[string]any, patch usher.Patch, meter Meter) (usher.Patch, error) {
	var few [fewTokens]string
	e := newEditor(tree, patch, meter, few[:0])
	e.discards = true
	return e.run(nil, patch)
}

func newEditor(tree map[string]any, patch usher.Patch, meter Meter, tokens []string) editor {
	e := editor{root: tree, meter: meter, tokens: tokens}
	if len(patch) > 1 {
		e.own = &owned{}
	}
	return e
}

// Join returns the operations of a patch and then those of another. It may be one of the two: do not change these.
func Join(first, second usher.Patch) usher.Patch {
	if len(first) == 0 {
		return slices.Clip(second)
	}
	return append(first, second...)
}

// An Editor applies patches one after the other. It copies what it changes once, and then changes
// the copy: a tree that Tree returned may change with the next patch.
type Editor struct {
	editor editor
}

// NewEditor returns an Editor of tree, which is left alone.
func NewEditor(tree map[string]any) *Editor {
	return &Editor{editor{root: tree, own: &owned{}}}
}

// Tree returns the object as the patches have left it.
func (e *Editor) Tree() map[string]any { return e.editor.root }

// Append applies a patch and appends to done what happened, as Apply returns it. After an
// error the tree is somewhere in between, and the Editor of no more use.
func (e *Editor) Append(done, patch usher.Patch) (usher.Patch, error) {
	for i := range patch {
		if isContainer(patch[i].Value) {
			// It may be part of the tree, and is not to change with it.
			e.editor.own = &owned{}
			break
		}
	}
	return e.editor.run(done, patch)
}

func isContainer(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// An editor holds the tree as the operations so far have left it.
type editor struct {
	root map[string]any
	own  *owned
	// effective is what has happened. While kept, that is patch up to the operation at work, at.
	effective, patch usher.Patch
	at               int
	kept             bool
	// copied is the total size of the copies.
	copied int
	// touched is the number of elements and keys that were moved, copied or compared.
	touched int
	// tokens is the buffer for those of the current place.
	tokens []string
	// meter may be nil, and stopped is its error.
	meter   Meter
	stopped error
	// discards says that nobody needs the tree after the last operation, and last that this one is at work.
	discards, last bool
}

func (e *editor) run(done, patch usher.Patch) (usher.Patch, error) {
	e.effective, e.patch, e.kept = done, patch, done == nil
	for i := range patch {
		if e.touched > mostTouched {
			return nil, errTouched
		}
		e.last = i == len(patch)-1
		e.at, e.kept = i, e.kept && len(e.effective) == i
		if err := cmp.Or(e.apply(&patch[i]), e.stopped); err != nil {
			return nil, err
		}
	}
	return e.effective, nil
}

func (e *editor) apply(op *usher.PatchOp) error {
	switch op.Op {
	case "add":
		return e.add(op)
	case "remove":
		if err := e.remove(op); err != nil {
			return RemovalError{err}
		}
		return nil
	case "replace":
		return e.replace(op)
	case "test":
		return e.test(op)
	case "copy", "move":
		return e.transfer(op)
	}
	return fmt.Errorf("Unexpected kind: %s", op.Op) //nolint:staticcheck // the wording of the API server's applier is what users search for
}

// A RemovalError is the error of an operation that removes what is not there.
type RemovalError struct{ error }

// Unwrap returns the cause.
func (e RemovalError) Unwrap() error { return e.error }

func (e *editor) add(op *usher.PatchOp) error {
	at, ok := e.find(op.Path)
	if !ok {
		return fmt.Errorf("add operation does not apply: doc is missing path: %q: %w", op.Path, errMissing)
	}
	if array, ok := at.container.([]any); ok {
		index, err := insertIndex(array, at.key)
		if err != nil {
			return fmt.Errorf("error in add for path: '%s': %w", op.Path, err)
		}
		e.commit("add", at.index(index), change{kind: insert, value: op.Value})
		return nil
	}
	if old, exists := at.member(); exists && equal(old, op.Value) {
		return nil
	}
	e.commit("add", at, change{kind: set, value: op.Value})
	return nil
}

func (e *editor) remove(op *usher.PatchOp) error {
	at, ok := e.find(op.Path)
	if !ok {
		return fmt.Errorf("remove operation does not apply: doc is missing path: %q: %w", op.Path, errMissing)
	}
	if array, ok := at.container.([]any); ok {
		index, err := elementIndex(array, at.key)
		if err != nil {
			return fmt.Errorf("error in remove for path: '%s': %w", op.Path, err)
		}
		at = at.index(index)
	} else if _, exists := at.member(); !exists {
		return fmt.Errorf("error in remove for path: '%s': Unable to remove nonexistent key: %s: %w", op.Path, at.key, errMissing)
	}
	e.commit("remove", at, change{kind: drop})
	return nil
}

func (e *editor) replace(op *usher.PatchOp) error {
	if op.Path == "" {
		return e.replaceRoot(op.Value)
	}
	at, ok := e.find(op.Path)
	if !ok {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", op.Path, errMissing)
	}
	kind, old, exists := "replace", any(nil), true
	if array, ok := at.container.([]any); ok {
		index, err := elementIndex(array, at.key)
		if err != nil {
			return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", op.Path, errMissing)
		}
		old, at = array[index], at.index(index)
	} else if old, exists = at.member(); !exists {
		kind = "add"
	}
	if exists && equal(old, op.Value) {
		return nil
	}
	e.commit(kind, at, change{kind: set, value: op.Value})
	return nil
}

// replaceRoot requires an object: the root stays an object.
func (e *editor) replaceRoot(value any) error {
	root, ok := value.(map[string]any)
	if !ok || root == nil {
		return errors.New("replace operation value must be object")
	}
	if e.root != nil && equal(e.root, root) {
		return nil
	}
	e.root = root
	if e.own != nil {
		e.own = &owned{}
	}
	e.done(usher.PatchOp{Op: "replace", Path: "", Value: value})
	return nil
}

// test succeeds for a missing key if the value is null.
func (e *editor) test(op *usher.PatchOp) error {
	// An element takes two characters at least.
	if !e.takes(0, size(op.Value, mostTouched)/2) {
		return e.stopped
	}
	if op.Path == "" {
		if !equal(e.root, op.Value) {
			return fmt.Errorf("testing value %s failed: %w", op.Path, ErrTest)
		}
		return nil
	}
	at, ok := e.find(op.Path)
	if !ok {
		return fmt.Errorf("test operation does not apply: is missing path: %s: %w", op.Path, errMissing)
	}
	value, _ := at.member()
	if array, ok := at.container.([]any); ok {
		index, err := elementIndex(array, at.key)
		if err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", op.Path, err)
		}
		value = array[index]
	}
	if !equal(value, op.Value) {
		return fmt.Errorf("testing value %s failed: %w", op.Path, ErrTest)
	}
	return nil
}

// takes reports whether an operation may take so much.
func (e *editor) takes(copied, touched int) bool {
	e.touched += touched
	if e.meter != nil && e.stopped == nil {
		e.stopped = e.meter.Take(copied, touched)
	}
	return e.stopped == nil
}

// commit makes the change and records the operation, unless the meter stops it.
func (e *editor) commit(kind string, at place, c change) {
	path := at.path
	if !at.canonical {
		path = pointer(at.tokens)
	}
	copied := 0
	if e.meter != nil {
		copied = unowned(e.root, e.own, at.tokens)
	}
	if !e.takes(copied, at.touched) {
		return
	}
	if !e.discards || !e.last {
		e.root, _ = edit(e.root, e.own, at.tokens, c).(map[string]any)
	}
	e.done(usher.PatchOp{Op: kind, Path: path, Value: c.value})
}

// done records what the operation at work has done.
func (e *editor) done(op usher.PatchOp) {
	if e.kept {
		if said := &e.patch[e.at]; said.Op == op.Op && said.Path == op.Path && said.From == "" && (op.Op != "remove" || said.Value == nil) {
			e.effective = e.patch[: e.at+1 : e.at+1]
			return
		}
		e.kept = false
	}
	e.effective = append(e.effective, op)
}
