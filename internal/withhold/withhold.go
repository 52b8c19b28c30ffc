// Package withhold leaves out of errors and messages what must not be shown: values of objects.
package withhold

import (
	"regexp"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/printable"
)

// Secret is all that is shown of an error that may repeat a secret.
const Secret = "not shown: it may repeat a secret"

// limit is the longest text, in bytes.
const limit = 500

var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*(?:\"|$)|'[^']*(?:'|$)|`[^`]*(?:`|$)")

// Error returns the text of an error about r without what stands in quotes, since that may be a
// value of the object. It is empty for nil, and [Secret] if the object is a secret or
// confidential says that one has been read.
func Error(r *usher.Request, err error, confidential bool) string {
	if err == nil {
		return ""
	}
	if confidential || fact.Confidential(r.Kind.Kind) {
		return Secret
	}
	return printable.Cut(withoutQuoted(err.Error()), limit)
}

const (
	left     = "(…)"
	resulted = "' resulted in error: "
	within   = "(in expression '"
)

// withoutQuoted leaves out what stands in quotes. An expression of a policy that an error quotes may have
// quotes itself, and is left out as a whole.
func withoutQuoted(text string) string {
	if before, _, found := strings.Cut(text, within); found && strings.HasSuffix(text, "')") {
		return withoutQuoted(before) + "(in expression " + left + ")"
	}
	before, rest, found := strings.Cut(text, "'")
	end := strings.LastIndex(rest, resulted)
	if !found || end < 0 {
		return quoted.ReplaceAllString(text, left)
	}
	expression, cause := rest[:end], rest[end+len(resulted):]
	if strings.Contains(expression, resulted) {
		// Where the expression ends is not certain, and so what of the rest stands in quotes.
		cause = left
	}
	return quoted.ReplaceAllString(before, left) + left + resulted[1:] + quoted.ReplaceAllString(cause, left)
}

// Message returns what a policy says about r to users, cut to the same length as errors. It is
// [Secret] if the object is a secret or confidential says that one has been read: messages can
// repeat values.
func Message(r *usher.Request, text string, confidential bool) string {
	if text != "" && (confidential || fact.Confidential(r.Kind.Kind)) {
		return Secret
	}
	return printable.Cut(text, limit)
}
