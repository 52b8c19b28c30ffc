package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/files"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/printable"
)

// Import returns usher import.
func Import(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make policies of those of other engines",
		Long: `Import makes ClusterObjectPolicies of policies of other engines. A policy is converted
wholly, or left out with the reasons.`,
		Example: `  usher import gatekeeper library/
  usher import kubernetes policy.yaml bindings.yaml
  usher import kyverno policies/`,
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(importGatekeeper(s), importKubernetes(s), importKyverno(s))
	return cmd
}

// importKubernetes returns usher import kubernetes.
func importKubernetes(s cli.Streams) *cobra.Command {
	var f renderFlags
	cmd := &cobra.Command{
		Use:   "kubernetes PATH...",
		Short: "Make ClusterObjectPolicies of Kubernetes' admission policies",
		Long: `Kubernetes makes a ClusterObjectPolicy of each ValidatingAdmissionPolicy and
MutatingAdmissionPolicy with its bindings, as 'usher render --from' does. Params that are
among the files are written into a binding that names exactly one object.

Both forms of a policy decide generated requests before the new one is printed. A request
that they decide differently is an error.`,
		Example: `  usher import kubernetes policy.yaml bindings.yaml`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.from = slices.Concat(f.from, args)
			return f.run(cmd, s, nil)
		},
	}
	policies.RegisterFlag(cmd.Flags(), &f.from, "; the same as PATH")
	f.limits.RegisterTimeout(cmd)
	return cmd
}

// importFlags are those of imports from other engines.
type importFlags struct {
	engine

	paths          []string
	folder         string
	tests          []string
	force, enforce bool
	strict         bool
	partial        bool
	timeout        time.Duration
	report         cli.OutputFlag
	limits         policies.Limits
	cluster        clusterSource
}

func (f *importFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	policies.RegisterFlag(flags, &f.paths, "; the same as PATH")
	f.cluster.register(flags)
	flags.StringVar(&f.folder, "out", "", "folder to write the files to, one policy a file (default: print them)")
	_ = cmd.MarkFlagDirname("out")
	flags.BoolVar(&f.force, "force", false, "with --out, overwrite files that exist")
	flags.BoolVar(&f.enforce, "enforce", false, "let policies deny where they did")
	flags.BoolVar(&f.partial, "partial", false, "convert the parts of a policy that can be converted, and say in its description what is missing")
	if f.prove != nil {
		flags.StringArrayVar(&f.tests, "prove", nil, "file or folder with tests of the other engine, to run on the policies (repeatable)")
		flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "timeout of --prove as a whole: what it has not judged until then is reported; 0 for any time")
		flags.BoolVar(&f.strict, "strict", false, "with --prove, leave out policies that a test shows to be different, and exit with 1 if one cannot be judged")
	}
	flags.Var(&f.report, "report", "print the outcome for each policy, in place of the policies: text, json, yaml, markdown")
	f.report.Allow("", "text", "json", "yaml", "markdown")
	cli.Offer(cmd, "report", "text", "json", "yaml", "markdown")
	f.limits.RegisterWithTimeout(cmd)
}

func (f *importFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	limits, err := f.limits.Limits()
	if err != nil {
		return err
	}
	for _, path := range f.tests {
		// The flag takes the next word, which may be meant as another flag.
		if strings.HasPrefix(path, "-") {
			return &cli.UsageError{Command: cmd.CommandPath(), Err: fmt.Errorf("--prove %s: name the file or folder with the tests: --prove PATH", path)}
		}
	}
	paths := slices.Concat(f.paths, args)
	found, others, err := f.read(cmd, s, paths)
	if err != nil {
		return err
	}
	defined, err := kind.Defined(others)
	if err != nil {
		return err
	}
	o := convert.Options{Kinds: kind.Recorded().With(defined), Enforce: f.enforce, Partial: f.partial, Limits: limits}
	imports, err := f.imports(cmd.Context(), found, o)
	if err != nil {
		return err
	}
	over, noCases := false, 0
	var own [][]*proof.Row
	rows, err := policies.Within(cmd.Context(), f.limits.Timeout(), "prove policies", func(ctx context.Context) ([]proof.Row, error) {
		ctx, cancel := f.timed(ctx)
		defer cancel()
		defer func() { over = late(ctx) }()
		rows, err := f.proofs(ctx, cmd, s, paths, o)
		if err != nil {
			return nil, err
		}
		rows = append(rows, f.untested(ctx, imports, rows, found, o)...)
		own = testsOf(imports, rows)
		if f.folder != "" {
			noCases, err = wholeCases(ctx, imports, own)
		}
		return rows, err
	})
	if err != nil {
		return err
	}
	report := newImportReport(imports, rows, own, f.strict)
	report.NoCases = noCases
	if err := f.write(s, imports, own, &report); err != nil {
		return err
	}
	if over || report.LeftOut+report.Partial+report.Tests.Differ+report.Tests.Misnamed > 0 || f.strict && report.Tests.Unjudged > 0 {
		return cli.ErrNegative
	}
	return nil
}

// imports converts policies.
func (f *importFlags) imports(ctx context.Context, found []convert.Foreign, o convert.Options) ([]convert.Import, error) {
	imports, err := policies.Within(ctx, f.limits.Timeout(), "import policies", func(ctx context.Context) ([]convert.Import, error) {
		imports := f.policies(ctx, found, o)
		convert.Distinct(imports)
		return imports, nil
	})
	if err != nil {
		return nil, err
	}
	return imports, f.sound(ctx, imports, o)
}

// read returns the objects of the other engine, and the other ones, of files or of a cluster.
func (f *importFlags) read(cmd *cobra.Command, s cli.Streams, paths []string) (found []convert.Foreign, others []map[string]any, err error) {
	of := strings.Join(paths, ", ")
	switch {
	case f.cluster.enabled && len(paths) > 0:
		return nil, nil, &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("--from-cluster and files exclude each other")}
	case !f.cluster.enabled && f.cluster.kubeconfig+f.cluster.context != "":
		return nil, nil, &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("--kubeconfig and --context are for --from-cluster")}
	case f.cluster.enabled:
		of = "the cluster"
		if found, others, err = f.cluster.read(cmd.Context(), f.is); err != nil {
			return nil, nil, err
		}
	case len(paths) == 0:
		return nil, nil, cli.NoPaths(cmd, "policies")
	default:
		inputs, err := readUnique(cmd, s, paths)
		if err != nil {
			return nil, nil, err
		}
		found, others = foreign(inputs, f.is)
	}
	if len(found) == 0 {
		return nil, nil, fmt.Errorf("no objects of %s in %s", f.name, of)
	}
	return found, others, nil
}

// readUnique reads objects of which no field is given twice: one of both would be lost.
func readUnique(cmd *cobra.Command, s cli.Streams, paths []string) ([]objects.Input, error) {
	inputs, err := objects.Read(cmd, s, paths)
	return inputs, cmp.Or(err, objects.Unique(inputs))
}

// foreign returns the objects of another engine, and the other ones.
func foreign(inputs []objects.Input, is func(map[string]any) bool) (found []convert.Foreign, others []map[string]any) {
	for i := range inputs {
		in := &inputs[i]
		switch {
		case in.Object == nil:
		case is(in.Object):
			found = append(found, convert.Foreign{Object: in.Object, File: in.File, Line: in.Line})
		default:
			others = append(others, in.Object)
		}
	}
	return found, others
}

// write writes the policies, and the outcome for each.
func (f *importFlags) write(s cli.Streams, imports []convert.Import, own [][]*proof.Row, report *importReport) error {
	documents, err := importedFiles(imports, own)
	if err != nil {
		return err
	}
	if f.folder != "" {
		existing := files.Keep
		if f.force {
			existing = files.Replace
		}
		_, err := files.Write(f.folder, documents, existing)
		if _, ok := errors.AsType[*files.ExistsError](err); ok {
			err = fmt.Errorf("%w: choose another folder, or overwrite them with --force", err)
		}
		if err != nil {
			return err
		}
	}
	if f.report.Value == "markdown" {
		_, err := io.WriteString(s.Out, report.markdown(f.name))
		return err
	}
	if f.report.Value != "" {
		return f.report.Report(s.Out, report, func() error { return report.print(s.Out) })
	}
	if err := report.print(s.Err); err != nil {
		return err
	}
	if f.folder != "" {
		return wroteImported(s.Err, f.folder, documents)
	}
	for i, d := range documents {
		if strings.HasPrefix(d.Path, casesFolder) {
			continue
		}
		if i > 0 {
			d.Content = append([]byte("---\n"), d.Content...)
		}
		if _, err := s.Out.Write(d.Content); err != nil {
			return err
		}
	}
	return nil
}

// wroteImported says which files there are, and what to do with them.
func wroteImported(w io.Writer, folder string, documents []files.File) error {
	var b strings.Builder
	cases := false
	for _, d := range documents {
		cases = cases || strings.HasPrefix(d.Path, casesFolder)
		fmt.Fprintf(&b, "wrote %s\n", printable.Line(filepath.Join(folder, d.Path)))
	}
	if len(documents) > 0 {
		next := "usher check --strict " + printable.Line(folder)
		if cases {
			next += " && usher test " + printable.Line(filepath.Join(folder, "cases"))
		}
		fmt.Fprintf(&b, "next: %s\n", next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// importedFiles returns a file for each policy, and one with the cases of each.
func importedFiles(imports []convert.Import, own [][]*proof.Row) ([]files.File, error) {
	var all []files.File
	names := fileNames{taken: map[string]bool{}, last: map[string]int{}}
	written := map[usher.PolicyRef]string{}
	for i := range imports {
		documents, err := convert.Documents(imports[i].To)
		if err != nil {
			return nil, err
		}
		var policyFiles []string
		for n, o := range imports[i].To {
			content, err := printable.YAML(documents[n])
			if err != nil {
				return nil, fmt.Errorf("encode %s: %w", nameOf(o), err)
			}
			ref := usher.PolicyRef{Kind: o.GetObjectKind().GroupVersionKind().Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
			if written[ref] == "" {
				written[ref] = names.of(ref.Name, ref.Namespace)
				all = append(all, files.File{Path: written[ref], Content: content})
			}
			policyFiles = append(policyFiles, "../"+written[ref])
		}
		cases, err := casesIn(policyFiles, own[i])
		if err != nil {
			return nil, fmt.Errorf("encode a case of %s: %w", imports[i].Of.Ref(), err)
		}
		if len(imports[i].To) > 0 && len(cases) > 0 {
			all = append(all, files.File{Path: names.of(casesFolder+imports[i].To[0].GetName(), imports[i].To[0].GetNamespace()), Content: cases})
		}
	}
	return all, nil
}

// mostAlike is how many policies of one kind and name are told apart. All but one are left out anyway.
const mostAlike = 10

// testsOf returns the tests of each policy. Those of another policy that has the same name are of none.
func testsOf(imports []convert.Import, rows []proof.Row) [][]*proof.Row {
	named := map[usher.PolicyRef][]int{}
	for i := range imports {
		ref := imports[i].Of.Ref()
		if len(named[ref]) < mostAlike {
			named[ref] = append(named[ref], i)
		}
	}
	own := make([][]*proof.Row, len(imports))
	for n := range rows {
		for _, i := range named[rows[n].Policy] {
			if reflect.DeepEqual(rows[n].Object, imports[i].Of.Object) {
				own[i] = append(own[i], &rows[n])
			}
		}
	}
	return own
}

// fileNames gives each file a name of its own.
type fileNames struct {
	taken map[string]bool
	// last are the numbers of the last files of a name.
	last map[string]int
}

// of returns a file for something of a name, which has no slashes: it has been compiled. If another file has it, the
// namespace follows, and then a number.
func (f *fileNames) of(name, namespace string) string {
	if namespace != "" && f.taken[name+".yaml"] {
		name += "." + namespace
	}
	for {
		f.last[name]++
		file := name + ".yaml"
		if n := f.last[name]; n > 1 {
			file = fmt.Sprintf("%s-%d.yaml", name, n)
		}
		if !f.taken[file] {
			f.taken[file] = true
			return file
		}
	}
}
