package gatekeeper

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hashOf returns a hash of what modules in Rego mean: comments, empty lines and how much white space there is do not
// count. It is empty if a text does not end.
func hashOf(modules []string) string {
	all := make([]string, 0, len(modules))
	for _, text := range modules {
		normal, ok := normalized(text)
		if !ok {
			return ""
		}
		all = append(all, normal)
	}
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
	return hex.EncodeToString(sum[:])
}

// normalized returns a module without comments, empty lines and white space that does not count. Lines stay: they end
// expressions. It is false if a text does not end.
func normalized(module string) (text string, ok bool) {
	var out []byte
	// last is the last character; before the first one, a line ends.
	last := func() byte {
		if len(out) == 0 {
			return '\n'
		}
		return out[len(out)-1]
	}
	for i := 0; i < len(module); {
		switch c := module[i]; c {
		case '#':
			end := strings.IndexByte(module[i:], '\n')
			if end < 0 {
				end = len(module) - i
			}
			i += end
		case ' ', '\t', '\r':
			if last() != ' ' && last() != '\n' {
				out = append(out, ' ')
			}
			i++
		case '\n':
			if last() == ' ' {
				out = out[:len(out)-1]
			}
			if last() != '\n' {
				out = append(out, '\n')
			}
			i++
		case '"', '`':
			end := quoted(module[i:])
			if end < 0 {
				return "", false
			}
			out = append(out, module[i:i+end]...)
			i += end
		default:
			out = append(out, c)
			i++
		}
	}
	return strings.TrimRight(string(out), " \n"), true
}

// quoted returns the length of a text at the beginning of what is given, -1 if it does not end. Between back quotes
// there are no escapes, and there may be several lines.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return i + 1
		case text[0] == '"' && text[i] == '\n':
			return -1
		case text[0] == '"' && text[i] == '\\':
			i++
		}
	}
	return -1
}
