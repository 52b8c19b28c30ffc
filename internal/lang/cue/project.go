package cue

import (
	"fmt"

	"github.com/usher-dev/usher/internal/lang/cue/internal/closure"
)

// errInput is ErrTooLarge of an input.
var errInput = fmt.Errorf("input %w", ErrTooLarge)

// project returns what the source reads of the parameters, ready to be encoded, or
// ErrTooLarge.
func (p *Program) project(params *closure.Params) (map[string]any, error) {
	j := projection{limits: &p.evaluator.limits}
	input := make(map[string]any, len(p.reads))
	for name, need := range p.reads {
		value, given := params.Get(name)
		if !given {
			continue
		}
		projected, err := j.value(value, need, 0)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		input[name] = projected
	}
	return input, nil
}

// A projection copies the part of trees that is read and counts what it copies.
type projection struct {
	limits        *Limits
	values, bytes int
}

func (j *projection) value(value any, n *need, depth int) (any, error) {
	if j.values++; j.values > j.limits.Values {
		return nil, fmt.Errorf("%w: more than %d values", errInput, j.limits.Values)
	}
	if depth > deepest {
		return nil, fmt.Errorf("%w: more than %d levels deep", errInput, deepest)
	}
	switch v := value.(type) {
	case map[string]any:
		return j.object(v, n, depth)
	case []any:
		return j.list(v, n, depth)
	case string:
		if err := j.count(len(v)); err != nil {
			return nil, err
		}
		return v, nil
	case nil, bool, int64, float64:
		return v, nil
	}
	return nil, fmt.Errorf("unexpected %T in a JSON tree", value)
}

func (j *projection) object(v map[string]any, n *need, depth int) (any, error) {
	if !n.whole && n.each == nil {
		object := make(map[string]any, min(len(v), len(n.fields)))
		for name, sub := range n.fields {
			field, ok := v[name]
			if !ok {
				continue
			}
			var err error
			if object[name], err = j.value(field, sub, depth+1); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	object := make(map[string]any, len(v))
	for name, field := range v {
		if err := j.count(len(name)); err != nil {
			return nil, err
		}
		sub := n
		if !n.whole {
			sub = n.field(name)
		}
		var err error
		if object[name], err = j.value(field, sub, depth+1); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// list keeps the elements up to the last one that is read, so that each keeps its index.
func (j *projection) list(v []any, n *need, depth int) (any, error) {
	if !n.whole && n.each == nil {
		last := -1
		for i := range n.elements {
			last = max(last, i)
		}
		v = v[:min(len(v), last+1)]
	}
	list := make([]any, len(v))
	for i, element := range v {
		sub := n
		if !n.whole {
			sub = &need{}
			sub.add(n.each)
			sub.add(n.elements[i])
		}
		var err error
		if list[i], err = j.value(element, sub, depth+1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (j *projection) count(bytes int) error {
	if j.bytes += bytes; j.bytes > j.limits.Bytes {
		return fmt.Errorf("%w: more than %d bytes", errInput, j.limits.Bytes)
	}
	return nil
}
