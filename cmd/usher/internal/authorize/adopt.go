package authorize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/proof"
)

// proofFlags say in which cluster policies are proven.
type proofFlags struct {
	kubeconfig, context, namespace string
	timeout                        time.Duration
}

func (f *proofFlags) register(flags *pflag.FlagSet, namespace string) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the one that kubectl would use, or the cluster of this pod)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", namespace)
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "timeout of the whole command")
}

func (f *proofFlags) client() (dynamic.Interface, error) {
	config, err := cluster.Find(f.kubeconfig, f.context)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("find cluster: %w", err)
	}
	return client, nil
}

func newAdopt(s cli.Streams) *cobra.Command {
	var f proofFlags
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:   "adopt [KIND/NAME...]",
		Short: "Prove policies whose writers are not known to have had the right to write them",
		Long: `Adopt takes over policies that have no proof, so that they count: those from before an
upgrade, from a backup or another cluster, and all after the key of proofs was lost. You
answer for what they say then: look at them first. The API server asks Usher, and Usher asks
whether you have the verb escalate on each policy, and what else it takes to write it. The
policy itself stays as it is.

Without arguments and --all it lists the policies that are not proven. A policy is named by
kind and name, as in authorizationpolicy/read-pods, in the namespace of --namespace.

A server of Usher has to run and be called, since it makes the proofs: 'usher status' says whether that is so.

The exit status is 1 if a policy is not adopted, and 2 if the cluster cannot be reached.`,
		Example: `  # which policies are not proven?
  usher authz adopt

  # would I be allowed to adopt them?
  usher authz adopt --all --dry-run

  # adopt one, and all of a namespace
  usher authz adopt clusterauthorizationpolicy/hide-db
  usher authz adopt --all -n team-a`,
		ValidArgsFunction: func(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return kindNames(), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("--all excludes names of policies")}
			}
			client, err := f.client()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			found, err := find(ctx, client, f.namespace, args, func(err error) error {
				cli.Notef(cmd, s, "warning", "left out: %v", err)
				return nil
			})
			if err != nil {
				return err
			}
			if !all && len(args) == 0 {
				return list(s.Out, found)
			}
			return Adopt(ctx, client, found, dryRun, s)
		},
	}
	flags := cmd.Flags()
	f.register(flags, "namespace of the policies; with --all, nothing else is adopted (default: all)")
	flags.BoolVar(&all, "all", false, "adopt every policy that is not proven")
	flags.BoolVar(&dryRun, "dry-run", false, "ask whether the change would be allowed; nothing is stored")
	return cmd
}

// list shows the policies that are not proven.
func list(out io.Writer, policies []Stored) error {
	for i := range policies {
		if _, err := fmt.Fprintf(out, "%s: %s\n", policies[i], policies[i].Unproven); err != nil {
			return err
		}
	}
	var err error
	switch len(policies) {
	case 0:
		_, err = fmt.Fprintln(out, "every policy that needs a proof has one")
	default:
		_, err = fmt.Fprintf(out, "not proven, as their status says: %d (it follows an adoption within seconds); look at what they allow, then adopt them by name, or with --all\n", len(policies))
	}
	return err
}

// Adopt requests proofs of policies, or with a dry run asks whether that would be allowed. It
// continues after a policy that is refused.
func Adopt(ctx context.Context, client dynamic.Interface, policies []Stored, dryRun bool, s cli.Streams) error {
	refused := 0
	for i := range policies {
		p := &policies[i]
		text := proof.Adopt
		if strings.HasPrefix(p.Proof, proof.Adopt) {
			// Only a new value of the annotation requests a proof.
			text = fmt.Sprintf("%s-%d", proof.Adopt, time.Now().UnixNano())
		}
		o := metav1.PatchOptions{FieldManager: "usher-adopt"}
		if dryRun {
			o.DryRun = []string{metav1.DryRunAll}
		}
		got, err := p.annotate(ctx, client, text, o)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("adopt %s: %w", p, err)
		case err != nil && strings.Contains(err.Error(), "failed calling webhook"):
			refused++
			fmt.Fprintf(s.Err, "usher: %s is not adopted: no server of Usher answers, and one has to make the proof; 'usher status' says what is wrong: mend that, then adopt again: %v\n", p, err)
		case err != nil:
			refused++
			fmt.Fprintf(s.Err, "usher: %s is not adopted: %v\n", p, err)
		case !proof.Is(got):
			refused++
			fmt.Fprintf(s.Err, "usher: %s is not adopted: the API server did not ask Usher, which has to make the proof, or one of a version without proofs; 'usher status' says whether a server runs and is called: then adopt again\n", p)
		case dryRun:
			fmt.Fprintf(s.Out, "would adopt %s\n", p)
		default:
			fmt.Fprintf(s.Out, "adopted %s\n", p)
		}
	}
	if len(policies) == 0 {
		fmt.Fprintln(s.Out, "nothing to adopt: every policy that needs a proof has one")
	}
	if refused > 0 {
		return cli.ErrNegative
	}
	return nil
}
