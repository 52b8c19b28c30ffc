package reference

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
)

// maxDotted limits the segments that are either one key with dots or several levels: each doubles
// the possible meanings of a path.
const maxDotted = 3

// A Path is the path of a value in a JSON tree. The zero Path finds nothing; [ParsePath] makes one.
type Path struct {
	text string
	// chains are what the path can mean, the likeliest first.
	chains [][]step
	open   string
}

// A step goes to a key of a map or, if key is nil, to an index of a list.
type step struct {
	key   *string
	index int
}

// ParsePath reads a path as templates have it. With a slash, it is made of segments:
//
//   - digits are an index,
//   - a segment in double quotes is a key,
//   - a segment with dots is a key, or several levels where there is no such key,
//   - anything else is a key, in which ~1 means a slash and ~0 a tilde.
//
// Without a slash it is a CUE reference, such as header["X-Team"][0]. CUE beyond a chain
// of selectors is kept as it stands: the path is then open.
func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	if !strings.Contains(text, "/") {
		return p.parseReference()
	}
	trimmed := strings.Trim(text, "/")
	if trimmed == "" {
		return Path{}, errors.New("the path is empty")
	}
	p.chains = [][]step{nil}
	for segment := range splitSegments(trimmed) {
		steps, levels, err := parseSegment(segment)
		if err != nil {
			return Path{}, err
		}
		chains := appendEach(p.chains, steps)
		if levels != nil {
			chains = append(chains, appendEach(p.chains, levels)...)
		}
		if p.chains = chains; len(chains) > 1<<maxDotted {
			return Path{}, fmt.Errorf("path %s has more than %d segments with dots: put those that are keys in double quotes", text, maxDotted)
		}
	}
	return p, nil
}

func appendEach(chains [][]step, steps []step) [][]step {
	longer := make([][]step, len(chains))
	for i, chain := range chains {
		longer[i] = slices.Concat(chain, steps)
	}
	return longer
}

func (p Path) parseReference() (Path, error) {
	if strings.TrimSpace(p.text) == "" {
		return Path{}, errors.New("the path is empty")
	}
	if steps, ok := parseChain(p.text); ok {
		p.chains = [][]step{steps}
		return p, nil
	}
	if !startsOperand(p.text) || !selfContained(p.text) {
		return Path{}, fmt.Errorf("path %s is not a reference", strconv.Quote(p.text))
	}
	p.open = p.text
	return p, nil
}

// want adds the paths that the path can lead through, as far as these are objects.
func (p *Path) want(paths *usher.Paths) {
	if p.open != "" {
		paths.Add()
	}
	for _, chain := range p.chains {
		var keys []string
		for _, s := range chain {
			if s.key == nil {
				break
			}
			keys = append(keys, *s.key)
		}
		paths.Add(keys...)
	}
}

// splitSegments splits at the slashes that are not within double quotes.
func splitSegments(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(text); i++ {
			switch {
			case quoted && text[i] == '\\':
				i++
			case text[i] == '"' && (quoted || i == start):
				quoted = !quoted
			case text[i] == '/' && !quoted:
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(text[start:])
	}
}

// parseSegment returns the steps that a segment is and, if it may also be several levels,
// those.
func parseSegment(segment string) (steps, levels []step, err error) {
	switch {
	case segment == "":
		return nil, nil, errors.New("the path has an empty segment")
	case isDigits(segment):
		index, err := strconv.Atoi(segment)
		if err != nil {
			return nil, nil, fmt.Errorf("index %s is too large", segment)
		}
		return []step{{index: index}}, nil, nil
	case segment[0] == '"':
		steps, ok := parseChain(segment)
		if !ok {
			return nil, nil, fmt.Errorf("path segment %s is not a quoted key", segment)
		}
		return steps, nil, nil
	}
	key := strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
	steps = []step{{key: &key}}
	if strings.Contains(segment, "-") {
		return steps, nil, nil
	}
	levels, ok := parseChain(segment)
	switch {
	case !ok || len(levels) == 1:
		return steps, nil, nil
	case strings.ContainsAny(segment, `["`):
		return levels, nil, nil
	}
	return steps, levels, nil
}

// Value follows the path. It is not ok where the path leads nowhere: a missing key, an
// index out of range, a selection from something that is neither map nor list. A null at
// the end of the path is a value.
func (p *Path) Value(root any) (value any, ok bool) {
	for _, chain := range p.chains {
		if value, ok = follow(root, chain); ok {
			return value, true
		}
	}
	return nil, false
}

func follow(value any, chain []step) (any, bool) {
	for i := range chain {
		if s := &chain[i]; s.key == nil {
			list, ok := value.([]any)
			if !ok || s.index >= len(list) {
				return nil, false
			}
			value = list[s.index]
		} else {
			object, ok := value.(map[string]any)
			if !ok {
				return nil, false
			}
			if value, ok = object[*s.key]; !ok {
				return nil, false
			}
		}
	}
	return value, true
}

// incomplete reports whether following the path's first chain ends at an object without the key.
// Any other end, such as at a string, is an error in CUE.
func (p *Path) incomplete(root any) bool {
	chain := p.chains[0]
	for i := range chain {
		before, ok := follow(root, chain[:i])
		if object, isMap := before.(map[string]any); ok && isMap && chain[i].key != nil {
			if _, ok := object[*chain[i].key]; !ok {
				return true
			}
		}
	}
	return false
}

// Expr returns the path as a CUE expression that starts at the expression root. If the path has
// several meanings, it uses the first that exists.
func (p *Path) Expr(root string) string {
	if p.open != "" {
		return "(" + root + "." + p.open + ")"
	}
	text := ""
	for i, chain := range slices.Backward(p.chains) {
		if i == len(p.chains)-1 {
			text = expr(root, chain)
			continue
		}
		text = "(*" + expr(root, chain) + " | " + text + ")"
	}
	return text
}

func expr(root string, chain []step) string {
	var b strings.Builder
	b.WriteString(root)
	for i := range chain {
		switch s := &chain[i]; {
		case s.key == nil:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case IsPlainName(*s.key):
			b.WriteString("." + *s.key)
		default:
			b.WriteString("[" + Quote(*s.key) + "]")
		}
	}
	return b.String()
}

// String is the path as it was written.
func (p *Path) String() string { return p.text }
