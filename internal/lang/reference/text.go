package reference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// maxInterpolation limits the search for the end of an interpolation, in bytes.
const maxInterpolation = 1024

// maxText limits a text with interpolations, in bytes: each can repeat a value of a megabyte.
const maxText = 1 << 20

// fewParts is how many parts of a text are few.
const fewParts = 16

// A Text is a constant string with interpolations: pod-\(object.metadata.name). It is
// immutable.
type Text struct {
	parts []part
}

// A part is a literal, or an interpolation of what path leads to from root, or of open.
type part struct {
	literal string
	root    string
	path    Path
	open    string
}

// ParseText reads a constant string. Escapes are those of CUE string literals; a backslash without
// an escape, and an interpolation without an end, are literal text.
func ParseText(s string) Text {
	if !strings.Contains(s, `\`) {
		return Text{parts: []part{{literal: s}}}
	}
	var t Text
	var literal strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			literal.WriteByte(s[i])
			i++
			continue
		}
		if strings.HasPrefix(s[i:], `\(`) {
			if end := groupEnd(s[i+1 : min(len(s), i+1+maxInterpolation)]); end > 2 {
				if literal.Len() > 0 {
					t.parts = append(t.parts, part{literal: literal.String()})
					literal.Reset()
				}
				t.parts = append(t.parts, parseInterpolation(s[i+2:i+end]))
				i += 1 + end
				continue
			}
		}
		r, size := unescape(s[i:])
		literal.WriteRune(r)
		i += size
	}
	if literal.Len() > 0 || len(t.parts) == 0 {
		t.parts = append(t.parts, part{literal: literal.String()})
	}
	return t
}

// unescape reads the escape that s, a backslash first, begins with.
func unescape(s string) (r rune, size int) {
	if len(s) < 2 {
		return '\\', 1
	}
	if i := strings.IndexByte(`abfnrtv/\"`, s[1]); i >= 0 {
		return []rune("\a\b\f\n\r\t\v/\\\"")[i], 2
	}
	digits := map[byte]int{'u': 4, 'U': 8}[s[1]]
	if digits > 0 && len(s) >= 2+digits {
		if n, err := strconv.ParseUint(s[2:2+digits], 16, 32); err == nil && n <= utf8.MaxRune && utf8.ValidRune(rune(n)) {
			return rune(n), 2 + digits
		}
	}
	return '\\', 1
}

// parseInterpolation reads a reference to the object or the old one. Everything else is
// open.
func parseInterpolation(text string) part {
	steps, ok := parseChain(strings.TrimSpace(text))
	if !ok {
		return part{open: text}
	}
	root := *steps[0].key
	if root == "data" && len(steps) > 1 && steps[1].key != nil {
		steps = steps[1:]
		root = *steps[0].key
		if root == "kind" {
			return part{open: text}
		}
	}
	switch {
	case root == "kind" && len(steps) == 1:
		return part{root: "object", path: Path{text: text, chains: [][]step{steps}}}
	case (root == "object" || root == "oldObject") && len(steps) > 1:
		return part{root: root, path: Path{text: text, chains: [][]step{steps[1:]}}}
	}
	return part{open: text}
}

// Literal returns the text if it has no interpolation.
func (t *Text) Literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].root == "" && t.parts[0].open == "":
		return t.parts[0].literal, true
	}
	return "", false
}

// Short reports whether the text has few interpolations, so that it is known soon.
func (t *Text) Short() bool { return len(t.parts) <= fewParts }

// Open reports whether an interpolation is more than a reference to the object or to the
// old object, so that only a CUE evaluator understands it.
func (t *Text) Open() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.open != "" })
}

// Value returns the text with every interpolation replaced by its value: strings, numbers and
// booleans. Anything else is an error, and so is a missing value: [ErrMissing] if CUE calls it
// incomplete.
func (t *Text) Value(in *rule.Input) (string, error) {
	if literal, ok := t.Literal(); ok {
		return literal, nil
	}
	var b strings.Builder
	for i := range t.parts {
		p := &t.parts[i]
		switch {
		case p.open != "":
			return "", ErrNeedsEvaluator
		case p.root == "":
			b.WriteString(p.literal)
			continue
		}
		root := in.Object
		if p.root == "oldObject" {
			root = in.OldObject
		}
		value, ok := p.path.Value(tree(root))
		if !ok && p.path.incomplete(tree(root)) {
			return "", fmt.Errorf(`interpolate \(%s): %w`, p.path.text, ErrMissing)
		}
		if !ok {
			return "", fmt.Errorf(`interpolate \(%s): it leads through something without fields`, p.path.text)
		}
		text, ok := scalarText(value)
		if !ok {
			return "", fmt.Errorf(`interpolate \(%s): a text cannot hold %s`, p.path.text, kindOf(value))
		}
		if b.Len()+len(text) > maxText {
			return "", fmt.Errorf(`interpolate \(%s): the text is longer than %d bytes`, p.path.text, maxText)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// Want adds to object and old the paths that the interpolations read.
func (t *Text) Want(object, old *usher.Paths) {
	for i := range t.parts {
		switch p := &t.parts[i]; {
		case p.open != "":
			object.Add()
			old.Add()
		case p.root == "oldObject":
			p.path.want(old)
		case p.root != "":
			p.path.want(object)
		}
	}
}

// Expr returns the text as a CUE string literal, on one line.
func (t *Text) Expr() string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range t.parts {
		p := &t.parts[i]
		switch {
		case p.open != "":
			b.WriteString(`\(` + p.open + `)`)
		case p.root != "":
			b.WriteString(`\(` + p.path.Expr(p.root) + `)`)
		default:
			writeQuoted(&b, p.literal)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Packages returns which of the CUE packages list, math, strconv and strings the
// interpolations use: a rendered program has to import them.
func (t *Text) Packages() []string {
	var used []string
	for _, p := range t.parts {
		used = append(used, packages(p.open)...)
	}
	return used
}

func packages(expr string) []string {
	var used []string
	for _, name := range []string{"list", "math", "strconv", "strings"} {
		if mentions(expr, name) {
			used = append(used, name)
		}
	}
	return used
}

func mentions(expr, pkg string) bool {
	for rest := expr; ; {
		before, after, ok := strings.Cut(rest, pkg+".")
		if !ok {
			return false
		}
		r, _ := utf8.DecodeLastRuneInString(before)
		if before == "" || !isNameRune(r, false) && r != '.' {
			return true
		}
		rest = after
	}
}

// Quote returns s as a CUE string literal, on one line.
func Quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	writeQuoted(&b, s)
	b.WriteByte('"')
	return b.String()
}

func writeQuoted(b *strings.Builder, s string) {
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !strconv.IsPrint(r) && r <= 0xffff:
			fmt.Fprintf(b, `\u%04x`, r)
		case !strconv.IsPrint(r):
			fmt.Fprintf(b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
}

// scalarText is the text of a value in an interpolation.
func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		// The text of a number is that of CUE: 1E+21, but 100 and 0.5.
		d, _, err := apd.NewFromString(strconv.FormatFloat(v, 'g', -1, 64))
		return d.String(), err == nil
	}
	return "", false
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}
