package jsonpatch

import (
	"errors"
	"fmt"

	usher "github.com/usher-dev/usher"
)

// mostCopied bounds what the operations of a patch copy, in bytes of JSON, as the API server does:
// a copy of a parent into its child doubles it.
const mostCopied = 3 << 20

// transfer copies or moves a value. Unlike the API server's applier it does not copy a missing
// value as null.
func (e *editor) transfer(op *usher.PatchOp) error {
	if op.From == "" {
		return fmt.Errorf("%s operation failed to decode from: operation, missing from field: %w", op.Op, errMissing)
	}
	value, err := e.valueAt(op)
	if err != nil {
		return err
	}
	if op.Op == "move" {
		// What follows sees that the value is gone.
		e.last = false
		if err := e.remove(&usher.PatchOp{Op: "remove", Path: op.From}); err != nil {
			return fmt.Errorf("error in move for path: '%s': %w", op.From, err)
		}
	} else {
		if e.copied += size(value, mostCopied-e.copied); e.copied > mostCopied {
			return fmt.Errorf("error in copy from: '%s': %w", op.From, errCopied)
		}
		// The value is in two places now: a change of one must not change the other.
		if e.own != nil && isContainer(value) {
			e.own = &owned{}
		}
	}
	if _, ok := e.find(op.Path); !ok {
		return fmt.Errorf("%s operation does not apply: doc is missing destination path: %s: %w", op.Op, op.Path, errMissing)
	}
	err = e.add(&usher.PatchOp{Op: "add", Path: op.Path, Value: value})
	switch {
	case err == nil:
		return nil
	case op.Op == "copy":
		return fmt.Errorf("error while adding value during copy: %w", errors.Unwrap(err))
	}
	return fmt.Errorf("error in move for path: '%s': %w", op.Path, errors.Unwrap(err))
}

var errCopied = errors.New("the operations of the patch copy more than 3 MiB")

// valueAt returns the value that an operation is from.
func (e *editor) valueAt(op *usher.PatchOp) (any, error) {
	at, ok := e.find(op.From)
	if !ok {
		return nil, fmt.Errorf("%s operation does not apply: doc is missing from path: %s: %w", op.Op, op.From, errMissing)
	}
	if array, ok := at.container.([]any); ok {
		index, err := elementIndex(array, at.key)
		if err != nil {
			return nil, fmt.Errorf("error in %s for from: '%s': %w", op.Op, op.From, err)
		}
		return array[index], nil
	}
	value, ok := at.member()
	if !ok && op.Op == "move" {
		return nil, fmt.Errorf("error in move for path: '%s': Unable to remove nonexistent key: %s: %w", at.key, at.key, errMissing)
	}
	if !ok {
		return nil, fmt.Errorf("%s operation does not apply: doc is missing from path: %s: %w", op.Op, op.From, errMissing)
	}
	return value, nil
}

// size returns the approximate JSON size of a value, in bytes. It stops counting at limit.
func size(value any, limit int) int {
	n := 8
	switch v := value.(type) {
	case string:
		n += len(v)
	case []any:
		for _, element := range v {
			if n > limit {
				break
			}
			n += size(element, limit-n)
		}
	case map[string]any:
		for key, member := range v {
			if n > limit {
				break
			}
			n += len(key) + size(member, limit-n)
		}
	}
	return n
}
