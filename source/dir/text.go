package dir

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/api"
)

// character returns the position of a line and a column of the text of a scalar.
//
// YAML folds lines, removes indentation and has escapes. All of these change blanks, or characters
// that the source has in another form: so the source is read up to as many other characters as the
// text has before the place. If the two do not agree, nothing is returned.
func (d document) character(scalar *yaml.Node, line, column int) (api.Position, bool) {
	rest := d.from(scalar.Line, scalar.Column)
	rest = rest[len(properties.Find(rest)):]
	text, escapes := scalar.Value, ""
	switch style := scalar.Style; {
	case style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
	case style&yaml.DoubleQuotedStyle != 0 && bytes.HasPrefix(rest, []byte(`"`)):
		// In JSON the parser does not see the escapes.
		if decoded := ""; json.NewDecoder(bytes.NewReader(rest)).Decode(&decoded) == nil {
			text = decoded
		}
		rest, escapes = rest[1:], `"`
	case style&yaml.SingleQuotedStyle != 0 && bytes.HasPrefix(rest, []byte(`'`)):
		rest, escapes = rest[1:], `'`
	}
	before, after, ok := cut(text, line, column)
	if !ok {
		return api.Position{}, false
	}
	for _, r := range before {
		if unicode.IsSpace(r) {
			continue
		}
		rest = blanks(rest, escapes)
		found, size := character(rest, escapes)
		if size == 0 || found != r {
			return api.Position{}, false
		}
		rest = rest[size:]
	}
	if r, _ := utf8.DecodeRuneInString(after); after != "" && !unicode.IsSpace(r) {
		rest = blanks(rest, escapes)
	}
	return d.behind(d.Text[:len(d.Text)-len(rest)]), true
}

// properties are an anchor and a tag, which precede a value.
var properties = regexp.MustCompile(`^(?:[&!]\S*[ \t]+)*`)

// from returns the source from a line and a column, which count from 1.
func (d document) from(line, column int) []byte {
	rest := d.Text
	for range line - 1 {
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
	}
	for range column - 1 {
		_, size := utf8.DecodeRune(rest)
		rest = rest[size:]
	}
	return rest
}

// behind returns the position at the end of the first part of the source.
func (d document) behind(part []byte) api.Position {
	at := d.at(d.Line + bytes.Count(part, []byte("\n")))
	at.Column = 1 + utf8.RuneCount(part[bytes.LastIndexByte(part, '\n')+1:])
	if at.Line == d.Line {
		at.Column += d.indent
	}
	return at
}

// cut cuts a text before a line and a column, which count from 1.
func cut(text string, line, column int) (before, after string, ok bool) {
	at := 0
	for range line - 1 {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return "", "", false
		}
		at += next + 1
	}
	for range column - 1 {
		_, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 || text[at] == '\n' {
			return "", "", false
		}
		at += size
	}
	return text[:at], text[at:], true
}

// blanks removes blanks from the beginning, also those that are escaped.
func blanks(source []byte, escapes string) []byte {
	for {
		r, size := character(source, escapes)
		if size == 0 || !unicode.IsSpace(r) {
			return source
		}
		source = source[size:]
	}
}

// character returns the first character of a source, and the size of the form in which the source
// has it; 0 at the end, and for escapes that are too rare. Escapes are those of this quotation mark.
func character(source []byte, escapes string) (rune, int) {
	switch {
	case escapes == `'` && bytes.HasPrefix(source, []byte(`''`)):
		return '\'', 2
	case escapes == `"` && len(source) > 1 && source[0] == '\\':
		if c := source[1]; c == '/' || c == ' ' || c == '\t' || c == '\r' || c == '\n' {
			return rune(c), 2
		}
		// The longest is \U0001F600.
		form := string(source[:min(len(source), 10)])
		r, _, tail, err := strconv.UnquoteChar(form, '"')
		if err != nil {
			return 0, 0
		}
		return r, len(form) - len(tail)
	}
	return utf8.DecodeRune(source)
}
