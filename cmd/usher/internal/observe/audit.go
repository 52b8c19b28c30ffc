package observe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/compare"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/impact/diff"
)

type auditFlags struct {
	files, policies, whatIf []string
	facts                   facts.Flags
	limits                  policies.Limits
	http                    bool
	cluster                 bool
	replicas                replica.Flags
	namespace, policy       string
	stdinName               string
	failOn                  failOn
	groupBy                 cli.Choice
	output                  cli.OutputFlag
	color                   cli.ColorFlag
}

// Audit returns usher audit.
func Audit(s cli.Streams) *cobra.Command {
	f := auditFlags{failOn: failOn{result.Fail, result.Error}}
	cmd := &cobra.Command{
		Use:   "audit [FILES... -p POLICIES | --from-cluster]",
		Short: "Show what policies say of objects that exist",
		Long: `Audit shows what policies say of objects that exist, as if each were created now.

Without arguments it prints the results of Usher in the cluster of the kubeconfig, which
audits if it is installed with audit.enabled=true. It reaches the replica that audits as
'kubectl port-forward' does, or at --server. You see the namespaces for which you may list
auditresults.usher.dev.

With files it judges the objects in them: files, folders, lists, and the output of helm and
kustomize on the standard input. Policies are those of -p. Results name the template that
helm, or the file that kustomize with originAnnotations, made an object of; --stdin-name
says where these are, or what file the standard input is.

With --from-cluster it reads the cluster itself, without Usher in it: its policies, also those of -p, and all
objects of the kinds that these are for. Nothing is written. With -n it reads one namespace,
with no more rights than those of a user of that namespace.

A result is "fail" where admission would deny the object or record it, or admit a workload and
deny its pods, which the message then says; "warn" where it would warn of it or change it;
"error" where a rule or a kind cannot be judged; and "skip" where a rule needs what an object
does not tell, such as who writes it, or where an exemption applies.

The exit status is 0 if there is no result of --fail-on, 1 if there is one or if no policy is
for any of the objects, and 2 if policies or objects cannot be used.`,
		Example: `  usher audit
  usher audit -n shop --policy labels
  usher audit -p policies/ manifests/
  helm template shop chart/ | usher audit -p policies/ -n shop -
  helm template deploy/chart | usher audit -p policies/ -o sarif --stdin-name deploy/chart/ - > audit.sarif
  kustomize build overlays/prod | usher audit -p policies/ -o sarif --stdin-name overlays/prod/ - > audit.sarif
  usher audit --from-cluster
  usher audit --from-cluster -n shop -o json | jq '.results[].message'
  usher audit -p policies/ --fail-on fail,error,warn manifests/`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.register(cmd)
	return cmd
}

func (f *auditFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	objects.RegisterFlag(flags, &f.files)
	policies.RegisterFlag(flags, &f.policies, "")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "as 'usher impact': file or folder with policies that are not in force, to compare with those that are (repeatable)")
	flags.BoolVar(&f.cluster, "from-cluster", false, "read the cluster of the kubeconfig; nothing is written to it")
	f.replicas.Register(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace to audit; with files, that of objects that name none, which otherwise are in default")
	flags.StringVar(&f.stdinName, "stdin-name", "", "file that the standard input has, for places in the output; with a / at its end, the folder of the Helm chart or the kustomization that made it")
	flags.StringVar(&f.policy, "policy", "", "show only results of this policy: NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME")
	f.facts.Register(flags)
	flags.BoolVar(&f.http, "ask-http", false, "let rules call HTTP services for each object; otherwise rules that do are not judged")
	f.limits.RegisterWithTimeout(cmd)
	flags.Var(&f.failOn, "fail-on", "results that make the exit status 1: "+strings.Join(allowedFailures(), ", "))
	cli.Offer(cmd, "fail-on", allowedFailures()...)
	f.groupBy.Allow("object", "policy")
	flags.Var(&f.groupBy, "group-by", "how to group the results in text: object or policy")
	cli.Offer(cmd, "group-by", "object", "policy")
	f.output.Register(cmd, "text", "json", "yaml", "sarif", "markdown", "junit")
	f.color.Register(cmd)
}

func (f *auditFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	f.files = append(f.files, args...)
	if err := f.validate(); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	if len(f.whatIf) > 0 {
		return f.compare(cmd, s)
	}
	report, err := f.report(cmd, s)
	if err != nil {
		return err
	}
	if err := f.print(s, report); err != nil {
		return err
	}
	return f.verdict(cmd, s, report)
}

func (f *auditFlags) validate() error {
	server, files := len(f.replicas.Servers) > 0, len(f.files) > 0
	switch {
	case f.cluster && files:
		return errors.New("--from-cluster and files exclude each other")
	case server && (f.cluster || files):
		return errors.New("--server has results of its own: leave out --from-cluster and files")
	case f.cluster && len(f.facts.Files) > 0:
		return errors.New("--from-cluster excludes --facts, which the cluster has")
	case files && (f.replicas.Kubeconfig != "" || f.replicas.Context != ""):
		return errors.New("--kubeconfig and --context are for clusters, not for files")
	case f.stdinName != "" && !slices.Contains(f.files, "-"):
		return errors.New("--stdin-name is for objects on the standard input: name -")
	case files && len(f.policies)+len(f.whatIf) == 0:
		return errors.New("no policies: name a file or folder with -p")
	case len(f.whatIf) > 0 && !f.comparable():
		return errors.New("--what-if is 'usher impact', which has no --policy, --group-by, --stdin-name, -o sarif and -o junit")
	case !files && !f.cluster && len(f.policies)+len(f.whatIf)+len(f.facts.Files) > 0:
		return errors.New("nothing to audit by these policies: name files, - for the standard input, or --from-cluster; a server has policies of its own")
	}
	return cli.ReadsStdinOnce(f.files, f.policies, f.whatIf)
}

// comparable reports whether usher impact has what the flags ask for.
func (f *auditFlags) comparable() bool {
	return f.policy == "" && f.groupBy.Value == "object" && f.stdinName == "" && f.output.Value != "sarif" && f.output.Value != "junit"
}

// compare compares the policies with those of --what-if, as usher impact does.
func (f *auditFlags) compare(cmd *cobra.Command, s cli.Streams) error {
	sides := compare.Sides{Old: f.policies, New: f.whatIf, Applied: true}
	if f.cluster {
		sides.Old = append(slices.Clone(f.policies), compare.InCluster)
	}
	flags := &compare.Flags{
		Requests: f.files, Facts: f.facts, Limits: f.limits, HTTP: f.http, FromCluster: f.cluster, Kubeconfig: f.replicas.Kubeconfig, Context: f.replicas.Context,
		Namespace: f.namespace, By: compare.DefaultBy(), FailOn: f.failOn.differences(), Output: f.output, Color: f.color,
	}
	return flags.Run(cmd, s, sides)
}

func (f *auditFlags) report(cmd *cobra.Command, s cli.Streams) (*format.Report, error) {
	switch {
	case f.cluster:
		return f.auditCluster(cmd, s)
	case len(f.files) > 0:
		return f.auditFiles(cmd, s)
	}
	return f.auditServer(cmd, s)
}

func (f *auditFlags) print(s cli.Streams, r *format.Report) error {
	switch f.output.Value {
	case "text":
		return format.Text(s.Out, r, format.Layout{
			Palette: f.color.Palette(s.Out), Width: cli.Width(s.Out), ByPolicy: f.groupBy.Value == "policy",
		})
	case "sarif":
		return format.SARIF(s.Out, r, cli.BuildVersion().Version)
	case "markdown":
		return format.Markdown(s.Out, r)
	case "junit":
		return format.JUnit(s.Out, r)
	}
	return f.output.Encode(s.Out, r)
}

// verdict is the answer of the command to a report that has been printed.
func (f *auditFlags) verdict(cmd *cobra.Command, s cli.Streams, r *format.Report) error {
	if len(f.failOn) == 0 {
		return nil
	}
	if r.Nothing() {
		if f.output.Value != "text" {
			cli.Notef(cmd, s, "warning", format.NothingAudited)
		}
		return cli.ErrNegative
	}
	if slices.Contains(f.failOn, unmatched) && len(r.Unmatched()) > 0 {
		return cli.ErrNegative
	}
	if slices.Contains(f.failOn, result.Error) && r.Incomplete() {
		return cli.ErrNegative
	}
	for _, status := range f.failOn {
		var found result.Summary
		found.Add(status, 1)
		if r.Summary.Error*found.Error+r.Summary.Fail*found.Fail+r.Summary.Warn*found.Warn+r.Summary.Skip*found.Skip > 0 {
			return cli.ErrNegative
		}
	}
	return nil
}

// unmatched is a value of --fail-on that is no status: a policy is for none of the objects.
const unmatched result.Status = "unmatched"

// A failOn is the flag that says which results make the exit status 1. It is empty for none.
type failOn []result.Status

func allowedFailures() []string {
	return []string{"fail", "error", "warn", "skip", string(unmatched), "none"}
}

// String implements [pflag.Value].
func (f *failOn) String() string {
	var names []string
	for _, status := range *f {
		names = append(names, string(status))
	}
	return cmp.Or(strings.Join(names, ","), "none")
}

// differences are those that follow from the results.
func (f *failOn) differences() []string {
	var all []string
	for status, kinds := range map[result.Status][]string{
		result.Fail: {string(diff.Denied), string(diff.PodsDenied)}, result.Error: {string(diff.Failing)}, result.Warn: {string(diff.Warned), string(diff.Changed)}, result.Skip: {string(diff.Unknown)},
	} {
		if slices.Contains(*f, status) {
			all = append(all, kinds...)
		}
	}
	if len(*f) == 0 {
		return []string{"none"}
	}
	return all
}

// Set implements [pflag.Value].
func (f *failOn) Set(value string) error {
	*f = nil
	names := strings.Split(value, ",")
	for _, name := range names {
		switch {
		case !slices.Contains(allowedFailures(), name):
			return fmt.Errorf("%q: use some of %s, with commas", name, strings.Join(allowedFailures(), ", "))
		case name == "none" && len(names) > 1:
			return errors.New("none excludes the others")
		case name != "none":
			*f = append(*f, result.Status(name))
		}
	}
	return nil
}

// Type implements [pflag.Value].
func (f *failOn) Type() string { return "results" }
