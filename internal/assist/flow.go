package assist

import (
	"strings"

	"github.com/usher-dev/usher/internal/assist/draft"
)

func blank(line string) bool { return strings.Trim(line, " \t") == "" }

func columnOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// isMarker reports whether a line begins or ends a document.
func isMarker(line string) bool {
	return (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")) && (len(line) == 3 || line[3] == ' ' || line[3] == '\t')
}

// propertiesOf returns the length of the anchor and the tag that a value begins with.
func propertiesOf(text string) int {
	at := 0
	for at < len(text) && (text[at] == '&' || text[at] == '!') {
		end := strings.IndexAny(text[at:], " \t")
		if end < 0 {
			return len(text)
		}
		at += end
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t"))
	}
	return at
}

// keyEnd returns where the colon after the key is that a line begins with; -1 if it begins with none.
func keyEnd(line string) int {
	at := propertiesOf(line)
	if at == len(line) {
		return -1
	}
	switch line[at] {
	case '"', '\'':
		end := draft.Quoted(line[at+1:], line[at])
		if end < 0 {
			return -1
		}
		at += 1 + end
		at += len(line[at:]) - len(strings.TrimLeft(line[at:], " \t"))
		if at < len(line) && line[at] == ':' && endsWord(line, at+1) {
			return at
		}
		return -1
	case '{', '[', '|', '>', '#':
		return -1
	}
	for ; at < len(line); at++ {
		switch {
		case line[at] == ':' && endsWord(line, at+1):
			return at
		case line[at] == '#' && at > 0 && endsWord(line, at-1):
			return -1
		}
	}
	return -1
}

// endsWord reports whether there is white space or no character at a place.
func endsWord(line string, at int) bool {
	return at >= len(line) || line[at] == ' ' || line[at] == '\t'
}

// A flow is a value between brackets that is being read.
type flow struct {
	depth int
	// quote is the quote that is open; 0 for none.
	quote byte
}

// read reads a line, and reports whether the value ends in it.
func (f *flow) read(line string) bool {
	for i := 0; i < len(line); i++ {
		if f.quote != 0 {
			end := draft.Quoted(line[i:], f.quote)
			if end < 0 {
				return false
			}
			f.quote = 0
			i += end - 1
			continue
		}
		begins := i == 0 || strings.IndexByte(" \t,:[{", line[i-1]) >= 0
		switch c := line[i]; {
		case c == '#' && (i == 0 || endsWord(line, i-1)):
			return false
		case (c == '"' || c == '\'') && begins:
			f.quote = c
		case c == '[' || c == '{':
			f.depth++
		case c == ']' || c == '}':
			if f.depth--; f.depth <= 0 {
				return true
			}
		}
	}
	return false
}
