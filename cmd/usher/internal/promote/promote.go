// Package promote has the command that puts into force what a candidate embeds.
package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
)

// FieldManager is the field manager of policies that are promoted.
const FieldManager = "usher-promote"

// Options say what is done to a candidate.
type Options struct {
	// Apply writes the policies; otherwise API servers are only asked whether they would accept them.
	Apply bool
	// Force promotes although there are reasons against it.
	Force bool
	// Shown is the digest of what may be written, as a run without Apply prints it; everything may if it is empty.
	Shown string
	// Warnings gets what policy admission would warn of, before anything is written.
	Warnings rest.WarningHandlerWithContext
	// Home is the namespace in which a candidate is looked for first if there is none where it is named, and Flags
	// name the cluster in commands that are printed.
	Home, Flags string
}

type promoteFlags struct {
	Options

	kubeconfig, context, namespace string
	timeout                        time.Duration
}

const promoteLong = `Promote shows what a candidate has counted, and what its promotion would write: the
difference between each policy that it embeds and what is stored. API servers are asked
whether they would accept it. With --apply it writes the policies, or deletes the one that
the candidate removes, and then deletes the candidate.

A policy gets the spec that was evaluated, without fields that others have set in the one
that is stored. Other labels and annotations of that one stay. Nothing is written unless API
servers would accept all of it, and nothing that somebody else writes at the same time is
replaced. The candidate can change between the two runs: with --shown, and
what the first one has printed, the second one writes nothing else than that.

A candidate is not promoted if it is not evaluated, if counting began less than a minute ago
and no numbers are written yet, if evaluations have failed, if a policy has changed since the
candidate was compared with it, or if policy admission would refuse one, whether or not Usher
runs, unless --force is set.

A name alone is that of a ClusterPolicyCandidate, and with --namespace that of a
PolicyCandidate. A kind is written as for kubectl: pcand/NAME is in the namespace of the
kubeconfig without --namespace.

The exit status is 1 if the candidate is not, or would not be, promoted, and 2 if the
cluster cannot be reached or there is no such candidate.`

// Command returns usher promote.
func Command(s cli.Streams) *cobra.Command {
	var f promoteFlags
	cmd := &cobra.Command{
		Use:   "promote NAME|KIND/NAME",
		Short: "Put into force what a candidate embeds",
		Long:  promoteLong,
		Example: `  # what has it counted, and what would be written?
  usher promote tags-deny

  # put it into force
  usher promote tags-deny --apply --shown 8c1f0e9ab07d25c4d2b1e6f3a4958670

  # one of a namespace
  usher promote no-latest --namespace shop --apply`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := candidateNamed(args[0], f.namespace)
			if err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			if f.Shown != "" && !f.Apply {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("--shown is for --apply")}
			}
			if f.Home = cluster.NamespaceOf(f.kubeconfig, f.context); kind.Namespaced && f.namespace == "" {
				f.namespace = f.Home
			}
			f.Flags = f.again()
			config, err := cluster.Find(f.kubeconfig, f.context)
			if err != nil {
				return err
			}
			f.Warnings = cluster.Warnings(s.Err)
			config.WarningHandlerWithContext = f.Warnings
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("find cluster: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			return Promote(ctx, s, client, usher.PolicyRef{Kind: kind.Kind, Namespace: f.namespace, Name: name}, f.Options)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *promoteFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Apply, "apply", false, "apply the policies to the cluster of the kubeconfig, and delete the candidate")
	flags.StringVar(&f.Shown, "shown", "", "apply only what a run without --apply has shown: what its last line has for this flag")
	flags.BoolVar(&f.Force, "force", false, "promote a candidate although there are reasons against it")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the one that kubectl would use, or the cluster of this pod)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the policies: that of a PolicyCandidate")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "timeout of the whole command")
}

// again returns the flags that name the cluster, as they are written.
func (f *promoteFlags) again() string {
	return served.Flag("kubeconfig", f.kubeconfig) + served.Flag("context", f.context)
}

// candidateNamed returns the kind and the name of a candidate.
func candidateNamed(arg, namespace string) (kind api.Kind, name string, err error) {
	word, name, typed := strings.Cut(arg, "/")
	if !typed {
		name = word
		if word = "ClusterPolicyCandidate"; namespace != "" {
			word = "PolicyCandidate"
		}
	}
	kinds := api.Kinds()
	i := slices.IndexFunc(kinds, func(k api.Kind) bool {
		short := "cpcand"
		if k.Namespaced {
			short = "pcand"
		}
		return k.Candidate && (k.IsNamed(word) || strings.EqualFold(word, short))
	})
	switch {
	case i < 0:
		return kind, "", fmt.Errorf("%q is not a kind of candidate: write policycandidate/NAME or clusterpolicycandidate/NAME", word)
	case name == "" || strings.Contains(name, "/"):
		return kind, "", errors.New("name one candidate, as NAME or KIND/NAME")
	case !kinds[i].Namespaced && namespace != "":
		return kind, "", errors.New("a ClusterPolicyCandidate has no namespace: omit --namespace")
	}
	return kinds[i], name, nil
}

// Promote shows what a candidate has counted and what it would put into force, and does that if it is
// to. It returns [cli.ErrNegative] for a candidate that is not, or would not be, promoted.
func Promote(ctx context.Context, s cli.Streams, client dynamic.Interface, ref usher.PolicyRef, o Options) error {
	c, err := read(ctx, client, ref, &o)
	if err != nil {
		return err
	}
	c.counted(s.Out)
	changes, err := c.plan(ctx)
	if err != nil {
		return refuse(s, ref, err)
	}
	reasons, err := c.reasons(ctx, changes, s.Err)
	if err != nil {
		return err
	}
	refused := false
	for i := range changes {
		if err := changes[i].admit(ctx, o.Warnings); err != nil {
			reasons = append(reasons, err.Error())
		}
		if err := changes[i].try(ctx); err != nil {
			refused = true
			fmt.Fprintf(s.Err, "usher: %s is refused: %v\n", changes[i].ref, err)
			continue
		}
		if err := changes[i].show(s.Out); err != nil {
			return err
		}
	}
	for _, reason := range reasons {
		fmt.Fprintf(s.Err, "warning: %s\n", reason)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case refused:
		return refuse(s, ref, errors.New("API servers do not accept all of it"))
	case len(reasons) > 0 && !o.Force:
		return refuse(s, ref, errors.New("see the warnings; --force promotes it nevertheless"))
	case !o.Apply:
		fmt.Fprintf(s.Out, "nothing is written: --apply puts this into force, and nothing else with --shown %s\n", digest(changes))
		return nil
	case o.Shown != "" && o.Shown != digest(changes):
		return refuse(s, ref, errors.New("this is not what was shown: somebody has changed the candidate, or a policy; run the command without --apply"))
	}
	for i := range changes {
		done, err := changes[i].write(ctx)
		if err != nil {
			fmt.Fprintf(s.Err, "usher: %s is not written, nor what follows it, and the candidate is kept: %v\n", changes[i].ref, err)
			return cli.ErrNegative
		}
		fmt.Fprintf(s.Out, "%s %s\n", done, changes[i].ref)
	}
	if err := c.remove(ctx); err != nil {
		fmt.Fprintf(s.Err, "usher: what it embeds is in force, but %s is still there (delete it with '%s'): %v\n", ref, c.deletion(), err)
		return cli.ErrNegative
	}
	fmt.Fprintf(s.Out, "deleted %s\n", ref)
	return nil
}

func refuse(s cli.Streams, ref usher.PolicyRef, why error) error {
	fmt.Fprintf(s.Err, "usher: %s is not promoted: %v\n", ref, why)
	return cli.ErrNegative
}
