package expression

import (
	"regexp"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/jmespath"
)

// What is read of YAML in a text: one field of the map that it is, which has to be a text or a whole number. CEL has no YAML.
// Regular expressions therefore take only such lines as mean the same wherever they are: keys without quotes, and values on
// one line, without aliases, tags, collections in brackets that have elements, and texts of several lines. All else is an error.
const (
	yamlKey   = `[\w./][\w./-]*:`
	yamlValue = `(?:[\w./][\w.,/@%+=-]*(?::[\w.,/@%+=-]+)*|"[\w .,/@%+=:-]*"|'[\w .,/@%+=:-]*'|\{\}|\[\])`
	yamlLine  = `^(?:---| *(?:- +)*` + yamlKey + `(?: ` + yamlValue + `)?| *(?:- +)+` + yamlValue + `| *-| *(?:#[ -~]*)?)$`
	// yamlMore is what would be read as more of the value of a field, and the begin of another document.
	yamlMore = `(?:^|\n)FIELD:.*\n(?: *\n)* +[^ #]|\n---`
	// yamlRead is a value that is read: letters, digits without zeros before them, or anything in quotes.
	yamlRead = `^FIELD: (?:[A-Za-z][\w./-]*|0|[1-9][0-9]{0,14}|"[\w .,/@%+=:-]*")$`
)

// yamlWords are words that are no texts in YAML.
const yamlWords = "['true', 'false', 'null', 'yes', 'no', 'on', 'off', 'y', 'n']"

// ofData matches what reads data, and no element of a list.
var ofData = regexp.MustCompile(`^data\.\w+(?:\.\w+)*$`)

var yamlName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// fieldOfYAML writes the field of a map that is YAML in a text; written is false for other expressions.
func fieldOfYAML(t *translation, n *jmespath.Node, on Value) (v Value, written bool, err error) {
	call, name := n.Args[0], n.Args[1].Text
	if n.Op != jmespath.Sub || call.Op != jmespath.Call || call.Text != "parse_yaml" || len(call.Args) != 1 || n.Args[1].Op != jmespath.Field {
		return v, false, nil
	}
	of, err := argument(t, call.Text, call.Args[0], on)
	switch {
	case err != nil:
		return v, true, err
	case !isText(of) || t.swallows:
		return v, true, refuse(writeIt, "parse_yaml() of something that may be no text, or where errors become null, is not imported")
	case !yamlName.MatchString(name):
		return v, true, refuse(writeIt, "the field %s of YAML is not imported", name)
	}
	*t.fails = true
	t.note("YAML in a text is read if it is a map with one value a line, of which " + name + " is a text or a whole number; other YAML is an error, and indentation is not checked")
	pattern := func(text string) string { return quote(strings.ReplaceAll(text, "FIELD", name)) }
	text := "[" + of.Text + "].filter(y, y.split('\\n').all(l, l.matches(" + quote(yamlLine) + ")) && !y.matches(" + pattern(yamlMore) + "))" +
		".map(y, y.split('\\n').filter(l, l.startsWith(" + quote(name+":") + "))).filter(y, size(y) == 1 && y[0].matches(" + pattern(yamlRead) + "))" +
		"[0].map(l, l.substring(" + literal(int64(len(name)+2)) + ")).filter(l, !(l.lowerAscii() in " + yamlWords + "))" +
		".map(l, l.matches('^[0-9]') ? dyn(int(l)) : dyn(l.replace('\"', '')))[0]"
	if t.naming != nil && ofData.MatchString(of.Text) {
		text = t.naming(name, text)
	}
	return fresh(text, postfix, Type{Kind: Either, Plain: true}), true, nil
}
