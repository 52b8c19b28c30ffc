package authorization

import (
	"encoding/json"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
)

// maxText is the longest reason and the longest error in a response, in bytes. An API server
// accepts any length, caches it, and shows it to the user.
const maxText = 1024

// An answer is the status of a SubjectAccessReview.
type answer struct {
	allowed, denied bool
	reason          string
	evaluationError string
}

// answerOf turns a decision into a response. If only is not empty, other verdicts become no
// opinion.
func answerOf(d usher.Decision, only usher.Verdict) (answer, error) {
	a := answer{evaluationError: failures(d.Findings)}
	switch d.Verdict {
	case usher.Allow, usher.Deny, usher.NoOpinion:
	default:
		return a, fmt.Errorf("verdict %q is not known", d.Verdict)
	}
	if d.Verdict == usher.NoOpinion || only == "" || only == d.Verdict {
		a.allowed, a.denied, a.reason = d.Verdict == usher.Allow, d.Verdict == usher.Deny, d.Message
	}
	return a, nil
}

// failures lists the rules that failed, with their errors.
func failures(findings []usher.Finding) string {
	var b strings.Builder
	for i := range findings {
		f := &findings[i]
		if f.Outcome != usher.Failed {
			continue
		}
		if b.Len() > maxText {
			break
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Policy.String() + " " + f.Rule + ": ")
		if f.Err != nil {
			b.WriteString(f.Err.Error())
		} else {
			b.WriteString(f.Message)
		}
	}
	return b.String()
}

// append appends the review with the response to out, without the request.
func (a answer) append(out []byte, apiVersion string) []byte {
	out = append(out, `{"kind":"`+kind+`","apiVersion":"`...)
	out = append(out, apiVersion...)
	out = append(out, `","status":{"allowed":`...)
	if a.allowed {
		out = append(out, "true"...)
	} else {
		out = append(out, "false"...)
	}
	if a.denied {
		out = append(out, `,"denied":true`...)
	}
	if a.reason != "" {
		out = appendText(append(out, `,"reason":`...), a.reason)
	}
	if a.evaluationError != "" {
		out = appendText(append(out, `,"evaluationError":`...), a.evaluationError)
	}
	return append(out, "}}\n"...)
}

// appendText adds text as a JSON string, in one line and not longer than is useful.
func appendText(out []byte, text string) []byte {
	if len(text) <= maxText && plain(text) {
		out = append(out, '"')
		out = append(out, text...)
		return append(out, '"')
	}
	encoded, err := json.Marshal(printable.Cut(printable.Blank(text), maxText))
	if err != nil {
		// Strings can always be encoded.
		return append(out, `""`...)
	}
	return append(out, encoded...)
}

// plain reports whether text stands in JSON as it is.
func plain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
