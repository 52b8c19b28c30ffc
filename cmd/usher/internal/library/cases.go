package library

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/library"
)

// settled returns the cases of a policy with the params and actions that its pack has: they go on passing when
// a user sets others. Cases that have some keep them.
func settled(p *library.Policy) ([]byte, error) {
	var all []insertion
	for node, err := range manifest.Nodes(p.Cases) {
		if err != nil {
			return nil, fmt.Errorf("cases of policy %s: %w", p.Name, err)
		}
		root := manifest.Resolve(node)
		before, _ := manifest.Entry(root, "request")
		if before == nil {
			continue
		}
		missing := map[string]any{}
		for name, value := range p.Params {
			if manifest.Member(root, "params", name) == nil {
				missing[name] = value
			}
		}
		own := manifest.Member(root, "params")
		switch {
		case own != nil && own.Kind == yaml.MappingNode && len(own.Content) > 0:
			for _, name := range slices.Sorted(maps.Keys(missing)) {
				all = append(all, insertion{own, own.Content[0], name, missing[name]})
			}
		case own == nil && len(missing) > 0:
			all = append(all, insertion{root, before, "params", missing})
		}
		if actions := p.Spec.Bindings; len(actions) == 1 && len(actions[0].ValidationActions) > 0 && manifest.Member(root, "validationActions") == nil {
			all = append(all, insertion{root, before, "validationActions", actions[0].ValidationActions})
		}
	}
	return inserted(p.Cases, all)
}

// An insertion is an entry that a mapping gets before one that it has.
type insertion struct {
	mapping, before *yaml.Node
	name            string
	value           any
}

// text is the entry as it is written in the mapping.
func (in insertion) text() (string, error) {
	var value yaml.Node
	if err := value.Encode(in.value); err != nil {
		return "", fmt.Errorf("write %s: %w", in.name, err)
	}
	value.Style = yaml.FlowStyle
	written, err := yaml.Marshal(map[string]*yaml.Node{in.name: &value})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", in.name, err)
	}
	entry := strings.TrimSpace(string(written))
	if in.mapping.Style&yaml.FlowStyle != 0 {
		return entry + ", ", nil
	}
	return entry + "\n" + strings.Repeat(" ", in.before.Column-1), nil
}

// inserted returns a text with the entries in the places where its nodes are.
func inserted(content []byte, all []insertion) ([]byte, error) {
	slices.SortStableFunc(all, func(a, b insertion) int {
		return cmp.Or(a.before.Line-b.before.Line, a.before.Column-b.before.Column)
	})
	lines := slices.Collect(strings.Lines(string(content)))
	for _, in := range slices.Backward(all) {
		entry, err := in.text()
		if err != nil {
			return nil, err
		}
		at, column := in.before.Line-1, in.before.Column-1
		if at >= len(lines) || column >= utf8.RuneCountInString(lines[at]) {
			return nil, fmt.Errorf("line %d: end lines with a line feed alone", in.before.Line)
		}
		line := []rune(lines[at])
		lines[at] = string(line[:column]) + entry + string(line[column:])
	}
	return []byte(strings.Join(lines, "")), nil
}
