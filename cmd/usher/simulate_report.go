package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/simulate"
)

type simulateReport struct {
	Requests []simulated `json:"requests"`
	Admitted int         `json:"admitted"`
	Refused  int         `json:"refused"`
}

// A simulated is the trace of an object in a file.
type simulated struct {
	File string `json:"file"`
	*simulate.Trace
}

func (r *simulateReport) add(file string, trace *simulate.Trace) {
	r.Requests = append(r.Requests, simulated{file, trace})
	if trace.Admitted {
		r.Admitted++
	} else {
		r.Refused++
	}
}

// print writes what a person wants to see; all adds what went without saying.
func (r *simulateReport) print(w io.Writer, p palette, all bool) error {
	var b strings.Builder
	for i, s := range r.Requests {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := s.print(&b, p, all); err != nil {
			return err
		}
	}
	if len(r.Requests) > 1 {
		fmt.Fprintf(&b, "\n%s: %d admitted, %d refused\n", count(len(r.Requests), "object", "objects"), r.Admitted, r.Refused)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *simulated) print(b *strings.Builder, p palette, all bool) error {
	name := s.Name
	if s.Namespace != "" && s.Kind != "v1 Namespace" {
		name = s.Namespace + "/" + cmp.Or(name, "*")
	}
	fmt.Fprintf(b, "%s: %s %s %s as %s: %s\n", s.File, s.Operation, s.Resource, paint(p.bold, name), s.User, s.verdict(p))
	if s.Error != nil {
		fmt.Fprintf(b, "  %s %s\n", paint(p.red, "error:"), s.Error.Message)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(b, "  %s %s\n", paint(p.yellow, "warning:"), warning)
	}
	s.printSteps(b, p, all)
	s.printAudit(b, p, all)
	if !s.Admitted || s.Operation == usher.Delete {
		return nil
	}
	changes, err := changesOf(s.Before, s.Result, p)
	if err != nil || changes == "" {
		return err
	}
	b.WriteString("  in all\n")
	b.WriteString(indent(changes))
	return nil
}

func (s *simulated) verdict(p palette) string {
	suffix := ""
	if s.DryRun {
		suffix = " (dry run)"
	}
	if s.Admitted {
		return paint(p.green, "admitted") + suffix
	}
	return paint(p.red, strings.TrimSpace(fmt.Sprintf("refused (%d %s", s.Error.Code, s.Error.Reason))+")") + suffix
}

func (s *simulated) printSteps(b *strings.Builder, p palette, all bool) {
	heading := ""
	for i := range s.Steps {
		step := &s.Steps[i]
		title := string(step.Phase)
		if step.Round > 0 {
			title += ", again: the object was changed"
		}
		if title != heading {
			heading = title
			fmt.Fprintf(b, "  %s\n", title)
		}
		printStep(b, step, p, all)
	}
}

func printStep(b *strings.Builder, s *simulate.Step, p palette, all bool) {
	fmt.Fprintf(b, "    %s %s", painted(s.Outcome, p), s.Plugin)
	if s.Name != "" {
		fmt.Fprintf(b, " %s", s.Name)
	}
	if s.Param != "" {
		fmt.Fprintf(b, " with %s", s.Param)
	}
	switch {
	case s.Message != "":
		fmt.Fprintf(b, ": %s", s.Message)
	case !s.Called && s.Why != "":
		fmt.Fprintf(b, ": %s", paint(p.faint, s.Why))
	}
	b.WriteByte('\n')
	if all && s.Called && s.Why != "" {
		fmt.Fprintf(b, "      matched by %s\n", s.Why)
	}
	if s.SentAs != "" {
		fmt.Fprintf(b, "      sent as %s\n", s.SentAs)
	}
	if all && s.URL != "" {
		fmt.Fprintf(b, "      POST %s, answered by %s in %s\n", s.URL, cmp.Or(s.By, "it"), s.Took)
	}
	for _, check := range s.Checks {
		printCheck(b, &check, p, all)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(b, "      %s %s\n", paint(p.yellow, "warning:"), warning)
	}
	b.WriteString(indent(indent(paintDiff(s.Diff, p))))
}

// printCheck leaves out expressions that are as they should be, unless all are wanted.
func printCheck(b *strings.Builder, c *simulate.Check, p palette, all bool) {
	fine := c.Value == "true" || c.Value == "applied"
	if fine && !all {
		return
	}
	fmt.Fprintf(b, "      %s is %s: %s\n", c.Name, c.Value, paint(p.faint, strings.Join(strings.Fields(c.Expression), " ")))
	if c.Message != "" && c.Value == "error" {
		fmt.Fprintf(b, "        %s\n", c.Message)
	}
}

func painted(o simulate.Outcome, p palette) string {
	word := fmt.Sprintf("%-9s", o)
	switch o {
	case simulate.Changed:
		return paint(p.cyan, word)
	case simulate.Denied, simulate.Failed:
		return paint(p.red, word)
	case simulate.Ignored, simulate.Reported:
		return paint(p.yellow, word)
	case simulate.Passed:
		return paint(p.green, word)
	case simulate.Skipped, simulate.Unreached:
	}
	return paint(p.faint, word)
}

// printAudit leaves out the patches, which the diffs show, unless all is wanted.
func (s *simulated) printAudit(b *strings.Builder, p palette, all bool) {
	keys := slices.Sorted(maps.Keys(s.Audit))
	if !all {
		keys = slices.DeleteFunc(keys, func(key string) bool {
			return strings.HasPrefix(key, "patch.webhook.") || strings.HasPrefix(key, "mutation.webhook.")
		})
	}
	if len(keys) == 0 {
		return
	}
	b.WriteString("  audit annotations\n")
	for _, key := range keys {
		fmt.Fprintf(b, "    %s: %s\n", key, paint(p.faint, s.Audit[key]))
	}
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}
