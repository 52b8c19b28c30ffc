package observe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
)

type watchFlags struct {
	replicas  replica.Flags
	outcomes  [5]bool
	namespace string
	policy    string
	user      string
	kind      string
	last      int
	since     since
	slower    cli.Duration
	once      bool
	explain   bool
	// candidates shows decisions of candidates that differ, instead of those that are made.
	candidates bool

	output cli.OutputFlag
	color  cli.ColorFlag
}

const watchLong = `Watch shows the last decisions of all replicas, then each new one, in the order of time.
It shows names and never contents: requests, users, policies and their rules.

Decisions that differ in nothing but their times, such as those about a controller that tries
again, are one line and how many there are; -o json has each.

It finds the replicas in the cluster of the kubeconfig and connects to them as 'kubectl
port-forward' does, or connects to URLs (--server). Replicas serve decisions with
--api-address (api.enabled in the chart). A replica is lost or gets ready: watch says so,
reconnects, resumes where it was, and counts the decisions that it missed.

The flags select decisions at the replicas. Of --denied, --changed, --failed, --warned and
--exempted several are alternatives; all others hold at once. With --policy it is that policy
which denied, changed, failed or was exempted from; warnings are those of the request. Of
requests to authorize only those are there about which a policy said something.

--since begins with what replicas keep of the last minutes or hours, and says how far back
that goes: replicas keep a number of decisions, and none over a restart. Times are those of
this terminal, without the date; if it begins over an hour ago, or at a time, they have the
date and are in UTC.

With --candidates it shows the decisions of policy candidates that differ from those of the
policies in force: the request would be denied (denied+), and was not, and so on. Then
--denied and the like select these, and --policy names a candidate or one of its policies.

You need the right to watch decisions.usher.dev, or candidatedecisions.usher.dev: in all namespaces, or in one, with -n. The
credentials are the client certificate of the kubeconfig, a token of a ServiceAccount
(--service-account), or a token in a file (--token-file).`

// Watch returns usher watch.
func Watch(s cli.Streams) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show decisions as they are made: who wrote what, and what policies did about it",
		Long:  watchLong,
		Example: `  usher watch
  usher watch --denied -n shop --explain
  usher watch --since 15m --slower-than 500ms
  usher watch --failed --policy require-team
  usher watch --candidates --denied -n shop --explain
  usher watch --user jane --kind Deployment --last 1000 --once
  usher watch -o json | jq -r 'select(.verdict == "deny") | .user'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(cmd); err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			return f.run(cmd, s)
		},
	}
	flags := cmd.Flags()
	f.replicas.Register(flags)
	for i, o := range recent.Outcomes() {
		flags.BoolVar(&f.outcomes[i], string(o), false, outcomeUsage(o))
	}
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the requests to show (default: all)")
	flags.StringVar(&f.policy, "policy", "", "show only decisions in which this policy made a difference: NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME")
	flags.StringVar(&f.user, "user", "", "show only the requests of this user")
	flags.StringVar(&f.kind, "kind", "", "show only requests for objects of this kind, or for this resource, such as Deployment")
	flags.IntVar(&f.last, "last", 100, "number of past decisions to show first; up to "+strconv.Itoa(recent.Size))
	flags.Var(&f.since, "since", "show the past decisions that are no older than this first, in place of the last 100: as in 15m, or a time such as 2030-01-31T12:00:00Z, or the last 12:00 in UTC")
	flags.Var(&f.slower, "slower-than", "show only decisions that took longer than this, as in 100ms")
	flags.BoolVar(&f.once, "once", false, "show the past decisions and exit")
	flags.BoolVar(&f.explain, "explain", false, "show what each rule did that made a difference, and how to explain the whole decision")
	flags.BoolVar(&f.candidates, "candidates", false, "show what policy candidates would decide otherwise, instead of the decisions that are made")
	f.output.Register(cmd, "line", "json")
	f.color.Register(cmd)
	cli.Endless(cmd)
	return cmd
}

func outcomeUsage(o recent.Outcome) string {
	switch o {
	case recent.Denied:
		return "show denied requests"
	case recent.Changed:
		return "show requests whose object was changed"
	case recent.Failed:
		return "show requests for which a rule failed, or that could not be decided"
	case recent.Warned:
		return "show requests with warnings"
	case recent.Exempted:
		return "show requests to which an exemption applied"
	}
	return ""
}

func (f *watchFlags) validate(cmd *cobra.Command) error {
	if f.since.Duration > 0 && !cmd.Flags().Changed("last") {
		f.last = recent.Size
	}
	if f.last < 0 || f.last > recent.Size {
		return fmt.Errorf("--last %d: expected a number from 0 to %d, which is what a replica keeps", f.last, recent.Size)
	}
	if f.since.Duration < 0 || f.slower < 0 {
		return errors.New("--since and --slower-than: expected a duration such as 15m or 100ms, not a negative one")
	}
	if f.namespace != "" && len(validation.IsDNS1123Label(f.namespace)) > 0 {
		return fmt.Errorf("-n %s: not the name of a namespace", printable.Line(f.namespace))
	}
	return nil
}

// decisions are those to show.
func (f *watchFlags) decisions() *served.Decisions {
	filter := recent.Filter{Policy: f.policy, User: f.user, Kind: f.kind, Since: time.Duration(f.since.Duration), Slower: time.Duration(f.slower)}
	for i, o := range recent.Outcomes() {
		if f.outcomes[i] {
			filter.Outcomes = append(filter.Outcomes, o)
		}
	}
	return &served.Decisions{Namespace: f.namespace, Filter: filter, Last: f.last, Candidates: f.candidates}
}

func (f *watchFlags) run(cmd *cobra.Command, s cli.Streams) error {
	ctx := cmd.Context()
	f.replicas.Warn = func(text string) { cli.Notef(cmd, s, "warning", "%s", text) }
	set, err := f.replicas.Connect(ctx)
	if err != nil {
		return err
	}
	all, err := set.Find(ctx)
	if err != nil {
		return err
	}
	if err := set.NoNamespace(ctx, f.namespace); err != nil {
		cli.Notef(cmd, s, "warning", "-n: %v", err)
	}
	p := &printer{flags: f, streams: s, palette: f.color.Palette(s.Out)}
	if f.once {
		return f.printLast(ctx, p, all)
	}
	if _, err := fmt.Fprintf(s.Err, "usher watch: %s\n", f.selected(len(all))); err != nil {
		return err
	}
	err = f.decisions().Follow(ctx, set, all, p.print)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return p.end() // The user ends it.
	}
	return err
}

// selected says which decisions are shown.
func (f *watchFlags) selected(replicas int) string {
	of := "decisions"
	if f.candidates {
		of = "decisions of candidates"
	}
	parts := []string{fmt.Sprintf("following %s at %s", of, cli.Count(replicas, "replica", "replicas"))}
	for _, part := range []struct{ before, value string }{
		{"in namespace ", f.namespace}, {"by policy ", f.policy}, {"for user ", f.user}, {"about ", f.kind},
	} {
		if part.value != "" {
			parts = append(parts, part.before+printable.Line(part.value))
		}
	}
	var outcomes []string
	for _, o := range f.decisions().Filter.Outcomes {
		outcomes = append(outcomes, string(o))
	}
	if len(outcomes) > 0 {
		parts = append(parts, strings.Join(outcomes, " or "))
	}
	if f.slower > 0 {
		parts = append(parts, "slower than "+time.Duration(f.slower).String())
	}
	return strings.Join(parts, ", ")
}

// printLast prints the last decisions of all replicas.
func (f *watchFlags) printLast(ctx context.Context, p *printer, all []*replica.Replica) error {
	items, reaches, err := f.decisions().ListAll(ctx, all)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		if _, err := fmt.Fprintln(p.streams.Err, "usher watch: nothing, as far as the decisions of replicas go back; older ones are in their logs: see docs/watch.md"); err != nil {
			return err
		}
	}
	for _, i := range items {
		i.Replicas = len(all)
		if err := p.print(i); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	for _, i := range reaches {
		if err := p.print(i); err != nil {
			return err
		}
	}
	return nil
}
