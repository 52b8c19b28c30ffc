package interpret

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// errMissing says that a map has no such key. Most expressions read it as null.
var errMissing = errors.New("unknown key")

// steps is how many nodes and elements the expressions of an answer may visit.
const steps = 1_000_000

var errSteps = errors.New("expressions take too long")

// An evaluator evaluates expressions, within what is left of its steps.
type evaluator struct{ left int }

// lenient turns a missing key into null.
func lenient(value any, err error) (any, error) {
	if errors.Is(err, errMissing) {
		return nil, nil
	}
	return value, err
}

func (e *evaluator) null(n *jmespath.Node, of any) (any, error) { return lenient(e.value(n, of)) }

// value evaluates a node on a value.
func (e *evaluator) value(n *jmespath.Node, of any) (any, error) {
	if e.left--; e.left < 0 {
		return nil, errSteps
	}
	switch n.Op {
	case jmespath.Current:
		return of, nil
	case jmespath.Field:
		return fieldOf(of, n.Text)
	case jmespath.Literal:
		return n.Value, nil
	case jmespath.Index, jmespath.Slice:
		return element(n, of)
	case jmespath.Sub:
		left, err := e.value(n.Args[0], of)
		if err != nil {
			return nil, err
		}
		return e.value(n.Args[1], left)
	case jmespath.Pipe:
		left, err := e.null(n.Args[0], of)
		if err != nil {
			return nil, err
		}
		return e.null(n.Args[1], left)
	case jmespath.Project, jmespath.ProjectValues, jmespath.Filter, jmespath.Flatten:
		return e.projection(n, of)
	case jmespath.Or, jmespath.And, jmespath.Not:
		return e.logic(n, of)
	case jmespath.Compare:
		return e.compare(n, of)
	case jmespath.Call:
		return e.call(n, of)
	case jmespath.List, jmespath.Map:
		return e.collected(n, of)
	default:
		return nil, fmt.Errorf("an expression of the kind %d", n.Op)
	}
}

func fieldOf(of any, name string) (any, error) {
	fields, ok := of.(map[string]any)
	if !ok {
		return nil, nil
	}
	value, ok := fields[name]
	if !ok {
		return nil, fmt.Errorf("%w %q", errMissing, name)
	}
	return value, nil
}

// element returns an element of a list, or several.
func element(n *jmespath.Node, of any) (any, error) {
	items, ok := of.([]any)
	if !ok {
		return nil, nil
	}
	if n.Op == jmespath.Index {
		at, _ := n.Value.(int)
		if at < 0 {
			at += len(items)
		}
		if at < 0 || at >= len(items) {
			return nil, nil
		}
		return items[at], nil
	}
	parts, _ := n.Value.([3]*int)
	return slice(items, parts)
}

func slice(items []any, parts [3]*int) (any, error) {
	step := 1
	if parts[2] != nil {
		step = *parts[2]
	}
	if step == 0 {
		return nil, errors.New("a slice has the step 0")
	}
	low, high := 0, len(items)
	first, last := low, high
	if step < 0 {
		low, high = -1, len(items)-1
		first, last = high, low
	}
	clamp := func(part *int, otherwise int) int {
		if part == nil {
			return otherwise
		}
		at := *part
		if at < 0 {
			at += len(items)
		}
		return max(low, min(high, at))
	}
	all := []any{}
	for i, end := clamp(parts[0], first), clamp(parts[1], last); step > 0 && i < end || step < 0 && i > end; i += step {
		all = append(all, items[i])
	}
	return all, nil
}

// projection evaluates what goes through a list, or the values of a map.
func (e *evaluator) projection(n *jmespath.Node, of any) (any, error) {
	left, err := e.value(n.Args[0], of)
	switch {
	case errors.Is(err, errSteps), err != nil && n.Op == jmespath.Project && !errors.Is(err, errMissing):
		return nil, err
	case err != nil:
		left = nil
	}
	items, ok := left.([]any)
	if fields, is := left.(map[string]any); is && n.Op == jmespath.ProjectValues {
		items, ok = values(fields), true
	}
	if !ok {
		return nil, nil
	}
	all := []any{}
	for _, item := range items {
		if n.Op == jmespath.Flatten {
			if inner, ok := item.([]any); ok {
				all = append(all, inner...)
			} else {
				all = append(all, item)
			}
			continue
		}
		if n.Op == jmespath.Filter {
			fits, err := e.null(n.Args[2], item)
			if err != nil {
				return nil, err
			}
			if empty(fits) {
				continue
			}
		}
		value, err := e.null(n.Args[1], item)
		if err != nil {
			return nil, err
		}
		if value != nil {
			all = append(all, value)
		}
	}
	return all, nil
}

func (e *evaluator) logic(n *jmespath.Node, of any) (any, error) {
	left, err := e.null(n.Args[0], of)
	switch {
	case err != nil:
		return nil, err
	case n.Op == jmespath.Not:
		return empty(left), nil
	case n.Op == jmespath.Or && empty(left):
		return e.null(n.Args[1], of)
	case n.Op == jmespath.And && !empty(left):
		return e.value(n.Args[1], of)
	}
	return left, nil
}

// empty says that a value is false in a condition.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return false
	}
}

func (e *evaluator) compare(n *jmespath.Node, of any) (any, error) {
	left, err := e.null(n.Args[0], of)
	if err != nil {
		return nil, err
	}
	right, err := e.null(n.Args[1], of)
	if err != nil {
		return nil, err
	}
	switch n.Text {
	case "==":
		return reflect.DeepEqual(left, right), nil
	case "!=":
		return !reflect.DeepEqual(left, right), nil
	}
	a, first := left.(float64)
	b, second := right.(float64)
	if !first || !second {
		return nil, nil
	}
	return ordered(sign(a, b), n.Text), nil
}

func (e *evaluator) collected(n *jmespath.Node, of any) (any, error) {
	if of == nil {
		return nil, nil
	}
	items, fields := []any{}, map[string]any{}
	for i, arg := range n.Args {
		value, err := e.null(arg, of)
		if err != nil {
			return nil, err
		}
		if n.Op == jmespath.List {
			items = append(items, value)
		} else {
			fields[n.Keys[i]] = value
		}
	}
	if n.Op == jmespath.List {
		return items, nil
	}
	return fields, nil
}
