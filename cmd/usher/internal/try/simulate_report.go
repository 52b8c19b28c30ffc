package try

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
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

	// files says that the cluster is one of files.
	files bool
}

func (r *simulateReport) add(one simulated) {
	trace := one.Trace
	r.Requests = append(r.Requests, one)
	if trace.Admitted {
		r.Admitted++
	} else {
		r.Refused++
	}
}

// print writes the report for people; all adds the details of ordinary steps.
func (r *simulateReport) print(w io.Writer, p cli.Palette, all bool) error {
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
		fmt.Fprintf(&b, "\n%s: %d admitted, %d refused\n", cli.Count(len(r.Requests), "object", "objects"), r.Admitted, r.Refused)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *simulated) print(b *strings.Builder, p cli.Palette, all bool) error {
	name := s.Name
	if s.Namespace != "" && s.Kind != "v1 Namespace" {
		name = s.Namespace + "/" + cmp.Or(name, "*")
	}
	fmt.Fprintf(b, "%s: %s %s %s as %s: %s\n", printable.Line(s.File), s.Operation, printable.Line(s.Resource), cli.Paint(p.Bold, printable.Line(name)), printable.Line(s.User), s.verdict(p))
	if s.Error != nil {
		fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Red, "error:"), text.Below("  ", s.Error.Message))
		if s.files && s.Error.Message == fmt.Sprintf("namespaces %q not found", s.Namespace) {
			fmt.Fprintf(b, "  %s name a file that has the Namespace with --cluster-files\n", cli.Paint(p.Yellow, "hint:"))
		}
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Yellow, "warning:"), text.Below("  ", warning))
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

func (s *simulated) verdict(p cli.Palette) string {
	suffix := ""
	if s.DryRun {
		suffix = " (dry run)"
	}
	if s.Admitted {
		return cli.Paint(p.Green, "admitted") + suffix
	}
	return cli.Paint(p.Red, strings.TrimSpace(fmt.Sprintf("refused (%d %s", s.Error.Code, s.Error.Reason))+")") + suffix
}

func (s *simulated) printSteps(b *strings.Builder, p cli.Palette, all bool) {
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

func printStep(b *strings.Builder, s *simulate.Step, p cli.Palette, all bool) {
	fmt.Fprintf(b, "    %s %s", painted(s.Outcome, p), s.Plugin)
	if s.Name != "" {
		fmt.Fprintf(b, " %s", s.Name)
	}
	if s.Param != "" {
		fmt.Fprintf(b, " with %s", s.Param)
	}
	switch {
	case s.Message != "":
		fmt.Fprintf(b, ": %s", text.Below("    ", s.Message))
	case !s.Called && s.Why != "":
		fmt.Fprintf(b, ": %s", cli.Paint(p.Faint, printable.Line(s.Why)))
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
		fmt.Fprintf(b, "      %s %s\n", cli.Paint(p.Yellow, "warning:"), text.Below("      ", warning))
	}
	b.WriteString(indent(indent(paintDiff(s.Diff, p))))
}

// printCheck omits expressions that are true, unless all are requested.
func printCheck(b *strings.Builder, c *simulate.Check, p cli.Palette, all bool) {
	fine := c.Value == "true" || c.Value == "applied"
	if fine && !all {
		return
	}
	fmt.Fprintf(b, "      %s is %s: %s\n", c.Name, c.Value, cli.Paint(p.Faint, strings.Join(strings.Fields(c.Expression), " ")))
	if c.Message != "" && c.Value == "error" {
		fmt.Fprintf(b, "        %s\n", text.Below("        ", c.Message))
	}
}

func painted(o simulate.Outcome, p cli.Palette) string {
	word := fmt.Sprintf("%-9s", o)
	switch o {
	case simulate.Changed:
		return cli.Paint(p.Cyan, word)
	case simulate.Denied, simulate.Failed:
		return cli.Paint(p.Red, word)
	case simulate.Ignored, simulate.Reported:
		return cli.Paint(p.Yellow, word)
	case simulate.Passed:
		return cli.Paint(p.Green, word)
	case simulate.Skipped, simulate.Unreached:
	}
	return cli.Paint(p.Faint, word)
}

// printAudit omits the patches, which the diffs show, unless all are requested.
func (s *simulated) printAudit(b *strings.Builder, p cli.Palette, all bool) {
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
		fmt.Fprintf(b, "    %s: %s\n", printable.Line(key), cli.Paint(p.Faint, text.Below("    ", s.Audit[key])))
	}
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}
