// Package compare has usher impact, and runs the same comparison for commands that ask a part of it.
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/existing"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/impact/diff"
)

// Flags are those of usher impact.
type Flags struct {
	Requests            []string
	Facts               facts.Flags
	Limits              policies.Limits
	HTTP                bool
	FromCluster         bool
	Kubeconfig, Context string
	Namespace           string
	By, FailOn          []string
	Output              cli.OutputFlag
	Color               cli.ColorFlag

	// Authorization compares policies that authorize requests, and no others, on generated requests.
	Authorization bool

	search bool
}

// Sides are where two sets of policies come from: files, folders, and the word [InCluster].
type Sides struct {
	Old, New []string
	// Applied means that the new ones replace those of the old ones that have the same name; the others stay.
	Applied bool
}

// InCluster is the word for the policies of a cluster.
const InCluster = "cluster"

// Impact returns usher impact.
func Impact(s cli.Streams) *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use:        "impact [OLD] NEW {--requests PATH | --from-cluster | --search}",
		SuggestFor: []string{"diff", "compare", "what-if"},
		Short:      "Show what a change of policies would do to requests",
		Long: `Impact compares two sets of policies, in files or folders, on requests: which of them
would be newly denied, or allowed, or warned of, whose objects would come out otherwise, and
for which a rule would fail that did not.

The requests are those of --requests: audit logs of API servers, which may be compressed,
cases of 'usher test', and objects and AdmissionReviews in files and folders. Objects are
judged as if they were created. Policies that authorize requests are compared on audit logs
and cases.

With --from-cluster, facts are those of the cluster, and so are the objects that are compared
unless there are --requests: each is judged as if it was created, and as if it was updated
without a change. Without OLD, NEW is compared with the policies of the cluster, as if it was
applied: others stay. The word cluster in place of OLD or NEW is the policies of the cluster,
all of them. Nothing is written to it.

With --search, policies that no request shows a difference of are tried on generated
requests: what is found is printed as a case for 'usher test'. That nothing is found is no proof.

What is not known is said, never guessed. Audit logs of the level RequestResponse have most of
what policies read. They do not have objects as they were before a request, unless the log has
an earlier request for them, and of what was admitted they have the object that came out: what
mutating policies would change about it is unknown. Policies that read other objects, such as
labels of Namespaces, need these with --facts, and policies that read who sends the request do
not judge objects.

The exit status is 0 if there is no difference of --fail-on, 1 if there is one, if no policy
that differs is for any of the requests, or if of none of these it is known what would happen,
and 2 if policies or requests cannot be used.`,
		Example: `  usher impact old/ new/ --requests /var/log/kubernetes/audit.log
  usher impact old/ new/ --requests manifests/ --requests cases/
  usher impact new-policy.yaml --from-cluster
  usher impact cluster policies/ --from-cluster --requests audit.log
  git worktree add --detach ../main main && usher impact ../main/policies policies --requests manifests/ -o markdown
  zcat audit-*.log.gz | usher impact old/ new/ --requests - --by policy,namespace,user
  usher impact old/ new/ --requests audit.log --fail-on denied,failing,unknown
  usher impact old/ new/ --search`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			sides := Sides{Old: args[:1], New: args[len(args)-1:]}
			if len(args) == 1 {
				sides = Sides{Old: []string{InCluster}, New: args, Applied: true}
			}
			return f.Run(cmd, s, sides)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *Flags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.Requests, "requests", nil, "file or folder with requests: audit logs, cases, objects, AdmissionReviews, - for the standard input (repeatable)")
	flags.BoolVar(&f.FromCluster, "from-cluster", false, "read the cluster of the kubeconfig; nothing is written to it")
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: as kubectl finds it)")
	flags.StringVar(&f.Context, "context", "", "context of the kubeconfig (default: the current one)")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace to audit; with files, that of objects that name none, which otherwise are in default")
	flags.BoolVar(&f.search, "search", false, "try policies that no request shows a difference of on generated requests")
	f.Facts.Register(flags)
	flags.BoolVar(&f.HTTP, "ask-http", false, "let rules call HTTP services for each object; otherwise rules that do are not judged")
	f.Limits.RegisterWithTimeout(cmd)
	f.RegisterReport(cmd, flags)
}

// RegisterReport adds the flags that say what to print, and when to fail.
func (f *Flags) RegisterReport(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.By, "by", DefaultBy(), "what to count differences by: policy, which is always one, namespace, resource, user, owner")
	cli.Offer(cmd, "by", dimensions...)
	flags.StringSliceVar(&f.FailOn, "fail-on", []string{string(diff.Failing), string(diff.Denied), string(diff.PodsDenied)}, "differences that make the exit status 1: "+strings.Join(failures(), ", "))
	cli.Offer(cmd, "fail-on", failures()...)
	f.Output.Register(cmd, "text", "json", "yaml", "markdown")
	f.Color.Register(cmd)
}

// DefaultBy returns the default of --by.
func DefaultBy() []string { return []string{"namespace", "resource"} }

// dimensions are the values of --by. Policy is always one.
var dimensions = []string{"policy", "namespace", "resource", "user", "owner"}

// failures are the values of --fail-on.
func failures() []string {
	var all []string
	for _, kind := range diff.Kinds() {
		all = append(all, string(kind))
	}
	return append(all, "none")
}

// Run compares two sets of policies, and prints how they differ.
func (f *Flags) Run(cmd *cobra.Command, s cli.Streams, sides Sides) error {
	if err := f.validate(sides); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	was, is, from, err := f.read(cmd, s, sides)
	if err != nil {
		return err
	}
	is.NoteIdle(cmd, s)
	c, err := f.comparing(was, is, from)
	if err != nil {
		return err
	}
	stop := cli.ShowProgress(s.Err, c.progress)
	err = c.run(cmd, s, f.Requests)
	stop()
	if err != nil {
		return err
	}
	if excluding := c.workers[0].Excluding(); len(excluding) > 0 && c.written.Load() {
		cli.Notef(cmd, s, "hint", "%s: objects are compared as if nobody wrote them whom excludeSubjects names", excluding[0])
	}
	report := c.report()
	if f.search {
		if report.Searched, err = c.search(cmd.Context(), was, is, report); err != nil {
			return err
		}
	}
	if err := f.print(s, report); err != nil {
		return err
	}
	if f.fails(report) {
		return cli.ErrNegative
	}
	return nil
}

// fails reports whether a report is one to fail on: it has a difference of --fail-on, or shows nothing.
func (f *Flags) fails(r *impactReport) bool {
	return !slices.Contains(f.FailOn, "none") && len(r.Policies) > 0 && (r.showsNothing() || slices.ContainsFunc(f.FailOn, r.has))
}

func (f *Flags) validate(sides Sides) error {
	for _, flag := range []struct {
		name           string
		values, offers []string
	}{{"by", f.By, dimensions}, {"fail-on", f.FailOn, failures()}} {
		for _, value := range flag.values {
			if !slices.Contains(flag.offers, value) {
				return fmt.Errorf("--%s %s: use some of %s, with commas", flag.name, value, strings.Join(flag.offers, ", "))
			}
		}
	}
	inCluster := slices.Contains(slices.Concat(sides.Old, sides.New), InCluster)
	switch {
	case slices.Contains(f.FailOn, "none") && len(f.FailOn) > 1:
		return errors.New("--fail-on: none excludes the others")
	case inCluster && sides.Applied && !f.FromCluster:
		return errors.New("expected OLD and NEW, or --from-cluster: what to compare the policies with")
	case inCluster && !f.FromCluster:
		return errors.New("cluster is the policies of the cluster: add --from-cluster, or name a folder of that name ./cluster")
	case f.FromCluster && len(f.Facts.Files) > 0:
		return errors.New("--from-cluster excludes --facts, which the cluster has")
	case !f.FromCluster && f.Kubeconfig+f.Context != "":
		return errors.New("--kubeconfig and --context are for --from-cluster")
	case len(f.Requests) == 0 && !f.FromCluster && !f.search && !f.Authorization:
		return errors.New("no requests: name audit logs, cases, objects or AdmissionReviews with --requests, or add --from-cluster or --search")
	}
	return cli.ReadsStdinOnce(sides.Old, sides.New, f.Requests)
}

// read reads both sets of policies, and connects to the cluster if there is one.
func (f *Flags) read(cmd *cobra.Command, s cli.Streams, sides Sides) (was, is policies.Set, from *clients.Set, err error) {
	var stored []api.Policy
	if f.FromCluster {
		config, err := cluster.Find(f.Kubeconfig, f.Context)
		if err != nil {
			return was, is, nil, err
		}
		if from, err = existing.Connect(config); err != nil {
			return was, is, nil, err
		}
		if stored, err = f.stored(cmd, s, from, sides); err != nil {
			return was, is, nil, err
		}
	}
	if was, err = policies.None(&f.Limits); err != nil {
		return was, is, nil, err
	}
	if was, err = f.side(cmd, s, was, sides.Old, stored); err != nil {
		return was, is, nil, err
	}
	if sides.Applied {
		is, err = was.Replaced(cmd, s, sides.New)
	} else {
		is, err = f.side(cmd, s, was, sides.New, stored)
	}
	return was.OnPods(), is.OnPods(), from, err
}

// stored returns the policies of the cluster. Of kinds that the user may not read it says so: what these
// decide is in neither set.
func (f *Flags) stored(cmd *cobra.Command, s cli.Streams, from *clients.Set, sides Sides) ([]api.Policy, error) {
	if !slices.Contains(slices.Concat(sides.Old, sides.New), InCluster) {
		return nil, nil
	}
	stored, forbidden, err := policies.FromCluster(cmd, s, from.Policies, f.Namespace)
	if forbidden = policies.OfWrites(forbidden); err == nil && len(forbidden) > 0 {
		hint := ""
		if f.Namespace == "" {
			hint = "; -n " + cluster.NamespaceOf(f.Kubeconfig, f.Context) + " reads one namespace"
		}
		cli.Notef(cmd, s, "warning", "%s: they are in neither set%s", policies.NoRight(forbidden), hint)
	}
	return stored, err
}

// side returns one of the sets: what it has in common with the set before is compiled once.
func (f *Flags) side(cmd *cobra.Command, s cli.Streams, before policies.Set, paths []string, stored []api.Policy) (policies.Set, error) {
	files := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == InCluster })
	if len(files) == len(paths) {
		if len(paths) == 0 {
			return before, nil
		}
		set, err := before.After(cmd, s, paths)
		if err != nil {
			return set, fmt.Errorf("%s: %w", strings.Join(paths, ", "), err)
		}
		if set.OfCandidates() {
			return before.Replacing(set), nil
		}
		return set, nil
	}
	if len(files)+len(stored) == 0 {
		return policies.None(&f.Limits)
	}
	set, err := policies.UsableWith(cmd, s, files, stored, &f.Limits)
	return set.Elsewhere(stored), err
}
