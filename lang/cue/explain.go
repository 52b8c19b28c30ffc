package cue

import (
	"strings"

	"github.com/usher-dev/usher/rule"
)

// Explain implements [rule.Explainer]: it tells the values that the source reads. Those in
// lists are told as a list.
func (p *Program) Explain(in *rule.Input) (rule.Reading, error) {
	params, err := p.params(in)
	if err != nil {
		return rule.Reading{}, err
	}
	var reading rule.Reading
	for _, path := range p.Reads() {
		names := strings.Split(strings.TrimSuffix(path, ".*"), ".")
		value, ok := params.Get(names[0])
		if ok {
			value, ok = lookUp(value, names[1:])
		}
		reading.Values = append(reading.Values, rule.Value{Name: path, Value: value, Absent: !ok})
	}
	return reading, nil
}

// lookUp follows a path as Reads writes it: a name with [] behind it is a list, of whose
// items the rest is looked up.
func lookUp(from any, path []string) (any, bool) {
	if len(path) == 0 {
		return from, true
	}
	fields, ok := from.(map[string]any)
	if !ok {
		return nil, false
	}
	name, isList := strings.CutSuffix(path[0], "[]")
	value, ok := fields[name]
	if !ok || !isList {
		if !ok {
			return nil, false
		}
		return lookUp(value, path[1:])
	}
	items, ok := value.([]any)
	if !ok {
		return nil, false
	}
	found := []any{}
	for _, item := range items {
		if inner, ok := lookUp(item, path[1:]); ok {
			found = append(found, inner)
		}
	}
	return found, true
}
