package reference

import (
	"errors"
	"fmt"
	"strings"
)

// errEmptyPlaceholder is the error for a placeholder without a path, with the text of kinitiras.
var errEmptyPlaceholder = errors.New("invalid ref key: the placeholder {{}} is empty")

// A pattern is a string with {{placeholders}}: literals[0], paths[0], literals[1], ….
type pattern struct {
	text     string
	literals []string
	paths    [][]string
}

func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	rest := text
	for {
		before, after, ok := strings.Cut(rest, "{{")
		if !ok {
			break
		}
		path, behind, ok := strings.Cut(after, "}}")
		if !ok {
			break
		}
		if path = strings.TrimSpace(path); path == "" {
			return pattern{}, errEmptyPlaceholder
		}
		p.literals = append(p.literals, before)
		p.paths = append(p.paths, strings.Split(path, "."))
		rest = behind
	}
	p.literals = append(p.literals, rest)
	return p, nil
}

// constant reports whether the pattern has no placeholder.
func (p *pattern) constant() bool { return len(p.paths) == 0 }

// sample is the pattern with a value for each placeholder that is fine everywhere: in a
// name, a label and every part of a URL, the port included.
func (p *pattern) sample() string { return strings.Join(p.literals, "1") }

// fill replaces the placeholders by their values in object. It is not ok if one of them has none.
func (p *pattern) fill(object map[string]any) (text string, ok bool, err error) {
	if p.constant() {
		return p.text, true, nil
	}
	values, ok, err := p.values(object)
	if !ok || err != nil {
		return "", false, err
	}
	var b strings.Builder
	for i, value := range values {
		b.WriteString(p.literals[i])
		b.WriteString(value)
	}
	b.WriteString(p.literals[len(values)])
	return b.String(), true, nil
}

func (p *pattern) values(object map[string]any) (values []string, ok bool, err error) {
	values = make([]string, len(p.paths))
	for i, path := range p.paths {
		if values[i], ok, err = placeholder(object, path); !ok || err != nil {
			return nil, false, err
		}
	}
	return values, true, nil
}

func placeholder(object map[string]any, path []string) (text string, ok bool, err error) {
	var value any = object
	for i, key := range path {
		fields, isMap := value.(map[string]any)
		if !isMap && value != nil {
			return "", false, fmt.Errorf("read placeholder {{%s}}: %s is %s, not an object",
				strings.Join(path, "."), strings.Join(path[:i], "."), kindOf(value))
		}
		if value, ok = fields[key]; !ok {
			return "", false, nil
		}
	}
	text, ok = value.(string)
	if !ok {
		return "", false, fmt.Errorf("read placeholder {{%s}}: it is %s, not a string", strings.Join(path, "."), kindOf(value))
	}
	return text, true, nil
}
