package write

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/gatekeeper"
	"github.com/usher-dev/usher/internal/convert/kyverno"
	"github.com/usher-dev/usher/internal/convert/kyverno/celkinds"
	"github.com/usher-dev/usher/internal/convert/kyverno/prove"
	"github.com/usher-dev/usher/internal/convert/proof"
)

// An engine is another policy engine.
type engine struct {
	name string
	// is says whether an object is one of its policies, and isTest whether one has its tests, which are of the
	// kind test.
	is, isTest func(object map[string]any) bool
	test       string
	// testFile is the name that files with tests have in hidden folders; empty if they are in none.
	testFile string
	policies func(ctx context.Context, objects []convert.Foreign, o convert.Options) []convert.Import
	prove    func(ctx context.Context, of *convert.Foreign, read proof.Read, o convert.Options) []proof.Row
	// generated proves a policy without tests; nil if nothing does.
	generated func(ctx context.Context, i *convert.Import, found []convert.Foreign, o convert.Options) []proof.Row
}

// proveOptions are those of proofs of Kyverno's policies.
func proveOptions(o convert.Options) prove.Options {
	return prove.Options{Kinds: o.Kinds, Limits: o.Limits, Convert: func(ctx context.Context, objects []convert.Foreign) []convert.Import {
		o.Enforce, o.Partial = true, false
		return kyvernoPolicies(ctx, objects, o)
	}}
}

// command completes the command of an engine.
func (f *importFlags) command(s cli.Streams, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) }
	f.register(cmd)
	return cmd
}

// importGatekeeper returns usher import gatekeeper.
func importGatekeeper(s cli.Streams) *cobra.Command {
	f := importFlags{engine: engine{
		name: "Gatekeeper", is: gatekeeper.Is, isTest: gatekeeper.IsSuite, test: "Suite", policies: gatekeeper.Policies, prove: gatekeeper.Prove,
	}}
	return f.command(s, &cobra.Command{
		Use:   "gatekeeper PATH...",
		Short: "Make ClusterObjectPolicies of Gatekeeper's templates in CEL",
		Long: `Gatekeeper makes a ClusterObjectPolicy of each ConstraintTemplate in CEL among files and
folders, with a binding for each of its constraints. Namespaces that a Config excludes are
excluded. A template is converted wholly, or left out with the reasons: templates in Rego
alone are, unless it is known what their Rego means, and so is external data. With
--partial a template is converted with the constraints that can be. Assign,
AssignMetadata, AssignImage and ModifySet become mutations.

Nothing that is imported denies: where a constraint denies, the binding warns, unless
--enforce is set. The outcome for each template goes to the standard error, and with
--report to the standard output in place of the policies.

With --prove the tests of gator in files and folders run on what their templates become.
They are written as cases of 'usher test' as well, into the folder cases of --out.

The exit status is 0 if all is converted, 1 if something was left out, is missing, a test
differs or was not judged within --timeout, with --strict also if one cannot be judged, and
2 if a file cannot be read or written.`,
		Example: `  usher import gatekeeper library/ --out usher/
  usher import gatekeeper library/ --prove library/ --out usher/
  usher import gatekeeper --report json library/
  usher import gatekeeper --from-cluster --out usher/`,
	})
}

// isKyverno reports whether an object is a policy of Kyverno, in patterns or in CEL.
func isKyverno(object map[string]any) bool { return kyverno.Is(object) || celkinds.Is(object) }

// kyvernoPolicies converts the policies of Kyverno, those in CEL last.
func kyvernoPolicies(ctx context.Context, all []convert.Foreign, o convert.Options) []convert.Import {
	var inPatterns, inCEL []convert.Foreign
	for _, f := range all {
		if celkinds.Is(f.Object) {
			inCEL = append(inCEL, f)
		} else {
			inPatterns = append(inPatterns, f)
		}
	}
	return append(kyverno.Policies(ctx, inPatterns, o), celkinds.Policies(ctx, inCEL, o)...)
}

// importKyverno returns usher import kyverno.
func importKyverno(s cli.Streams) *cobra.Command {
	f := importFlags{engine: engine{
		name: "Kyverno", is: isKyverno, isTest: prove.IsTest, test: "Test", testFile: "kyverno-test.yaml", policies: kyvernoPolicies,
		prove: func(ctx context.Context, of *convert.Foreign, read proof.Read, o convert.Options) []proof.Row {
			return prove.Tests(ctx, of, read, proveOptions(o))
		},
		generated: func(ctx context.Context, i *convert.Import, found []convert.Foreign, o convert.Options) []proof.Row {
			exceptions := slices.DeleteFunc(slices.Clone(found), func(f convert.Foreign) bool { return f.Ref().Kind != "PolicyException" })
			return prove.Generated(ctx, i, exceptions, proveOptions(o))
		},
	}}
	return f.command(s, &cobra.Command{
		Use:   "kyverno PATH...",
		Short: "Make object policies of Kyverno's policies",
		Long: `Kyverno makes a ClusterObjectPolicy of each ClusterPolicy, ValidatingPolicy and MutatingPolicy
among files and folders, and an ObjectPolicy of those of a namespace. Objects for which a PolicyException is are excluded. A policy is
converted wholly, or left out with the reasons: rules that generate objects, verify images or
change other objects than that of the request are. With --partial the rules that can be
converted are, and descriptions say which ones are missing. Rules that are not for the same
requests become policies of their own.

Nothing that is imported denies: where a policy enforces, the binding warns, unless --enforce
is set. The outcome for each policy goes to the standard error, and with --report to the
standard output in place of the policies.

With --prove the tests of Kyverno's command in files and folders run on what their policies
become, and policies without tests answer requests that are made of what they mention, and
change their objects, as they did. Tests are written as cases of 'usher test' as well, into the folder cases of --out.

The exit status is 0 if all is converted, 1 if something was left out, is missing, a test
differs, names a policy, rule or object that is not there, or was not judged within --timeout,
with --strict also if one cannot be judged, and 2 if a file cannot be read or written.`,
		Example: `  usher import kyverno policies/ --out usher/
  usher import kyverno policies/ --prove policies/ --out usher/
  usher import kyverno --report text policies/
  usher import kyverno --from-cluster --out usher/`,
	})
}
