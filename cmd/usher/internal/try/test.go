package try

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// Test returns usher test.
func Test(s cli.Streams) *cobra.Command {
	var output cli.OutputFlag
	var color cli.ColorFlag
	var pattern string
	var verbose bool
	var paths []string
	var extent testExtent
	var limits policies.Limits
	cmd := &cobra.Command{
		Use:   "test PATH...",
		Short: "Run test cases of policies",
		Long: `Test runs the case files in files and folders. A case names policies, a request and the
answer that it must get; docs/test-format.md describes the formats. No cluster is needed.

With --coverage it tells which policies, rules and conditions no case exercises, and for a
folder which policies no case names, of those in the folder, in policies/ beside cases/ and
beside a file of policyFiles. With
--mutate it leaves out one part of the policies after the other, such as a rule or a label of a
selector, and changes CEL expressions: a case must fail each time, or else the exit status is 1.

The exit status is 0 if every case passes, 1 if one fails, and 2 if the cases cannot be
run at all.`,
		Example: `  usher test cases/
  usher test --run 'replicas|labels' cases/
  usher test --coverage --mutate cases/
  usher test -o junit cases/ > report.xml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if paths = append(paths, args...); len(paths) == 0 {
				return cli.NoPaths(cmd, "cases")
			}
			cases, err := selectCases(paths, pattern, &limits)
			if err != nil {
				return err
			}
			noteWithoutOld(cmd, s, cases)
			noteSlips(cmd, s, cases)
			if pattern == "" {
				extent.paths = paths
			}
			report := newTestReport(runCases(cmd, s, cases))
			if err := report.examine(cmd, s, cases, extent); err != nil {
				return err
			}
			err = report.write(s.Out, &output, color.Palette(s.Out), verbose)
			if err == nil && (report.Failed > 0 || report.Mutants != nil && len(report.Mutants.Survivors) > 0) {
				return cli.ErrNegative
			}
			return err
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "file", "f", nil, "file or folder with cases (repeatable); the same as PATH")
	cmd.Flags().StringVar(&pattern, "run", "", "run only cases whose name matches this regular expression")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print more: the cases that pass, too")
	extent.register(cmd.Flags())
	limits.RegisterWithTimeout(cmd)
	output.Register(cmd, "text", "json", "yaml", "junit")
	color.Register(cmd)
	return cmd
}

func selectCases(paths []string, pattern string, limits *policies.Limits) ([]policytest.Test, error) {
	allowed, err := limits.Limits()
	if err != nil {
		return nil, err
	}
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	all, err := policytest.Tests(paths...)
	if err != nil {
		return nil, err
	}
	var cases []policytest.Test
	for _, c := range all {
		if wanted.MatchString(c.Name) {
			cases = append(cases, c.WithLimits(allowed).WithRoles(Roles).WithTimeout(limits.Timeout()))
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("--run %s: none of %s has a name that matches", pattern, cli.Count(len(all), "case", "cases"))
	}
	return cases, nil
}

// noteWithoutOld prints to s.Err that cases are updates that no API server asks about.
func noteWithoutOld(cmd *cobra.Command, s cli.Streams, cases []policytest.Test) {
	var names []string
	for i := range cases {
		if c, ok := cases[i].Admission(); ok && c.Request.Operation == usher.Update && c.Request.OldObject == nil {
			names = append(names, cases[i].Name)
		}
	}
	if len(names) > 0 {
		cli.Notef(cmd, s, "warning", "%s without oldObject, which API servers send with every UPDATE: %s", cli.Count(len(names), "UPDATE", "UPDATEs"), cli.Some(names))
	}
}

// noteSlips prints to s.Err what API servers do not know of the objects of requests: a case may pass because of it.
func noteSlips(cmd *cobra.Command, s cli.Streams, cases []policytest.Test) {
	var inputs []objects.Input
	for i := range cases {
		if c, ok := cases[i].Admission(); ok {
			of := cases[i].File + ": " + cases[i].Name
			inputs = append(inputs, objects.Input{File: of, Object: c.Request.Object}, objects.Input{File: of, Object: c.Request.OldObject})
		}
	}
	objects.NoteSlips(cmd, s, inputs, kind.Recorded())
}

// noteDefaults prints to s.Err that a case may fail because its object lacks a default.
func noteDefaults(cmd *cobra.Command, s cli.Streams, cases []policytest.Test, reports []policytest.Report) {
	for i := range cases {
		c, ok := cases[i].Admission()
		if ok && reports[i].Status == policytest.Failed && objects.LacksDefault(c.Request.Object, reports[i].Message) {
			objects.NoteDefaults(cmd, s)
			return
		}
	}
}

// Roles answers about access by the roles and bindings among objects.
func Roles(objects []map[string]any) (usher.Decider, error) { return authz.Server(objects) }

// runCases runs cases on all processors and returns the results in the cases' order. It prints to s.Err why some may fail.
func runCases(cmd *cobra.Command, s cli.Streams, cases []policytest.Test) []policytest.Report {
	results := make([]policytest.Report, len(cases))
	var done atomic.Int64
	stop := cli.ShowProgress(s.Err, func() string { return fmt.Sprintf("%d of %d cases", done.Load(), len(cases)) })
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range cases {
		group.Go(func() error {
			results[i] = c.Run(cmd.Context())
			done.Add(1)
			return nil
		})
	}
	_ = group.Wait()
	stop()
	noteDefaults(cmd, s, cases, results)
	return results
}

type testReport struct {
	Cases   []policytest.Report `json:"cases"`
	Passed  int                 `json:"passed"`
	Failed  int                 `json:"failed"`
	Skipped int                 `json:"skipped"`
	// Coverage and Mutants are present if the flags request them, or NoMutants, which says why there are none.
	Coverage  []policytest.Coverage `json:"coverage,omitempty"`
	Beside    policytest.Beside     `json:"beside,omitzero"`
	Mutants   *policytest.Mutants   `json:"mutants,omitempty"`
	NoMutants string                `json:"noMutants,omitempty"`
}

// A testExtent selects what to measure besides whether cases pass.
type testExtent struct {
	coverage, mutate bool
	// paths are those of all cases; empty if only some of them are run.
	paths []string
}

func (e *testExtent) register(flags *pflag.FlagSet) {
	flags.BoolVar(&e.coverage, "coverage", false, "list the policies, rules and conditions that no case exercises")
	flags.BoolVar(&e.mutate, "mutate", false, "leave out one part of the policies after the other, such as a rule or a condition; a case must fail each time")
}

// examine measures the coverage of the cases. It tests mutants only if no case fails.
func (r *testReport) examine(cmd *cobra.Command, s cli.Streams, cases []policytest.Test, extent testExtent) error {
	if extent.coverage {
		var err error
		if r.Coverage, err = policytest.Cover(cmd.Context(), cases); err != nil {
			return err
		}
		r.Beside = policytest.PoliciesBeside(extent.paths, cases)
	}
	switch {
	case extent.mutate && r.Failed > 0:
		r.NoMutants = "no mutants were tried: correct the cases that fail first"
	case extent.mutate:
		mutants, err := mutate(cmd, s, cases)
		if err != nil {
			return err
		}
		r.Mutants = &mutants
	}
	return nil
}

// mutate tries mutants, and tells how far it is: in a pipe by a line a minute.
func mutate(cmd *cobra.Command, s cli.Streams, cases []policytest.Test) (policytest.Mutants, error) {
	var done, total atomic.Int64
	text := func() string { return fmt.Sprintf("%d of about %d mutants tried", done.Load(), total.Load()) }
	show := cli.ShowProgress
	if !cli.ForMachines(cmd) && !cli.IsTerminal(s.Err) {
		show = cli.LogProgress
	}
	defer show(s.Err, text)()
	return policytest.Mutate(cmd.Context(), cases, func(about int) {
		total.Store(int64(about))
		done.Add(1)
	})
}

func newTestReport(results []policytest.Report) testReport {
	report := testReport{Cases: results}
	for _, r := range results {
		switch r.Status {
		case policytest.Passed:
			report.Passed++
		case policytest.Failed:
			report.Failed++
		case policytest.Skipped:
			report.Skipped++
		}
	}
	return report
}

func (r testReport) write(w io.Writer, output *cli.OutputFlag, p cli.Palette, verbose bool) error {
	switch output.Value {
	case "text":
		return r.print(w, p, verbose)
	case "junit":
		return r.junit(w)
	}
	return output.Encode(w, r)
}

func (r testReport) print(w io.Writer, p cli.Palette, verbose bool) error {
	var b strings.Builder
	told := map[string]string{}
	for _, c := range r.Cases {
		switch {
		case c.NotRun() && told[c.Message] != "":
			fmt.Fprintf(&b, "%s %s (%s): not run, for the reason given for %s\n", cli.Paint(p.Red, "FAIL"), printable.Line(c.Name), printable.Line(c.File), told[c.Message])
		case c.Status == policytest.Failed:
			told[c.Message] = printable.Line(c.Name)
			fmt.Fprintf(&b, "%s %s (%s)\n    %s\n", cli.Paint(p.Red, "FAIL"), printable.Line(c.Name), printable.Line(c.File), strings.ReplaceAll(c.Message, "\n", "\n    "))
		case c.Status == policytest.Skipped:
			fmt.Fprintf(&b, "%s %s (%s): %s\n", cli.Paint(p.Yellow, "skip"), printable.Line(c.Name), printable.Line(c.File), text.Below("", c.Message))
		case verbose:
			fmt.Fprintf(&b, "%s %s (%s)\n", cli.Paint(p.Green, "pass"), printable.Line(c.Name), c.Took.Round(time.Millisecond))
		}
	}
	r.printCoverage(&b, p)
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r testReport) printCoverage(b *strings.Builder, p cli.Palette) {
	for _, c := range r.Coverage {
		fmt.Fprintf(b, "%s (%s): %d of %s, %d of %s, %d of %s\n", c.Set, c.File,
			c.Policies.Exercised, cli.Count(c.Policies.Total, "policy", "policies"),
			c.Rules.Exercised, cli.Count(c.Rules.Total, "rule", "rules"),
			c.Conditions.Exercised, cli.Count(c.Conditions.Total, "condition", "conditions"))
		for _, missing := range c.Missing {
			fmt.Fprintf(b, "    %s %s\n", cli.Paint(p.Yellow, "not exercised:"), missing)
		}
	}
	for _, u := range r.Beside.Unnamed {
		fmt.Fprintf(b, "%s %s (%s)\n", cli.Paint(p.Yellow, "no case names"), printable.Line(u.Policy.String()), printable.Line(u.File))
	}
	if n := len(r.Beside.Unnamed); n > 0 {
		fmt.Fprintf(b, "no case names %d of %s\n", n, cli.Count(r.Beside.Total, "policy", "policies"))
	}
	if r.NoMutants != "" {
		fmt.Fprintf(b, "%s\n", r.NoMutants)
	}
	if r.Mutants == nil {
		return
	}
	for _, s := range r.Mutants.Survivors {
		change := "without " + s.Without
		if s.With != "" {
			change = "with " + s.With
		}
		fmt.Fprintf(b, "%s %s (%s): no case fails %s\n", cli.Paint(p.Red, "survives:"), s.Set, s.File, change)
	}
	fmt.Fprintf(b, "%s, %d noticed\n", cli.Count(r.Mutants.Total, "mutant", "mutants"), r.Mutants.Total-len(r.Mutants.Survivors))
}

// The JUnit format, as far as CI systems agree on it.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	File    string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r testReport) junit(w io.Writer) error {
	suite := junitSuite{Name: "usher", Tests: len(r.Cases), Failures: r.Failed, Skipped: r.Skipped}
	var total time.Duration
	for _, c := range r.Cases {
		total += c.Took
		entry := junitCase{Name: printable.Line(c.Name), File: printable.Line(c.File), Time: seconds(c.Took)}
		message := printable.Lines(c.Message)
		first, _, _ := strings.Cut(message, "\n")
		switch c.Status {
		case policytest.Failed:
			entry.Failure = &junitMessage{Message: first, Text: message}
		case policytest.Skipped:
			entry.Skipped = &junitMessage{Message: first}
		case policytest.Passed:
		}
		suite.Cases = append(suite.Cases, entry)
	}
	suite.Time = seconds(total)
	encoded, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, encoded)
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
