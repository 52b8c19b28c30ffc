package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

func newCheck(s streams) *cobra.Command {
	var output outputFlag
	var color colorFlag
	var strict, verbose bool
	cmd := &cobra.Command{
		Use:   "check PATH... | -",
		Short: "Say what is wrong with policies",
		Long: `Check compiles the policies in files and folders and prints everything that is wrong
with them: the file and line, the field, what is wrong and what to do about it. With -
it reads them from standard input.

With --verbose it also says which CUE runs on the CUE evaluator, which takes some hundred
times as long as CUE in the subset that is compiled, and what in it makes it so.

The exit status is 0 if there is no error, 1 if there is, and 2 if there is nothing to
check. Warnings are errors with --strict.`,
		Example: `  usher check policies/
  usher check --strict team-a.yaml team-b.yaml
  usher check --verbose policies/
  kubectl get clusteroverridepolicies -o yaml | usher check -
  usher check -o json policies/ | jq '.problems[].field'`,
		Args: somePaths("policies"),
		RunE: func(_ *cobra.Command, paths []string) error {
			set, err := readPolicies(paths, s.in)
			if err != nil {
				return err
			}
			report := newCheckReport(set)
			if verbose {
				report.Slow = slowSteps(set)
			}
			if output.value == "text" {
				err = report.print(s, color.palette(s.out))
			} else {
				err = output.encode(s.out, report)
			}
			if err == nil && (report.Errors > 0 || strict && report.Warnings > 0) {
				return errNegative
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "count warnings as errors")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "say which CUE runs slowly, and why")
	output.register(cmd, "text", "json", "yaml")
	color.register(cmd)
	return cmd
}

// readPolicies is loadPolicies, of the standard input if the one path is -.
func readPolicies(paths []string, stdin io.Reader) (source.Set, error) {
	if !slices.Equal(paths, []string{"-"}) {
		return loadPolicies(paths)
	}
	content, err := io.ReadAll(stdin)
	if err != nil {
		return source.Set{}, fmt.Errorf("read policies: %w", err)
	}
	return somePolicies(dir.Parse("-", content), paths)
}

// loadPolicies reads policies; finding none is an error.
func loadPolicies(paths []string) (source.Set, error) {
	set, err := dir.Load(paths...)
	if err != nil {
		return source.Set{}, err
	}
	return somePolicies(set, paths)
}

func somePolicies(set source.Set, paths []string) (source.Set, error) {
	if len(set.Policies) == 0 && len(set.Unreadable) == 0 {
		return source.Set{}, fmt.Errorf("no policies in %s: expected YAML or JSON files with objects of %s",
			strings.Join(paths, ", "), "policy.kcloudlabs.io/v1alpha1 or usher.dev/v1alpha1")
	}
	return set, nil
}

type checkReport struct {
	Policies int            `json:"policies"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Problems []rule.Problem `json:"problems"`
	// Slow are the steps that run on the CUE evaluator, if they were asked for.
	Slow []slowStep `json:"slow,omitempty"`
}

// A slowStep is a step of a rule that runs slowly, and why it does.
type slowStep struct {
	Policy usher.PolicyRef `json:"policy"`
	Rule   string          `json:"rule"`
	Step   string          `json:"step"`
	Why    string          `json:"why"`
}

// slowSteps returns the steps that run on the CUE evaluator, in the order of the rules.
func slowSteps(set source.Set) []slowStep {
	rules, _ := compile.Policies(set.Policies)
	var slow []slowStep
	for i := range rules {
		steps := rules[i].Slow()
		for _, name := range slices.Sorted(maps.Keys(steps)) {
			slow = append(slow, slowStep{rules[i].Policy, rules[i].Name, name, steps[name]})
		}
	}
	return slow
}

func newCheckReport(set source.Set) checkReport {
	problems := problemsOf(set)
	errs := len(rule.Errors(problems))
	return checkReport{
		Policies: len(set.Policies),
		Errors:   errs,
		Warnings: len(problems) - errs,
		Problems: problems,
	}
}

// problemsOf compiles a set and returns all that is wrong with it, sorted and not nil.
func problemsOf(set source.Set) []rule.Problem {
	problems := []rule.Problem{}
	for _, u := range set.Unreadable {
		problems = append(problems, unreadable(u.Position, u.Err))
	}
	_, found := compile.Policies(set.Policies)
	problems = append(problems, found...)
	rule.SortProblems(problems)
	return problems
}

func unreadable(at api.Position, err error) rule.Problem {
	return rule.Problem{Severity: rule.Error, File: at.File, Line: at.Line, What: err.Error()}
}

func (r checkReport) print(s streams, p palette) error {
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintln(s.out, paintProblem(problem, p)); err != nil {
			return err
		}
	}
	for _, step := range r.Slow {
		_, err := fmt.Fprintf(s.out, "%s %s: %s: %s runs on the CUE evaluator: %s\n",
			paint(p.yellow, "slow:"), step.Policy, step.Rule, step.Step, step.Why)
		if err != nil {
			return err
		}
	}
	verdict := paint(p.green, "no problems")
	if len(r.Problems) > 0 {
		verdict = count(r.Errors, "error", "errors") + ", " + count(r.Warnings, "warning", "warnings")
	}
	_, err := fmt.Fprintf(s.out, "%s: %s\n", count(r.Policies, "policy", "policies"), verdict)
	return err
}

// paintProblem is the problem in one line, with its severity in colour.
func paintProblem(problem rule.Problem, p palette) string {
	colour := p.yellow
	if problem.Severity == rule.Error {
		colour = p.red
	}
	severity := string(problem.Severity) + ":"
	return strings.Replace(problem.String(), severity, paint(colour, severity), 1)
}
