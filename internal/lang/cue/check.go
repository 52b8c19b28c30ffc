package cue

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"
)

func (c *compilation) problem(severity rule.Severity, pos token.Pos, what, do string) {
	p := rule.Problem{Severity: severity, Field: c.form.field(), At: c.place(pos), What: what, Do: do}
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// place converts a position of CUE, whose columns are bytes.
func (c *compilation) place(pos token.Pos) rule.Place {
	lines := strings.Split(c.source, "\n")
	if !pos.IsValid() || pos.Line() < 1 || pos.Line() > len(lines) {
		return rule.Place{}
	}
	line := lines[pos.Line()-1]
	return rule.PlaceIn(c.source, pos.Line(), 1+utf8.RuneCountInString(line[:min(max(pos.Column()-1, 0), len(line))]))
}

func (c *compilation) fail(what, do string) { c.problem(rule.Error, token.NoPos, what, do) }
func (c *compilation) failed() bool         { return len(rule.Errors(c.problems)) > 0 }

// cueErrors reports errors of CUE, each at its first position.
func (c *compilation) cueErrors(err error) {
	list := errors.Errors(errors.Sanitize(errors.Promote(err, "")))
	slices.SortStableFunc(list, func(a, b errors.Error) int { return position(a).Compare(position(b)) })
	for _, e := range list {
		text := e.Error()
		if c.failed() && missingImport.MatchString(text) {
			// The check of the imports has reported it.
			continue
		}
		c.problem(rule.Error, position(e), printable.Cut(text, longest), c.remedy(text))
	}
}

var missingImport = regexp.MustCompile(`import "[^"]*" not found|builtin package "[^"]*" undefined|imported but not defined`)

var unknownName = regexp.MustCompile(`reference "([^"]*)" not found`)

// position returns the first place that an error has in the source.
func position(e errors.Error) token.Pos {
	if pos := e.Position(); pos.IsValid() && pos.Line() > 0 {
		return pos
	}
	for _, pos := range errors.Positions(e) {
		if pos.IsValid() && pos.Line() > 0 {
			return pos
		}
	}
	return token.NoPos
}

// remedy returns how to correct an error of CUE.
func (c *compilation) remedy(text string) string {
	for _, param := range c.form.params() {
		if strings.Contains(text, fmt.Sprintf("reference %q not found", param)) {
			return fmt.Sprintf("declare the parameter: %s: _ @tag(%s)", param, param)
		}
	}
	if strings.Contains(text, `reference "oldObject" not found`) {
		return "override rules get no oldObject; do without it"
	}
	if name := unknownName.FindStringSubmatch(text); name != nil {
		switch name[1] {
		case "list", "math", "regexp", "strconv", "strings", "time":
			return fmt.Sprintf("write import %q first", name[1])
		case "base64", "hex", "json", "yaml":
			return fmt.Sprintf("write import %q first", "encoding/"+name[1])
		}
		return "declare the name or correct it"
	}
	for _, r := range []struct{ sign, remedy string }{
		{"conflicting values", "make the declarations agree, or put them under conditions that exclude each other"},
		{"unreferenced alias or let clause", "use it or remove it"},
		{"not available in version", "write it in the language of CUE v0.4.3"},
	} {
		if strings.Contains(text, r.sign) {
			return r.remedy
		}
	}
	return "correct the CUE"
}

// longest is where error texts, which may quote values of any size, are cut.
const longest = 600

// An evalError is CUE's error of one evaluation.
type evalError struct {
	err error
}

func (e *evalError) Error() string {
	list := errors.Errors(e.err)
	slices.SortStableFunc(list, func(a, b errors.Error) int {
		return cmp.Or(position(a).Compare(position(b)), cmp.Compare(a.Error(), b.Error()))
	})
	first := list[0]
	for _, e := range list {
		// The errors of the alternatives of a disjunction are more useful than its own.
		if !strings.Contains(e.Error(), "errors in empty disjunction") {
			first = e
			break
		}
	}
	text := printable.Cut(first.Error(), longest)
	if pos := position(first); pos.IsValid() {
		text = fmt.Sprintf("%s (%d:%d)", text, pos.Line(), pos.Column())
	}
	if more := len(list) - 1; more > 0 {
		text = fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

func (e *evalError) Unwrap() error { return e.err }
