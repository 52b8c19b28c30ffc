// Package withhold leaves out of errors and messages what must not be shown: values of objects.
package withhold

import (
	"regexp"

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
	return printable.Cut(quoted.ReplaceAllString(err.Error(), "(…)"), limit)
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
