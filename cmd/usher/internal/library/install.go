package library

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/library"
)

type installFlags struct {
	packs.Flags

	out                 string
	apply, dryRun       bool
	downgrade           bool
	kubeconfig, context string
}

func newInstall(s cli.Streams) *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use:   "install PACK|POLICY...",
		Short: "Write the manifests of policies of packs, or apply them to a cluster",
		Long: `Install prints the manifests of policies, writes them to the folder that --out names, or
with --apply applies them to the cluster of the kubeconfig (server-side, with the field
manager usher-library).

A policy that exists, in the folder or in the cluster, is replaced by the version of the
pack, and keeps its bindings: actions, params and namespaces stay, unless a flag says
otherwise. Exemptions are objects of their own, and stay. What changes is printed. A policy
of the same name that is not of a pack is not replaced, nor is one of a later version,
unless --downgrade is set. Nor does --apply replace what somebody else writes at the same
time. Before it writes, it warns of requests without which a cluster cannot recover that a
policy would refuse. Policies that a pack does not have any more are named, and stay.

With --namespaces, --action and --params are for these namespaces alone: each policy gets a
binding of that name, with the params of the others, or its binding for the namespace is
changed. Without --namespaces, they are for all bindings, also for those.

With --namespace they are ObjectPolicies of that namespace, which its tenants may write.
Policies that would mean something else, such as those for objects that are in no namespace,
are named and left out.

With --dry-run nothing is written, and API servers say whether they would accept it. With
--apply --dry-run the manifests that would be applied are printed, with the bindings of the
cluster: 'usher impact FILE --from-cluster' says what these would refuse.`,
		Example: `  usher library install supply-chain --params 'registries=[registry.acme.example]' --out policies/
  usher library install networking --apply --dry-run
  usher library install networking --apply
  usher library install networking --apply --action Deny --namespaces shop --dry-run > deny.yaml
  usher impact deny.yaml --from-cluster
  usher library install networking --apply --action Deny --namespaces shop
  usher library install networking --apply --action Deny
  usher library install ingress-tls service-targets --apply --namespace shop
  usher library install reliability | kubectl apply --server-side -f -`,
		ValidArgsFunction: f.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(args); err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			chosen, settings, err := f.selected(cmd, s, args)
			if err != nil {
				return err
			}
			if f.Action() == "Deny" {
				cli.Notef(cmd, s, "note", "look at what --action Deny would refuse first: 'usher impact FILE --from-cluster', which knows exemptions, with the FILE that --apply --dry-run prints, 'usher library try', and 'usher check --lockout'")
			}
			return f.install(cmd, s, chosen, settings)
		},
	}
	f.Register(cmd)
	f.RegisterSettings(cmd)
	f.RegisterNamespaces(cmd)
	f.RegisterNamespace(cmd)
	f.registerTarget(cmd)
	return cmd
}

// registerTarget adds the flags that say where policies are written.
func (f *installFlags) registerTarget(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "folder to write the files to, one policy a file")
	flags.BoolVar(&f.apply, "apply", false, "apply the manifests to the cluster of the kubeconfig")
	flags.BoolVar(&f.dryRun, "dry-run", false, "ask whether the change would be allowed, and write nothing; for --apply, and for --out, which says what it would write")
	flags.BoolVar(&f.downgrade, "downgrade", false, "replace policies of a later version of their pack; for --apply and --out")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; for --apply (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
}

func (f *installFlags) validate(args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("name packs or policies: 'usher library list' has their names")
	case f.apply && f.out != "":
		return errors.New("--apply and --out exclude each other")
	case f.dryRun && !f.apply && f.out == "":
		return errors.New("--dry-run is for --apply and --out")
	case f.downgrade && !f.apply && f.out == "":
		return errors.New("--downgrade is for --apply and --out")
	case !f.apply && (f.kubeconfig != "" || f.context != ""):
		return errors.New("--kubeconfig and --context are for --apply")
	}
	return nil
}

// selected returns the policies to install, with their settings, and names those that it leaves out.
func (f *installFlags) selected(cmd *cobra.Command, s cli.Streams, args []string) ([]library.Policy, []library.Settings, error) {
	chosen, settings, err := f.Select(args)
	if err != nil {
		return nil, nil, err
	}
	chosen, settings, left, err := f.Within(chosen, settings)
	if err == nil && f.Namespace() != "" && f.Action() != "" {
		cli.Notef(cmd, s, "note", "these are ObjectPolicies of namespace %[1]s, whatever policies of the cluster do there: --namespaces %[1]s, in place of --namespace, is to change these", f.Namespace())
	}
	if len(left) > 0 {
		cli.Notef(cmd, s, "note", "left out, since no policy of namespace %s means the same: %s", f.Namespace(), strings.Join(left, "; "))
	}
	return chosen, settings, err
}

func (f *installFlags) install(cmd *cobra.Command, s cli.Streams, chosen []library.Policy, settings []library.Settings) error {
	all, err := f.Packs()
	if err != nil {
		return err
	}
	plan := &Plan{Packs: all, Policies: chosen, Settings: settings, Downgrade: f.downgrade, Manifests: f.apply && f.dryRun}
	switch {
	case f.apply:
		config, err := cluster.Find(f.kubeconfig, f.context)
		if err != nil {
			return err
		}
		config.WarningHandlerWithContext = cluster.Warnings(s.Err)
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		for _, name := range f.Namespaces() {
			if missing := cluster.NoNamespace(cmd.Context(), client, name); missing != nil {
				cli.Notef(cmd, s, "warning", "--namespaces: %v", missing)
			}
		}
		return Install(cmd.Context(), s, Cluster(client, f.Namespace(), config.WarningHandlerWithContext, f.dryRun), plan)
	case f.out != "":
		target, err := openFolder(f.out, f.dryRun)
		if err != nil {
			return fmt.Errorf("write policies: %w", err)
		}
		defer target.close()
		return Install(cmd.Context(), s, target, plan)
	default:
		return printManifests(s.Out, chosen, settings)
	}
}
