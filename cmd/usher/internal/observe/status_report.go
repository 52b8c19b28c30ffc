package observe

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/printable"
)

// mostProblems limits how many problems are printed: those of the cluster come first.
const mostProblems = 50

// print prints a report, the answer first.
func (r *statusReport) print(out io.Writer) error {
	answer := "the cluster is protected as its policies say"
	switch {
	case !r.Protected:
		answer = "not everything is enforced: " + cli.Count(len(r.Problems), "problem", "problems")
	case r.Calls != callsSeen && len(r.Replicas) == 0:
		answer = "it cannot be told whether the cluster is protected"
	}
	lines := append([]string{answer}, r.rows()...)
	for i, problem := range r.Problems {
		if i == mostProblems {
			lines = append(lines, fmt.Sprintf("and %s: -o json lists all", cli.Count(len(r.Problems)-i, "more problem", "more problems")))
			break
		}
		what := problem.What
		if problem.Policy != nil {
			what = problem.Policy.String() + ": " + what
		}
		lines = append(lines, "problem: "+what)
	}
	for _, what := range r.Unknown {
		lines = append(lines, "not known: "+what)
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return err
}

// rows returns what was found out about each part.
func (r *statusReport) rows() []string {
	ready := 0
	for i := range r.Replicas {
		if r.Replicas[i].Ready {
			ready++
		}
	}
	var open []string
	for _, w := range r.Webhooks {
		if w.FailsOpen {
			open = append(open, w.Name)
		}
	}
	calls := map[string]string{callsSeen: "API servers call Usher", callsMissing: "API servers do not call Usher", callsUnknown: "not known"}
	webhooks := cli.Count(len(r.Webhooks), "entry", "entries")
	if len(open) > 0 {
		webhooks += "; without an answer of Usher, API servers admit the requests of " + strings.Join(open, ", ")
	}
	p := &r.Policies
	counts := fmt.Sprintf("%d of %d enforced, %d failing, %d unproven, %d suspended", p.Enforced, p.All, p.Failing, p.Unproven, p.Suspended)
	if p.FailOpen > 0 {
		counts += fmt.Sprintf("; %d let pass what they fail on", p.FailOpen)
	}
	last := "not known"
	if d := r.LastDecision; d != nil {
		last = fmt.Sprintf("%s: %s %s %s %s", d.Time.UTC().Format(time.RFC3339), d.Verdict, d.Operation, d.Kind, strings.TrimPrefix(d.Namespace+"/"+d.Name, "/"))
	}
	return []string{
		"  calls          " + calls[r.Calls],
		fmt.Sprintf("  replicas       %d of %d ready", ready, len(r.Replicas)),
		"  webhooks       " + webhooks,
		"  policies       " + counts,
		"  last decision  " + printable.Line(last),
	}
}
