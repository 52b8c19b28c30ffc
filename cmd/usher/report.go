package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/yamldiff"
)

type decideReport struct {
	Decisions []judgement `json:"decisions"`
	Allowed   int         `json:"allowed"`
	Changed   int         `json:"changed"`
	Denied    int         `json:"denied"`
}

func (r *decideReport) add(j judgement) {
	r.Decisions = append(r.Decisions, j)
	switch {
	case !j.Allowed:
		r.Denied++
	case j.changed():
		r.Changed++
		r.Allowed++
	default:
		r.Allowed++
	}
}

// print writes what a person wants to see. Webhooks do not tell their rules: rules says
// whether they are known.
func (r *decideReport) print(w io.Writer, p palette, rules bool) error {
	var b strings.Builder
	for i := range r.Decisions {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := r.Decisions[i].print(&b, p, rules); err != nil {
			return err
		}
	}
	if len(r.Decisions) > 1 {
		fmt.Fprintf(&b, "\n%s: %d allowed (%d changed), %d denied\n", count(len(r.Decisions), "object", "objects"), r.Allowed, r.Changed, r.Denied)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (j *judgement) print(b *strings.Builder, p palette, rules bool) error {
	fmt.Fprintf(b, "%s: %s %s: %s\n", j.File, j.Operation, paint(p.bold, j.Name.String()), j.verdict(p))
	if j.Message != "" || j.Reason != "" {
		fmt.Fprintf(b, "  %s\n", paint(p.red, cmp.Or(j.Message, j.Reason)))
	}
	for _, warning := range j.Warnings {
		fmt.Fprintf(b, "  %s %s\n", paint(p.yellow, "warning:"), warning)
	}
	if rules {
		j.printRules(b, p)
	}
	if !j.changed() {
		return nil
	}
	changes, err := changesOf(j.before, j.Result, p)
	if err != nil {
		return err
	}
	b.WriteString(changes)
	return nil
}

func (j *judgement) verdict(p palette) string {
	switch {
	case !j.Allowed && j.Code != 0:
		return paint(p.red, fmt.Sprintf("denied (%s, code %d)", j.Phase, j.Code))
	case !j.Allowed:
		return paint(p.red, fmt.Sprintf("denied (%s)", j.Phase))
	case j.changed():
		return paint(p.green, "allowed, changed")
	}
	return paint(p.green, "allowed")
}

func (j *judgement) printRules(b *strings.Builder, p palette) {
	if len(j.Rules) == 0 {
		b.WriteString("  no rule matched\n")
	}
	for i := range j.Rules {
		r := &j.Rules[i]
		fmt.Fprintf(b, "  %s %s %s", outcome(r, p), r.Policy, r.Rule)
		if detail := cmp.Or(r.Error, r.Message); detail != "" {
			fmt.Fprintf(b, ": %s", detail)
		}
		b.WriteByte('\n')
	}
	if len(j.Near) == 0 {
		return
	}
	b.WriteString("  nearly matched:\n")
	for _, n := range j.Near {
		fmt.Fprintf(b, "    %s %s: %s\n", n.Policy, n.Rule, paint(p.faint, n.Miss))
	}
}

func outcome(r *ruleResult, p palette) string {
	word := fmt.Sprintf("%-8s", r.Outcome)
	if r.Ignored {
		word += " (ignored)"
	}
	return paintOutcome(r.Outcome, word, r.Ignored, p)
}

func paintOutcome(o usher.Outcome, word string, ignored bool, p palette) string {
	switch {
	case o == usher.Changed:
		return paint(p.cyan, word)
	case o == usher.Failed && ignored:
		return paint(p.yellow, word)
	case o == usher.Rejected, o == usher.Failed:
		return paint(p.red, word)
	case o == usher.Passed:
		return paint(p.green, word)
	}
	return word
}

// changesOf is a unified diff of two objects as YAML.
func changesOf(before, after map[string]any, p palette) (string, error) {
	changes, err := yamldiff.Of(before, after)
	if err != nil {
		return "", err
	}
	return paintDiff(changes, p), nil
}

// paintDiff indents a diff and gives it colours.
func paintDiff(changes string, p palette) string {
	var b strings.Builder
	for line := range strings.Lines(changes) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "@@"):
			text = paint(p.cyan, text)
		case strings.HasPrefix(text, "+"):
			text = paint(p.green, text)
		case strings.HasPrefix(text, "-"):
			text = paint(p.red, text)
		}
		b.WriteString("  " + text + "\n")
	}
	return b.String()
}
