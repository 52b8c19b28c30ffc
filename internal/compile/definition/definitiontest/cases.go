// Package definitiontest has manifests that API servers refuse, and who refuses them. They are tried
// on an API server, and on the command that checks files.
package definitiontest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed refused.yaml
var refused []byte

// A Case is a manifest that is refused.
type Case struct {
	Reason string
	// By is who refuses it: schema, or guard.
	By string
	// Says is in the sentence of the API server, and Check in that of usher check.
	Says, Check string
	Manifest    map[string]any
	// Set are the paths of the fields that differ from a manifest that is not refused.
	Set []string
}

// Cases returns the manifests that are refused, and those of which they are made, by kind.
func Cases() (cases []Case, bases map[string]map[string]any, err error) {
	var file struct {
		Bases map[string]map[string]any
		Cases []struct {
			Reason, Kind, By, Says, Check string
			Set                           map[string]any
		}
	}
	if err := yaml.UnmarshalStrict(refused, &file); err != nil {
		return nil, nil, fmt.Errorf("read cases: %w", err)
	}
	for _, c := range file.Cases {
		base, ok := file.Bases[c.Kind]
		if !ok || c.By != "schema" && c.By != "guard" || c.Says == "" || len(c.Set) == 0 {
			return nil, nil, fmt.Errorf("case %q: write kind, by, says and set", c.Reason)
		}
		if c.Check == "" {
			c.Check = c.Says
		}
		made := Case{Reason: c.Reason, By: c.By, Says: c.Says, Check: c.Check, Manifest: clone(base), Set: slices.Sorted(maps.Keys(c.Set))}
		for _, path := range made.Set {
			if err := set(made.Manifest, steps(path), repeated(c.Set[path], "")); err != nil {
				return nil, nil, fmt.Errorf("case %q: %s: %w", c.Reason, path, err)
			}
		}
		cases = append(cases, made)
	}
	return cases, file.Bases, nil
}

// steps returns the steps of a path such as spec.bindings[0].name.
func steps(path string) []string {
	return strings.Split(strings.ReplaceAll(strings.ReplaceAll(path, "[", "."), "]", ""), ".")
}

// set changes a field, or removes it.
func set(in any, path []string, value any) error {
	switch at := in.(type) {
	case map[string]any:
		next, ok := at[path[0]]
		switch {
		case len(path) > 1 && ok:
			return set(next, path[1:], value)
		case len(path) > 1:
			return fmt.Errorf("there is no %s", path[0])
		case value == nil:
			delete(at, path[0])
		default:
			at[path[0]] = value
		}
		return nil
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i >= len(at) {
			return fmt.Errorf("there is no item %s", path[0])
		}
		if len(path) > 1 {
			return set(at[i], path[1:], value)
		}
		at[i] = value
		return nil
	}
	return fmt.Errorf("%s is in no map", path[0])
}

// repeated returns a value in which each {repeat: X, times: N} is N times X, with number in place of
// each #.
func repeated(value any, number string) any {
	switch value := value.(type) {
	case string:
		if number != "" {
			return strings.ReplaceAll(value, "#", number)
		}
	case []any:
		items := make([]any, len(value))
		for i := range value {
			items[i] = repeated(value[i], number)
		}
		return items
	case map[string]any:
		if times, ok := value["times"].(float64); ok {
			return multiple(value["repeat"], int(times))
		}
		fields := map[string]any{}
		for name := range value {
			fields[name] = repeated(value[name], number)
		}
		return fields
	}
	return value
}

func multiple(value any, n int) any {
	items, ok := value.([]any)
	if !ok {
		return strings.Repeat(fmt.Sprint(value), n)
	}
	var all []any
	for i := range n {
		all = append(all, repeated(items, strconv.Itoa(i)).([]any)...)
	}
	return all
}

func clone(tree map[string]any) map[string]any {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil
	}
	var copied map[string]any
	if err := json.Unmarshal(text, &copied); err != nil {
		return nil
	}
	return copied
}
