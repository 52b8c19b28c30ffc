package jsonpatch

import (
	"fmt"
	"strconv"
	"strings"
)

// A place is where an operation applies: the member key of container, which is a map[string]any or
// a []any.
type place struct {
	container any
	key       string
	// tokens lead from the root to the place; key is the last one.
	tokens []string
	// path is the path in the operation; canonical reports that it is the pointer of tokens.
	path      string
	canonical bool
	// touched is the number of elements and keys of the containers on the way, which a change here may copy.
	touched int
}

// member looks the key up in a map.
func (p place) member() (any, bool) {
	m, _ := p.container.(map[string]any)
	value, ok := m[p.key]
	return value, ok
}

// index makes i the key of the place in an array.
func (p place) index(i int) place {
	if p.key == "-" {
		return p
	}
	if key := canonicalIndex(p.key, i); key != p.key {
		p.tokens[len(p.tokens)-1] = key
		p.key, p.canonical = key, false
	}
	return p
}

// fewTokens is how many tokens most paths have at most.
const fewTokens = 8

// find follows path to the container of its last key. It is not ok if a container on the way is
// missing or null. Text before the first slash is ignored.
func (e *editor) find(path string) (place, bool) {
	head, rest, ok := strings.Cut(path, "/")
	if !ok {
		return place{}, false
	}
	at := place{path: path, canonical: head == ""}
	if e.tokens == nil {
		e.tokens = make([]string, 0, fewTokens)
	}
	e.tokens = e.tokens[:0]
	node, escaped := any(e.root), strings.Contains(rest, "~")
	for {
		segment, tail, more := strings.Cut(rest, "/")
		token := segment
		if escaped && strings.Contains(segment, "~") {
			token = unescape(segment)
			at.canonical = at.canonical && escape(token) == segment
		}
		at.touched += members(node)
		if !more {
			e.tokens = append(e.tokens, token)
			at.container, at.key, at.tokens = node, token, e.tokens
			return at, true
		}
		switch n := node.(type) {
		case map[string]any:
			node = n[token]
		case []any:
			i, err := elementIndex(n, token)
			if err != nil {
				return place{}, false
			}
			if key := canonicalIndex(token, i); key != token {
				token, at.canonical = key, false
			}
			node = n[i]
		}
		switch node.(type) {
		case map[string]any, []any:
		default:
			return place{}, false
		}
		e.tokens = append(e.tokens, token)
		rest = tail
	}
}

// members is the number of elements or keys of a container.
func members(node any) int {
	switch n := node.(type) {
	case map[string]any:
		return len(n)
	case []any:
		return len(n)
	}
	return 0
}

// elementIndex reads the index of an element that exists.
func elementIndex(array []any, key string) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	if i >= len(array) || i < -len(array) {
		return 0, outOfRange(i)
	}
	if i < 0 {
		i += len(array)
	}
	return i, nil
}

// insertIndex reads the index at which an element can be inserted.
func insertIndex(array []any, key string) (int, error) {
	if key == "-" {
		return len(array), nil
	}
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	if i > len(array) || i < -len(array)-1 {
		return 0, outOfRange(i)
	}
	if i < 0 {
		i += len(array) + 1
	}
	return i, nil
}

func outOfRange(i int) error {
	return fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex) //nolint:staticcheck // the wording of the API server's applier is what users search for
}

// canonicalIndex returns i in the form of RFC 6901, which may be key itself.
func canonicalIndex(key string, i int) string {
	if len(key) == 1 && i < 10 && key[0] == byte('0'+i) {
		return key
	}
	return strconv.Itoa(i)
}

func escape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func unescape(segment string) string {
	return strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(escape(token))
	}
	return b.String()
}
