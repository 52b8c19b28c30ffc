// Package write has the commands for authors of policies.
package write

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/deploy/crds"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/source"
)

type checkFlags struct {
	paths, files    []string
	strict, verbose bool
	reads           bool
	stdinName       string
	lockout         lockoutFlag
	limits          policies.Limits
	output          cli.OutputFlag
	color           cli.ColorFlag
}

// Check returns usher check.
func Check(s cli.Streams) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:        "check PATH...",
		SuggestFor: []string{"lint", "validate", "verify"},
		Short:      "Say what is wrong with policies",
		Long: `Check compiles the policies in files and folders and prints everything that is wrong
with them: the file and line, the field, what is wrong and what to do about it. The path -
means the standard input. Policies are of policy.kcloudlabs.io, usher.dev and
admissionregistration.k8s.io (ValidatingAdmissionPolicy, MutatingAdmissionPolicy, bindings).

It also tries each policy on objects of the kinds that it selects, the least that an API
server accepts and ones with every field, and says which requests would be refused
because a rule fails on them, and what a rule reads or sets that no such object has.
With --file it tries the objects that you give, too. CustomResourceDefinitions among
these, and among the policies, say what objects of their kinds are like; kinds that
nothing is known of are not tried, named, and counted in the last line.

With --reads it prints what the policies read besides requests: params, data, owners,
other objects, namespaces and access; and the values of the Helm chart that give Usher
the rights for that.

With --lockout, which is part of --strict, it tries the policies on the requests without
which a cluster cannot recover: those of the control plane, nodes, pod networks, storage
and names, deletions of namespaces and policies, drains, and the repair of Usher. It is an
error if a policy refuses one that reaches Usher as the chart registers it, or, of
Kubernetes' own admission policies, one that API servers ask these about. Suspended
policies are tried as they would be in force. The add-ons of the samples are in namespaces
of their own, unless --infrastructure-namespaces names yours. --verbose and -o json list
each request, also those that are out of reach, and why.

With --verbose it also says which CUE runs on the CUE evaluator, which takes some hundred
times as long as CUE in the subset that is compiled, and what in it makes it so.

With -o sarif it writes a log for code scanning; --stdin-name says which file the standard
input is. The exit status is 0 if there is no error, 1 if there is, and 2 if there is nothing
to check. With --strict warnings are errors, and so is what was not tried.`,
		Example: `  usher check policies/
  usher check --strict team-a.yaml team-b.yaml
  usher check --verbose policies/
  usher check --lockout --verbose policies/
  usher check -f deployment.yaml -f crds/ policies/
  kubectl get clusteroverridepolicies -o yaml | usher check -
  usher check -o json policies/ | jq '.problems[].field'
  usher check -o sarif policies/ > check.sarif`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	policies.RegisterFlag(cmd.Flags(), &f.paths, "; the same as PATH")
	f.limits.RegisterWithTimeout(cmd)
	registerObjects(cmd, &f.files)
	cmd.Flags().BoolVar(&f.strict, "strict", false, "count warnings, and what was not tried, as errors")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print more: which CUE runs slowly, and why")
	cmd.Flags().BoolVar(&f.reads, "reads", false, "print what policies read besides requests, and the rights that this needs, instead of problems")
	cmd.Flags().StringVar(&f.stdinName, "stdin-name", "", "file that the standard input has, for places in the output")
	f.lockout.register(cmd)
	f.output.Register(cmd, "text", "json", "yaml", "sarif")
	f.color.Register(cmd)
	return cmd
}

// registerObjects adds the flag that names objects.
func registerObjects(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "file", "f", nil, "file or folder with objects to try the policies on, and CustomResourceDefinitions (repeatable)")
}

func (f *checkFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	if f.paths = append(f.paths, args...); len(f.paths) == 0 {
		return cli.NoPaths(cmd, "policies")
	}
	if err := f.validate(); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	set, err := policies.ReadSome(cmd, s, f.paths)
	if err != nil {
		return err
	}
	compiler, err := f.limits.Compiler()
	if err != nil {
		return err
	}
	compiled, err := compiler.All(cmd.Context(), set.Policies)
	if err != nil {
		return err
	}
	if f.reads {
		return f.printReads(s, compiled)
	}
	try, _, err := newTrial(f.files, f.paths)
	if err != nil {
		return err
	}
	f.lockout.on = f.lockout.on || f.strict
	report, err := f.report(cmd.Context(), set, compiled, try)
	if err != nil {
		return err
	}
	report.listLockout, report.strict = f.verbose, f.strict
	if f.verbose {
		report.Slow = slowSteps(compiled)
	}
	err = f.print(s, &report)
	if err == nil && (report.Errors > 0 || report.failsByStrict()) {
		return cli.ErrNegative
	}
	return err
}

func (f *checkFlags) validate() error {
	switch {
	case f.reads && f.output.Value == "sarif":
		return errors.New("--reads lists no problems: -o sarif is for these")
	case f.stdinName != "" && !slices.Contains(f.paths, "-"):
		return errors.New("--stdin-name is for policies on the standard input: name -")
	case strings.HasSuffix(f.stdinName, "/"):
		return errors.New("--stdin-name is a file, not a folder")
	}
	return nil
}

func (f *checkFlags) print(s cli.Streams, r *checkReport) error {
	switch f.output.Value {
	case "text":
		return r.print(s, f.color.Palette(s.Out))
	case "sarif":
		return format.ProblemsSARIF(s.Out, r.Problems, r.notes(), cli.BuildVersion().Version)
	}
	return f.output.Encode(s.Out, r)
}

// notes returns what the report has beside problems.
func (r *checkReport) notes() []string {
	var all []string
	for _, skipped := range r.NotTried {
		all = append(all, fmt.Sprintf("not tried: %s: %s", skipped.Policy, skipped.Why))
	}
	for _, step := range r.Slow {
		all = append(all, step.String())
	}
	return all
}

// printReads prints what policies read. CustomResourceDefinitions say what resources are called.
func (f *checkFlags) printReads(s cli.Streams, compiled []compile.Compiled) error {
	report, err := newReadsReport(compiled, slices.Concat(f.paths, f.files))
	if err != nil {
		return err
	}
	return f.output.Report(s.Out, report, func() error { return report.print(s) })
}

type checkReport struct {
	Policies int            `json:"policies"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Problems []rule.Problem `json:"problems"`
	// SlowPath are the steps that run on the CUE evaluator, if a flag requests them.
	Slow []slowStep `json:"slow,omitempty"`
	// NotTried are the policies that were not tried on all of their kinds.
	NotTried []check.NotTried `json:"notTried,omitempty"`
	// Lockout is what policies do to the requests without which a cluster cannot recover, if a flag
	// requests it.
	Lockout []lockout.Finding `json:"lockout,omitempty"`

	listLockout, strict bool
}

// A slowStep is a step of a rule that runs slowly, and why.
type slowStep struct {
	Policy usher.PolicyRef `json:"policy"`
	Rule   string          `json:"rule"`
	Step   string          `json:"step"`
	Why    string          `json:"why"`
}

func (s slowStep) String() string {
	return fmt.Sprintf("%s: %s: %s runs on the CUE evaluator: %s", s.Policy, s.Rule, s.Step, s.Why)
}

// slowSteps returns the steps that run on the CUE evaluator, in the order of the rules.
func slowSteps(compiled []compile.Compiled) []slowStep {
	rules := compile.Order(compiled)
	var slow []slowStep
	for i := range rules {
		steps := rules[i].SlowPath()
		for _, name := range slices.Sorted(maps.Keys(steps)) {
			slow = append(slow, slowStep{rules[i].Policy, rules[i].Name, name, steps[name]})
		}
	}
	return slow
}

// report tries policies that were compiled, and returns all that is wrong with them.
func (f *checkFlags) report(ctx context.Context, set source.Set, compiled []compile.Compiled, try *trial.Trial) (checkReport, error) {
	found, skipped, err := check.Try(ctx, f.limits.Timeout(), compiled, try)
	if err != nil {
		return checkReport{}, err
	}
	var refused []lockout.Finding
	if f.lockout.on {
		findings, more, err := f.lockout.try(ctx, f.limits.Timeout(), compiled, found)
		if err != nil {
			return checkReport{}, err
		}
		refused, found = findings, slices.Concat(found, more)
	}
	problems := check.Problems(set, compiled, found)
	for i := range problems {
		if problems[i].File == "-" {
			problems[i].File = cmp.Or(f.stdinName, "-")
		}
	}
	rule.SortProblems(problems)
	errs := len(rule.Errors(problems))
	return checkReport{
		Policies: len(set.Policies),
		Errors:   errs,
		Warnings: len(problems) - errs,
		Problems: problems,
		NotTried: skipped,
		Lockout:  refused,
	}, nil
}

// newTrial returns what tries policies on the objects in files, and the kinds of the
// CustomResourceDefinitions in all files.
func newTrial(files, paths []string) (*trial.Trial, *kind.Set, error) {
	objects, err := object.Load(files...)
	if err != nil {
		return nil, nil, err
	}
	defined, err := kind.Defined(slices.Concat(objects, definitions(paths)))
	if err != nil {
		return nil, nil, err
	}
	return trial.New(trial.Options{
		Objects: objects,
		Kinds: func(_ context.Context, recorded *kind.Set, of []schema.GroupVersionKind) *kind.Set {
			if slices.ContainsFunc(of, func(k schema.GroupVersionKind) bool { return api.IsGroup(k.Group) }) {
				recorded = recorded.With(ownKinds())
			}
			return recorded.With(defined)
		},
	}), defined, nil
}

// ownKinds returns the kinds of policies of Usher's own. Reading their CustomResourceDefinitions takes a moment.
var ownKinds = sync.OnceValue(func() *kind.Set {
	var all []map[string]any
	for _, k := range api.Kinds() {
		// A test has policies for all kinds.
		if text, err := crds.Of(k.GroupVersionResource().GroupResource()); err == nil {
			read, _ := object.Decode(text)
			all = append(all, read...)
		}
	}
	own, err := kind.Defined(all)
	if err != nil {
		return kind.New(nil, nil, false)
	}
	return own
})

// definitions returns the objects of the files that have CustomResourceDefinitions. Reading the
// policies reports the problems of files.
func definitions(paths []string) []map[string]any {
	var all []map[string]any
	files, _ := manifest.Files(slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "-" })...)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(content, []byte("CustomResourceDefinition")) {
			continue
		}
		if found, err := object.Decode(content); err == nil {
			all = append(all, found...)
		}
	}
	return all
}

func (r *checkReport) print(s cli.Streams, p cli.Palette) error {
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintln(s.Out, policies.Paint(problem, p)); err != nil {
			return err
		}
	}
	for _, skipped := range r.NotTried {
		if _, err := fmt.Fprintf(s.Out, "%s %s: %s\n", cli.Paint(p.Yellow, "not tried:"), skipped.Policy, printable.Line(skipped.Why)); err != nil {
			return err
		}
	}
	if r.listLockout {
		if err := r.printLockout(s, p); err != nil {
			return err
		}
	}
	for _, step := range r.Slow {
		_, err := fmt.Fprintf(s.Out, "%s %s\n", cli.Paint(p.Yellow, "slow:"), printable.Line(step.String()))
		if err != nil {
			return err
		}
	}
	verdict := cli.Paint(p.Green, "no problems")
	if len(r.Problems)+len(r.NotTried) > 0 {
		verdict = cli.Count(r.Errors, "error", "errors") + ", " + cli.Count(r.Warnings, "warning", "warnings")
	}
	if n := r.partly(); n > 0 {
		verdict += fmt.Sprintf(", %d not tried on everything", n)
	}
	if r.Errors == 0 && r.failsByStrict() {
		verdict += "; with --strict, the check fails"
	}
	_, err := fmt.Fprintf(s.Out, "%s: %s\n", cli.Count(r.Policies, "policy", "policies"), verdict)
	return err
}

// failsByStrict reports whether there is what --strict, if it is given, counts as an error.
func (r *checkReport) failsByStrict() bool { return r.strict && r.Warnings+len(r.NotTried) > 0 }

// partly returns how many policies were not tried on everything that they are for.
func (r *checkReport) partly() int {
	policies := map[usher.PolicyRef]bool{}
	for i := range r.NotTried {
		policies[r.NotTried[i].Policy] = true
	}
	return len(policies)
}
