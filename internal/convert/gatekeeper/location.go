package gatekeeper

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A step is one of the path that a mutator changes: a field of an object, or elements of a list.
type step struct {
	field string
	// key and value say which elements; without a value it is all of them.
	key   string
	value any
}

func (s *step) isList() bool { return s.key != "" }
func (s *step) isGlob() bool { return s.isList() && s.value == nil }

// mostSteps is how long a path may be: its expressions have it at each step.
const mostSteps = 32

// parseLocation reads a path such as spec.containers[name: *].image or metadata.labels."a/b".
func parseLocation(text string) ([]step, error) {
	r := &locationReader{rest: strings.TrimSpace(text)}
	var steps []step
	for {
		name, _, err := r.word()
		if err != nil {
			return nil, err
		}
		if steps = append(steps, step{field: name}); len(steps) > mostSteps {
			return nil, fmt.Errorf("it has more than %d steps", mostSteps)
		}
		if r.take("[") {
			list, err := r.element()
			if err != nil {
				return nil, err
			}
			steps = append(steps, list)
		}
		if r.rest == "" {
			return steps, nil
		}
		if !r.take(".") {
			return nil, fmt.Errorf("expected a dot before %q", r.rest)
		}
	}
}

// A locationReader reads a path.
type locationReader struct{ rest string }

// take takes a token, if it is the next one.
func (r *locationReader) take(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(r.rest), token)
	if ok {
		r.rest = strings.TrimSpace(rest)
	}
	return ok
}

// word reads a name, which may be quoted.
func (r *locationReader) word() (text string, quoted bool, err error) {
	for _, quote := range []string{`"`, `'`} {
		if r.take(quote) {
			text, rest, ok := strings.Cut(r.rest, quote)
			if !ok || strings.Contains(text, `\`) {
				return "", false, errors.New("a quoted name does not end, or has a backslash")
			}
			r.rest = strings.TrimSpace(rest)
			return text, true, nil
		}
	}
	end := strings.IndexAny(r.rest, `.[]:"' `)
	if end < 0 {
		end = len(r.rest)
	}
	if end == 0 {
		return "", false, fmt.Errorf("expected a name before %q", r.rest)
	}
	text, r.rest = r.rest[:end], strings.TrimSpace(r.rest[end:])
	return text, false, nil
}

// element reads which elements of a list are meant.
func (r *locationReader) element() (step, error) {
	key, _, err := r.word()
	if err != nil || !r.take(":") {
		return step{}, errors.New("expected KEY: VALUE between brackets")
	}
	s := step{key: key}
	value, quoted, err := r.word()
	switch number, wrong := strconv.ParseInt(value, 10, 64); {
	case err != nil || !r.take("]"):
		return step{}, errors.New("expected KEY: VALUE between brackets")
	case quoted || value != "*" && wrong != nil:
		s.value = value
	case wrong == nil:
		s.value = number
	}
	return s, nil
}
