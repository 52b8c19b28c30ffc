package format

import (
	"fmt"
	"io"
	"strings"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// MaxMarkdown is how long a comment may be: GitHub accepts 65,536 characters.
	MaxMarkdown = 60_000
	// maxMessage and maxName are how long a message and a name may be.
	maxMessage, maxName = 1000, 300
)

// Markdown writes a report as a comment of a pull request. What does not fit is counted.
func Markdown(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### Usher audit: %s\n\n%s: %s\n", verdict(r), r.extent(), r.counted())
	var rows []string
	for i := range r.Results {
		if one := &r.Results[i]; one.Status != result.Skip {
			rows = append(rows, markdownRow(one))
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n| | Severity | Object | Message | Policy |\n|---|---|---|---|---|\n")
	}
	for i, row := range rows {
		if b.Len()+len(row) > MaxMarkdown {
			fmt.Fprintf(&b, "\n… and %d more: run `usher audit`.\n", len(rows)-i)
			break
		}
		b.WriteString(row)
	}
	if unmatched := r.Unmatched(); len(unmatched) > 0 {
		fmt.Fprintf(&b, "\nFor none of the objects: ")
		for i, ref := range unmatched {
			if i > 0 {
				b.WriteString(", ")
			}
			if b.Len() > MaxMarkdown {
				fmt.Fprintf(&b, "and %d more", len(unmatched)-i)
				break
			}
			b.WriteString(Code(ref.String()))
		}
		b.WriteByte('\n')
	}
	if missing := r.Missing(); missing != "" {
		fmt.Fprintf(&b, "\nNot known: %s\n", Prose(missing))
	}
	if unread := r.Unread(); unread != "" {
		fmt.Fprintf(&b, "\nLeft out: %s\n", Prose(unread))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func verdict(r *Report) string {
	switch {
	case r.Nothing():
		return "nothing was audited"
	case r.Summary.Error > 0:
		return "errors"
	case r.Summary.Fail > 0:
		return "failures"
	case r.Summary.Warn > 0:
		return "warnings"
	}
	return "no objections"
}

func markdownRow(r *Result) string {
	object := Code(title(r.Object))
	if place := r.place(); place != "" {
		object += "<br>" + Code(place)
	}
	message := r.Message
	if r.Field != "" {
		message = strings.TrimLeft(strings.TrimPrefix(message, r.Field), ": ")
	}
	text := Prose(message)
	if r.Field != "" {
		text = Code(r.Field) + " " + text
	}
	return fmt.Sprintf("| **%s** | %s | %s | %s | %s |\n", r.Status, escape(string(r.Severity)), object, text, Code(policyName(r.Policy)))
}

// markup are the characters that mean something in a line of Markdown: emphasis, code, links, also
// those of bare addresses, HTML, entities, cells of tables and formulas.
const markup = "\\`*_[]<>&|~$.:"

// Prose returns the text of somebody else, as [escape] does, if it is not too long.
func Prose(text string) string { return escape(printable.CutRunes(text, maxMessage)) }

// escape returns text as Markdown that shows it: no links, no HTML, no mentions of users.
func escape(text string) string {
	var b strings.Builder
	for _, r := range printable.Line(text) {
		switch {
		case r == '@' || r == '#':
			// A comment, without which these mention users and issues. Nothing of it is copied with the text.
			b.WriteRune(r)
			b.WriteString("<!-- -->")
			continue
		case strings.ContainsRune(markup, r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Code returns text as a code span in a cell of a table. No name has a vertical bar, which would end
// the cell.
func Code(text string) string {
	text = printable.CutRunes(strings.ReplaceAll(printable.Line(text), "|", `\x7c`), maxName)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 || text == "" {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}
