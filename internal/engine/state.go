package engine

import (
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
)

// A state is the object of a request as the rules so far have left it, and the old object.
type state struct {
	request *usher.Request
	// tree is the object, decoded at paths; editor changes it, and is nil until then. applied are the
	// changes: the first kept operations are those of finished rules, the others of the current one. The
	// tree is broken if an operation failed. old is the old object of an update, nil until the first rule
	// matches, decoded at oldPaths.
	tree     map[string]any
	paths    *usher.Paths
	editor   *jsonpatch.Editor
	applied  usher.Patch
	kept     int
	broken   bool
	old      map[string]any
	oldPaths *usher.Paths
	// memo is that of tree and old; ownMemo, unless a rule runs again without containers.
	memo    *rule.Memo
	ownMemo rule.Memo
	// rules is how many rules of the pass match, which may change the object.
	rules int
	// began is the object as these were matched on it, nil unless one of them names resources.
	began map[string]any
}

// widen decodes the values at paths.
func (s *state) widen(paths *usher.Paths) error {
	if paths.Within(s.paths) {
		return nil
	}
	s.paths = paths
	return s.restore()
}

// restore rebuilds the tree: the object of the request with the applied changes.
func (s *state) restore() error {
	tree, err := s.request.Target().Part(s.paths)
	if err != nil {
		return err
	}
	s.tree, s.editor = tree, nil
	s.memo.Reset()
	if len(s.applied) == 0 {
		return nil
	}
	s.editor = jsonpatch.NewEditor(tree)
	if _, err := s.editor.Append(nil, s.applied); err != nil {
		return fmt.Errorf("change object again: %w", err)
	}
	s.tree = s.editor.Tree()
	return nil
}

// change applies the changes of the current rule. It decodes the values that they change, if no
// program reads them.
func (s *state) change(patch usher.Patch) error {
	for i := range patch {
		if !s.paths.CoversPointer(patch[i].Path) {
			if err := s.widen(usher.AllPaths()); err != nil {
				return err
			}
			break
		}
	}
	if s.editor == nil {
		s.editor = jsonpatch.NewEditor(s.tree)
	}
	if s.applied == nil {
		s.applied = make(usher.Patch, 0, max(len(patch), s.rules))
	}
	s.broken = true
	applied, err := s.editor.Append(s.applied, patch)
	if err != nil {
		return err
	}
	s.broken = false
	s.tree, s.applied = s.editor.Tree(), applied
	s.memo.Reset()
	return nil
}

// changed is what the rule at work has changed so far.
func (s *state) changed() usher.Patch {
	return s.applied[s.kept:len(s.applied):len(s.applied)]
}

// keep makes the changes of the current rule permanent.
func (s *state) keep() { s.kept = len(s.applied) }

// undo reverts the changes of the current rule.
func (s *state) undo() error {
	// A program that failed may have left goroutines that still read the tree. It must not change
	// any more, so a new editor copies.
	s.editor = nil
	if !s.broken && len(s.applied) == s.kept {
		return nil
	}
	s.applied, s.broken = s.applied[:s.kept], false
	return s.restore()
}

func (s *state) widenOld(paths *usher.Paths) error {
	if s.request.Object == nil || s.request.OldObject == nil || s.old != nil && paths.Within(s.oldPaths) {
		return nil
	}
	old, err := s.request.OldObject.Part(paths)
	if err != nil {
		return fmt.Errorf("old object: %w", err)
	}
	s.old, s.oldPaths = old, paths
	s.memo.Reset()
	return nil
}

// remember keeps the object as rules that name resources were matched on it: an editor would change
// it.
func (s *state) remember(matched []*rule.Rule) {
	s.began = nil
	if slices.ContainsFunc(matched, func(r *rule.Rule) bool { return len(r.Match.Resources) > 0 }) {
		s.began, s.editor = s.tree, nil
	}
}

// discards reports whether changes come to nothing: an object about to go is not changed.
func (s *state) discards() bool {
	return s.request.Phase == usher.Mutate && s.request.Operation == usher.Delete
}
